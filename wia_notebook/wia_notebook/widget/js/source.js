import { h } from "./dom.js";
import {
  BYTES,
  FAMILY,
  FLOPS,
  LABEL,
  NAME,
  ORIGINS,
  PARENT,
  SPANS,
  TYPE,
  linesOf,
  linesText,
  litByLines,
} from "./links.js";
import { lineCounts } from "./line_counts.js";
import { listing, plainRows } from "./listing.js";
import { gaugeCards } from "./resources_tab.js";

// The left side: the user's cell, always in sight, and words about what is selected.
export function sourcePane(view) {
  const { data, store, links, highlighter } = view;
  const state = h("span", { class: "state" });
  const text = listing({
    rows: plainRows(data.source, "wia"),
    language: "wia",
    highlighter,
    label: "your cell",
    bar: data.counts ? (row) => lineCounts(data.counts, store.metric).bar(row) : null,
    onHover: (line) => store.hover(line ? `line/${line}` : ""),
    onPick: (line) => store.pick(`line/${line}`),
  });
  const card = h("div", { class: "wia-cards", "aria-live": "polite" });
  const element = h(
    "section",
    { class: "wia-source", "aria-label": "your cell" },
    h("h4", {}, h("span", {}, "Your cell"), state),
    text.element,
    card,
    splitter(view),
  );

  function light(lit, selection, pinned) {
    text.light(lit.lines);
    state.textContent = !selection
      ? ""
      : `${linesText(lit.lines) || "no line"} ${pinned ? "pinned" : "linked"}`;
    const shown = describe(view, selection, lit);
    const extra = store.tab === "assembly" ? gaugeCards(data.resources) : [];
    card.replaceChildren(...[shown, ...extra].filter(Boolean));
  }
  return { element, light, refresh: text.refresh };
}

// The edge of the pane: dragged, or moved with the arrow keys; a double click fits the text again.
function splitter(view) {
  const { root } = view;
  const pane = () => root.querySelector(".wia-source");
  const wide = (width) =>
    root.style.setProperty("--source", `${Math.min(root.clientWidth * 0.7, Math.max(160, width))}px`);
  const edge = h("div", {
    class: "wia-edge",
    role: "separator",
    tabindex: "0",
    "aria-orientation": "vertical",
    "aria-label": "width of your cell",
    ondblclick: () => root.style.removeProperty("--source"),
    onpointerdown: (event) => {
      edge.setPointerCapture(event.pointerId);
      event.preventDefault();
    },
    onpointermove: (event) => {
      if (edge.hasPointerCapture(event.pointerId))
        wide(event.clientX - pane().getBoundingClientRect().left);
    },
    onkeydown: (event) => {
      const step = { ArrowLeft: -24, ArrowRight: 24 }[event.key];
      if (!step) return;
      wide(pane().offsetWidth + step);
      event.preventDefault();
      event.stopPropagation();
    },
  });
  return edge;
}

// One card in plain words about the selected op, group, line or candidate.
function describe(view, selection, lit) {
  if (!selection) return null;
  const [kind, rest] = selection.split("/");
  if (kind === "line" || kind === "text") return lineCard(view, lit);
  const ids = rest.split(",");
  const found = ids.map((id) => view.links.row(kind, id)).filter(Boolean);
  if (ids.length === 1 && !found.length) {
    const [role, name] = rest.split(":");
    return name
      ? card("movement", name, [
          role === "out" ? "an output of the kernel" : "a parameter of the kernel",
        ])
      : null;
  }
  if (found.length === 1) return opCard(view, kind, found[0]);
  return found.length
    ? card("fusion", found.map((op) => op[LABEL]).join(" → "), ["a candidate for fusion"])
    : null;
}

function card(family, title, paragraphs) {
  return h(
    "div",
    { class: `wia-card f-${family}` },
    h("b", { class: "ink" }, title),
    paragraphs.filter(Boolean).map((text) => h("p", {}, text)),
  );
}

// Where a line went: ops by name while there are few, then counts, then lines of machine text.
function lineCard(view, lit) {
  const { data } = view;
  const stages = data.stages
    .filter((stage) => stage.changed && stage.ops.length)
    .map((stage) => [stage.title, opsText(view, stage, lit.ops.get(stage.name) ?? [])]);
  const panes = data.assembly.map((pane) => [
    pane.title,
    count(litByLines(pane.stage ? view.stage(pane.stage).lines : pane.lines, lit).length, "line"),
  ]);
  const parts = [...stages, ...panes].filter(([, text]) => text);
  return parts.length
    ? h(
        "div",
        { class: "wia-card" },
        h("b", {}, linesText(lit.lines)),
        h(
          "dl",
          {},
          parts.map(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]),
        ),
      )
    : null;
}

const count = (number, noun) => (number ? `${number} ${noun}${number > 1 ? "s" : ""}` : "");

function opsText(view, stage, ids) {
  const rows = [...ids]
    .map((id) => view.links.row(stage.name, id))
    .filter((row) => row && row[NAME] !== "func.return");
  const labels = [...new Set(rows.map((row) => row[LABEL]))];
  return stage.level === "high" && labels.length < 6 ? labels.join(", ") : count(rows.length, "op");
}

function opCard(view, stageName, op) {
  const numbers = [op[TYPE], op[FLOPS], op[BYTES] && `${op[BYTES]} of result`]
    .filter(Boolean)
    .join(" · ");
  const where = linesText(linesOf(op[SPANS]));
  const members = view.data.stages
    .find((stage) => stage.name === stageName)
    .ops.filter((row) => row[PARENT] === op[0] && !/yield$/.test(row[NAME]));
  const paragraphs = [numbers, where && `from ${where}`];
  if (op[FAMILY] === "fusion" && members.length) {
    paragraphs.push(
      `${members.length} op${members.length > 1 ? "s" : ""} in one kernel: ${members.map((row) => row[LABEL]).join(", ")}.`,
      ...whyFused(view, stageName, op, members),
    );
  }
  return card(op[FAMILY], op[LABEL], paragraphs);
}

// The reasons of the decisions that made this group, from the stage that has them.
function whyFused(view, stageName, op, members) {
  const origins = new Set(members.flatMap((row) => row[ORIGINS]));
  const stage = view.data.stages.find((candidate) => candidate.name === stageName);
  const { rows, taken, subjects } = stage.decisions;
  const reasons = rows
    .filter((_, index) => taken[index] && subjects[index].every((id) => origins.has(id)))
    .map((row) => `${row[0]}: ${row[row.length - 1].split("\n")[0].replace(/^✓ \w+: /, "")}`);
  return reasons.slice(0, 2).map((reason) => `${reason}.`);
}

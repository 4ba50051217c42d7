import { h } from "./dom.js";
import { lineCounts, metricChoice } from "./line_counts.js";
import { FAMILY, LABEL, linesText, litByLines } from "./links.js";
import { listing, plainRows } from "./listing.js";
import { onItsWay } from "./texts.js";

// Machine text, up to two formats side by side, each line linked to the cell.
export function assemblyTab(view) {
  const { data, store } = view;
  if (!data.assembly.length)
    return { element: h("p", { class: "wia-empty" }, data.hint || "no machine code yet") };
  const shown = chosen(view);
  const buttons = data.assembly.map((pane) =>
    h(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": String(shown.includes(pane)),
        onclick: () => choose(view, pane),
      },
      pane.title,
    ),
  );
  const words = h("div", { class: "wia-card wia-explain", "aria-live": "polite" });
  const panes = shown.map((pane) =>
    assemblyPane(view, pane, (line) => explain(view, pane, line, words)),
  );
  const [kind, format, line] = store.selected.split("/");
  const pinned = kind === "text" ? shown.find((pane) => pane.format === format) : null;
  explain(view, pinned ?? shown[0], pinned ? Number(line) : 0, words);
  const titles = [...new Set(panes.flatMap((pane) => pane.counts.titles))];
  const bar =
    data.assembly.length > 1 || titles.length
      ? h(
          "div",
          { class: "wia-bar" },
          h("span", { class: "dim" }, "show"),
          buttons,
          metricChoice(view, titles),
        )
      : null;
  const element = h(
    "div",
    {},
    bar,
    h(
      "div",
      { class: `wia-two${panes.length > 1 ? "" : " one"}` },
      panes.map((pane) => pane.element),
    ),
    h("div", { class: "wia-under pad" }, words),
  );

  let begun = false;
  function light(lit, selection) {
    if (!begun) panes.forEach((pane) => pane.part.start(pane.entry));
    begun = true;
    for (const pane of panes) {
      const lines = new Set(litByLines(pane.lines, lit));
      const at = linesAt(data, pane.format, selection);
      at.forEach((line) => lines.add(line));
      pane.part.light(lines, at);
      if (selection && lines.size && !store.hovering) pane.part.reveal(at[0] ?? Math.min(...lines));
    }
  }
  return { element, light };
}

// The lines of a format that a chosen line of machine text is, became, or was made of.
function linesAt(data, format, selection) {
  const [kind, chosen, text] = selection.split("/"),
    line = Number(text);
  if (kind !== "text") return [];
  if (chosen === format) return [line];
  const { madeOf } = data.assembly.find((pane) => pane.format === format);
  if (madeOf?.format === chosen)
    return madeOf.lines.filter(([, of]) => of === line).map(([made]) => made);
  const other = data.assembly.find((pane) => pane.format === chosen)?.madeOf;
  return other?.format === format
    ? other.lines.filter(([made]) => made === line).map(([, of]) => of)
    : [];
}

// The formats on show: what the reader chose, else the selected stage's and its neighbour.
function chosen(view) {
  const { data, store } = view;
  const wanted = store.formats
    .map((name) => data.assembly.find((pane) => pane.format === name))
    .filter(Boolean);
  if (wanted.length) return wanted;
  const at = Math.max(
    1,
    data.assembly.findIndex((pane) => pane.format === store.stage) > 0
      ? data.assembly.findIndex((pane) => pane.format === store.stage)
      : data.assembly.length - 1,
  );
  return data.assembly.slice(at - 1, at + 1);
}

function choose(view, pane) {
  const now = chosen(view).map((shown) => shown.format);
  const without = now.filter((name) => name !== pane.format);
  const next =
    without.length < now.length
      ? without.length
        ? without
        : now
      : [...now.slice(-1), pane.format];
  const order = view.data.assembly.map((other) => other.format);
  view.store.set({ formats: next.sort((a, b) => order.indexOf(a) - order.indexOf(b)) });
}

function assemblyPane(view, pane, onLine) {
  const stage = pane.stage ? view.stage(pane.stage) : null;
  const text = view.text(pane),
    lines = stage ? stage.lines : pane.lines,
    counts = lineCounts(pane.counts, view.store.metric);
  const part = listing({
    rows: plainRows(text ?? ""),
    language: pane.language,
    bar: counts.bar,
    highlighter: view.highlighter,
    label: `${pane.title} listing`,
    onHover: (line) => {
      view.store.hover(line && lines[line] ? `text/${pane.format}/${line}` : "");
      if (line) onLine(line);
    },
    onPick: (line) => {
      view.store.pick(`text/${pane.format}/${line}`);
      onLine(line);
    },
  });
  const element = h(
    "div",
    { class: "wia-pane flush" },
    h("h4", {}, h("span", {}, pane.title), h("span", {}, counted(counts), pane.count)),
    text === null ? onItsWay(pane) : part.element,
  );
  const entry = entryLine(pane.language, text ?? "");
  return { element, part, lines, counts, entry, format: pane.format };
}

const counted = ({ metric, source }) =>
  metric ? h("small", { class: "counted" }, `${metric.total} ${metric.title}, ${source} · `) : null;

// Where the code begins below its directives; the first line where a language has no such place.
const ENTRY = {
  ptx: /^\s*(\.visible\s+)?\.entry\b/,
  sass: /^\s*\/\*0000\*\//,
  x86: /^[\w.$"]+:/,
  llvm: /^define\b/,
};

function entryLine(language, text) {
  const pattern = ENTRY[language];
  const at = pattern ? text.split("\n").findIndex((line) => pattern.test(line)) : 0;
  return Math.max(0, at) + 1;
}

// The operation of a line in plain words, and where it comes from.
function explain(view, pane, line, words) {
  const text = line
    ? (plainRows(view.text(pane) ?? "")[line - 1]?.text ?? "")
    : "";
  const opcode = view.highlighter.opcode(pane.language, text);
  if (!opcode) {
    words.replaceChildren(
      h(
        "span",
        { class: "dim" },
        "point at an instruction: what it does and which line of the cell it comes from stand here",
      ),
    );
    return;
  }
  const lit = view.links.resolve(`text/${pane.format}/${line}`);
  const meaning = view.data.opcodes[pane.format]?.[opcode] ?? "";
  const counts = lineCounts(pane.counts, view.store.metric);
  const ops = [...lit.ops].reverse().find(([name, ids]) => ids.size && view.stage(name).graph);
  const labels = ops
    ? [...ops[1]]
        .map((id) => view.links.row(ops[0], id))
        .filter((op) => op && op[FAMILY] !== "fusion")
        .map((op) => op[LABEL])
    : [];
  const from = lit.lines.size
    ? ` · from ${linesText(lit.lines)}${labels.length ? `, ${labels.slice(0, 3).join(", ")}` : ""}`
    : "";
  words.replaceChildren(
    h("b", { class: "w-op" }, opcode),
    meaning ? ` — ${meaning}` : "",
    h("span", { class: "dim" }, `${from}${becomes(view, pane, line)} · ${pane.title} line ${line}`),
    countedAt(counts, line) ?? "",
  );
}

// The instructions that a later format has for a line: " · becomes FFMA at lines 19–22 of SASS".
function becomes(view, pane, line) {
  const later = view.data.assembly.find((other) => other.madeOf?.format === pane.format);
  const lines = later ? linesAt(view.data, later.format, `text/${pane.format}/${line}`) : [];
  const text = lines.length ? view.text(later) : null;
  if (!text) return "";
  const rows = text.split("\n");
  const opcodes = lines.map((each) => view.highlighter.opcode(later.language, rows[each - 1]));
  const names = [...new Set(opcodes.filter(Boolean))].slice(0, 4).join(", ");
  return ` · becomes ${names} at ${linesText(new Set(lines))} of ${later.title}`;
}

// What was counted at a line, on a line of its own.
function countedAt(counts, line) {
  const words = counts.words(line);
  return words.length
    ? h(
        "div",
        {},
        words.map(([title, text], place) => [place ? " · " : null, h("b", {}, text), ` ${title}`]),
        h("span", { class: "dim" }, ` · ${counts.source}`),
      )
    : null;
}

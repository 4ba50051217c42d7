import { diffRows, differingRange, folded } from "./diff.js";
import { h } from "./dom.js";
import { ID, LINE } from "./links.js";
import { listing, plainRows } from "./listing.js";
import { onItsWay } from "./texts.js";

const NARROW = 760;

// The text of the selected stage beside any other: a coloured diff, or the text alone.
export function textTab(view) {
  const { store, data } = view;
  const stage = view.stage(store.stage),
    beside = view.stage(store.compareStage);
  const options = [
    ["", "the text alone"],
    ...data.stages
      .filter((other) => other.name !== stage.name)
      .map((other) => [other.name, other.title]),
  ];
  const picker = h(
    "select",
    {
      "aria-label": "compare with",
      onchange: (event) => store.set({ compare: event.target.value || "-" }),
    },
    options.map(([value, title]) =>
      h("option", { value, selected: value === (beside?.name ?? "") }, title),
    ),
  );
  const status = h("span", { class: "dim" });
  const bar = h(
    "div",
    { class: "wia-bar" },
    h("b", {}, stage.title),
    h("label", {}, "beside ", picker),
    status,
  );
  const missing = [beside, stage].filter((each) => each && view.text(each) === null);
  if (missing.length) return { element: h("div", {}, bar, missing.map(onItsWay)) };
  const panes = beside ? diffPanes(view, beside, stage, status) : [onePane(view, stage)];
  const element = h(
    "div",
    {},
    bar,
    h(
      "div",
      { class: `wia-two${panes.length > 1 ? "" : " one"}` },
      panes.map((pane) => pane.element),
    ),
  );
  if (!beside) status.textContent = `${plainRows(view.text(stage), stage.language).length} lines`;

  function light(lit, selection) {
    for (const pane of panes) {
      for (const [part, own] of pane.parts) {
        const lines = view.links.litLines(own, lit);
        part.light(lines);
        if (selection && lines.size && !store.hovering) part.reveal(Math.min(...lines));
      }
    }
  }
  return { element, light };
}

function onePane(view, stage) {
  const part = listing({
    rows: plainRows(view.text(stage), stage.language),
    language: stage.language,
    highlighter: view.highlighter,
    label: `text of ${stage.title}`,
    ...listeners(view, stage),
  });
  return { element: h("div", { class: "wia-pane flush" }, part.element), parts: [[part, stage]] };
}

// A line of text selects the op printed there, else whatever the line came from.
function listeners(view, stage) {
  const byLine = new Map(stage.ops.filter((op) => op[LINE]).map((op) => [op[LINE], op[ID]]));
  const key = (line) =>
    !line
      ? ""
      : stage.language === "wia"
        ? `line/${line}`
        : byLine.has(line)
          ? `${stage.name}/${byLine.get(line)}`
          : `text/${stage.name}/${line}`;
  return {
    onHover: (line) => view.store.hover(key(line)),
    onPick: (line) => view.store.pick(key(line)),
  };
}

function diffPanes(view, beside, stage, status) {
  const old = plainRows(view.text(beside), beside.language),
    fresh = plainRows(view.text(stage), stage.language);
  const rows = diffRows(
    old.map((row) => row.text),
    fresh.map((row) => row.text),
  );
  const gone = rows.filter((row) => row.kind === "changed" && row.a !== undefined).length;
  const come = rows.filter((row) => row.kind === "changed" && row.b !== undefined).length;
  status.textContent =
    gone + come
      ? `−${gone} +${come} lines; value numbers do not count`
      : "the same text, value numbers apart";
  const opened = new Set();
  const wide = view.width() > NARROW;
  const holders = (wide ? [0, 1] : [0]).map(() => h("div", { class: "wia-pane flush" }));
  const panes = holders.map((element) => ({ element, parts: [] }));

  function build() {
    const shown = folded(rows, opened);
    const sides = wide
      ? [side(shown, old, fresh, "a"), side(shown, old, fresh, "b")]
      : [unified(shown, old, fresh)];
    const scrolled = holders[0].firstChild?.scrollTop ?? 0;
    sides.forEach((lines, index) => {
      const own = wide && index === 0 ? beside : stage;
      const part = listing({
        rows: lines,
        language: own.language,
        highlighter: view.highlighter,
        label: `text of ${own.title}`,
        onFold: (row) => (opened.add(row.at), build()),
        ...listeners(view, own),
      });
      holders[index].replaceChildren(part.element);
      panes[index].parts = [[part, own]];
    });
    if (wide) together(holders[0].firstChild, holders[1].firstChild);
    holders[0].firstChild.scrollTop = scrolled;
  }
  build();
  return panes;
}

function side(shown, old, fresh, which) {
  const lines = which === "a" ? old : fresh;
  return shown.map((row) => {
    if (row.kind === "fold") return { fold: row.count, at: row.at };
    const index = row[which];
    if (index === undefined) return { text: "", kind: "void", sign: "" };
    if (row.kind === "same") return { ...lines[index], sign: "" };
    const mark =
      row.a !== undefined && row.b !== undefined
        ? differingRange(old[row.a].text, fresh[row.b].text)[which === "a" ? "before" : "after"]
        : undefined;
    return {
      ...lines[index],
      kind: which === "a" ? "gone" : "new",
      sign: which === "a" ? "−" : "+",
      mark,
    };
  });
}

function unified(shown, old, fresh) {
  const out = [];
  let removed = [],
    added = [];
  const flush = () => {
    out.push(...removed, ...added);
    removed = [];
    added = [];
  };
  for (const row of shown) {
    if (row.kind === "changed") {
      if (row.a !== undefined)
        removed.push({ ...old[row.a], line: undefined, kind: "gone", sign: "−" });
      if (row.b !== undefined) added.push({ ...fresh[row.b], kind: "new", sign: "+" });
      continue;
    }
    flush();
    out.push(row.kind === "fold" ? { fold: row.count, at: row.at } : { ...fresh[row.b], sign: "" });
  }
  flush();
  return out;
}

// Two panes scroll as one.
function together(a, b) {
  const follow = (from, to) =>
    from.addEventListener(
      "scroll",
      () => to.scrollTop !== from.scrollTop && (to.scrollTop = from.scrollTop),
      { passive: true },
    );
  follow(a, b);
  follow(b, a);
}

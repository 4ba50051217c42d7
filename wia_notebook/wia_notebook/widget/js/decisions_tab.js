import { h, table } from "./dom.js";

// Every candidate of a pass with every number, taken and refused.
export function decisionTable(view, stage, { short = false } = {}) {
  const { taken, subjects } = stage.decisions;
  const shown = (cells) => (short ? stage.decisions.short.map((index) => cells[index]) : cells);
  const columns = shown(stage.decisions.columns),
    rows = stage.decisions.rows
      .map(shown)
      .map((row) => [...row.slice(0, -1), verdict(row[row.length - 1])]);
  const before = view.previousWithOps(stage.name);
  const last = columns.length - 1;
  return table(columns, rows, {
    row: (index) => ({
      tabindex: subjects[index].length ? "0" : null,
      onmouseenter: () =>
        before &&
        subjects[index].length &&
        view.store.hover(`${before}/${subjects[index].join(",")}`),
      onmouseleave: () => view.store.hover(""),
      onclick: () =>
        before &&
        subjects[index].length &&
        view.store.pick(`${before}/${subjects[index].join(",")}`),
      onkeydown: (event) => event.key === "Enter" && event.currentTarget.click(),
    }),
    cell: (index, column) =>
      column === last ? (taken[index] ? "ok" : "no") : column === 0 ? "code" : "",
  });
}

export function decisionsTab(view) {
  const stages = view.data.stages.filter((stage) => stage.decisions.rows.length);
  if (!stages.length)
    return {
      element: h("p", { class: "wia-empty" }, "no pass had a choice to make for this kernel"),
    };
  const parts = stages.map((stage) => {
    const yes = stage.decisions.taken.filter(Boolean).length;
    return h(
      "section",
      { class: "wia-pane" },
      h(
        "h4",
        {},
        h("span", {}, stage.title),
        h("span", {}, `${yes} taken · ${stage.decisions.taken.length - yes} refused`),
      ),
      decisionTable(view, stage),
    );
  });
  return { element: h("div", {}, parts) };
}

// The sign and the word stand out, the reason follows.
function verdict(text) {
  const at = text.indexOf(": ");
  return at < 0
    ? text
    : h("span", {}, h("b", {}, text.slice(0, at)), h("span", { class: "why" }, text.slice(at)));
}

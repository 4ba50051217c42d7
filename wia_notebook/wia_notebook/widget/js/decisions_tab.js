import { h, table } from "./dom.js";

const MOST_COLUMNS = 6; // with more, what was decided stands under the numbers, in full width
const OTHERS = "other numbers"; // the column of numbers that few rows have

// Every candidate of a pass with every number, taken and refused.
export function decisionTable(view, stage, { short = false } = {}) {
  const { columns, rows, taken, subjects } = stage.decisions;
  const last = columns.length - 1,
    under = !short && columns.length > MOST_COLUMNS,
    others = under ? columns.indexOf(OTHERS) : -1,
    all = columns.map((_, index) => index),
    kept = short ? stage.decisions.short : all.filter((n) => !under || (n !== last && n !== others));
  const cells = rows.map((row) => kept.map((n) => (n === last ? verdict(row[n]) : row[n])));
  const before = view.previousWithOps(stage.name);
  const note = (index) =>
    h(
      "span",
      { class: taken[index] ? "ok" : "no" },
      verdict(rows[index][last], others < 0 ? "–" : rows[index][others]),
    );
  const titles = kept.map((n) => columns[n]);
  return table(titles, cells, {
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
      kept[column] === last ? (taken[index] ? "ok" : "no") : column === 0 ? "code" : "",
    note: under ? note : null,
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

// The sign and the word stand out, the reason follows, then numbers that few decisions have; what
// would change it is a line of its own.
function verdict(text, numbers = "–") {
  const [line, ...conditions] = text.split("\n");
  const at = line.indexOf(": ");
  const parts =
    at < 0
      ? [line]
      : [h("b", {}, line.slice(0, at)), h("span", { class: "why" }, line.slice(at))];
  if (numbers !== "–") parts.push(h("span", { class: "others" }, numbers));
  return h("span", {}, ...parts, ...conditions.map((each) => h("span", { class: "would" }, each)));
}

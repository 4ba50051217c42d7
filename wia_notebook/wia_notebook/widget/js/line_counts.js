import { h } from "./dom.js";

// What a run counted along the lines of a text: bars beside them, words about one of them.
// `counts` is {source, metrics: [{title, total, rows: [[line, share, words]]}]} or null.
export function lineCounts(counts, wanted) {
  const metrics = counts?.metrics ?? [];
  const metric = metrics.find((each) => each.title === wanted) ?? metrics[0];
  if (!metric) return { titles: [], metric: null, bar: null, words: () => [] };
  const tables = metrics.map((each) => [
    each.title,
    new Map(each.rows.map(([line, share, text]) => [line, { share, text }])),
  ]);
  const shown = new Map(tables).get(metric.title);
  return {
    titles: metrics.map((each) => each.title),
    metric,
    source: counts.source,
    bar: (row) => {
      const found = shown.get(row.line);
      return found
        ? h("span", { title: `${found.text} ${metric.title}`, style: { width: `${found.share * 100}%` } })
        : null;
    },
    // Everything that was counted at a line: [title, words].
    words: (line) =>
      tables
        .filter(([, table]) => table.has(line))
        .map(([title, table]) => [title, table.get(line).text]),
  };
}

// Which counter the bars show; nothing where a text has none.
export function metricChoice(view, titles) {
  if (!titles.length) return null;
  return h(
    "label",
    { class: "metric" },
    h("span", { class: "dim" }, "bars "),
    h(
      "select",
      {
        "aria-label": "counter beside the lines",
        onchange: (event) => view.store.set({ metric: event.target.value }),
      },
      titles.map((title) =>
        h("option", { value: title, selected: title === view.store.metric }, title),
      ),
    ),
  );
}

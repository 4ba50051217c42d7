import { h, table } from "./dom.js";

export function gaugeCards(resources) {
  return resources.gauges.map((gauge) =>
    h(
      "div",
      { class: `wia-card${gauge.warning ? " warn" : ""}` },
      h("span", {}, `${gauge.label} `),
      h("b", {}, gauge.value),
      gauge.of ? ` ${gauge.of}` : "",
      gauge.fraction === null
        ? null
        : h(
            "div",
            {
              class: "gauge",
              role: "meter",
              "aria-label": gauge.label,
              "aria-valuemin": "0",
              "aria-valuemax": "100",
              "aria-valuenow": String(Math.round(gauge.fraction * 100)),
            },
            h("div", { style: { width: `${Math.min(100, gauge.fraction * 100)}%` } }),
          ),
    ),
  );
}

// What the kernel takes of its machine.
export function resourcesTab(view) {
  const { gauges, rows, entries } = view.data.resources;
  if (!gauges.length && !rows.length)
    return {
      element: h("p", { class: "wia-empty" }, view.data.hint || "this target reports no resources"),
    };
  return {
    element: h(
      "div",
      { class: "pad" },
      h("div", { class: "wia-gauges" }, gaugeCards(view.data.resources)),
      rows.length ? h("div", { class: "wia-rows" }, table(["what", "how much"], rows)) : null,
      entries.rows.length
        ? h(
            "section",
            {},
            h("h4", {}, h("span", {}, "Each launched kernel")),
            table(entries.columns, entries.rows),
          )
        : null,
    ),
  };
}

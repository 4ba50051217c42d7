import { h, table } from "./dom.js";
import { unmeasured } from "./roofline_tab.js";

// What the last run counted, by the names of who counted.
export function countersTab(view) {
  const { roofline, hint } = view.data;
  if (!roofline) return { element: unmeasured(view, hint) };
  if (!roofline.counters.length)
    return {
      element: h(
        "p",
        { class: "wia-empty" },
        `runs for ${view.data.target} are timed and counted by nobody; a gpu target has counters`,
      ),
    };
  return {
    element: h(
      "div",
      { class: "pad wia-counters" },
      table(["counter", "value", "from"], roofline.counters),
    ),
  };
}

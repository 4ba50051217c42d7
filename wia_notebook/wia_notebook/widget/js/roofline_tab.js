import { h, svgElement, table } from "./dom.js";

// Where the kernel stands below the machine's ceilings, with the origin of every number.
export function rooflineTab(view) {
  const roofline = view.data.roofline;
  if (!roofline) {
    const run = h(
      "button",
      { type: "button", class: "btn", onclick: () => view.send({ type: "run" }) },
      "▶ Run and measure",
    );
    return {
      element: h(
        "div",
        { class: "wia-empty" },
        h(
          "p",
          {},
          view.data.hint ||
            "The kernel has not run yet. A live run puts its point under the ceilings of this machine.",
        ),
        view.data.hint ? null : run,
      ),
    };
  }
  const svg = svgElement(roofline.svg);
  svg.removeAttribute("height");
  svg.setAttribute("width", "100%");
  svg.style.maxWidth = "720px";
  const advice = roofline.advice.map((text) => h("div", { class: "wia-card" }, text));
  return {
    element: h(
      "div",
      { class: "wia-two roof" },
      h(
        "div",
        { class: "wia-pane" },
        h("h4", {}, h("span", {}, "Roofline"), h("span", {}, roofline.headline)),
        h("div", { class: "wia-picture" }, svg),
      ),
      h(
        "div",
        { class: "wia-pane" },
        h("h4", {}, h("span", {}, "Every number"), h("span", {}, "and where it is from")),
        table(["what", "value", "from"], roofline.rows),
        h("div", { class: "wia-cards" }, advice),
      ),
    ),
  };
}

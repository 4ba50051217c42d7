import { h, svgElement } from "./dom.js";

// Where the kernel stands below the machine's ceilings, with the origin of every number.
export function rooflineTab(view) {
  const { roofline, hint } = view.data;
  if (!roofline) return { element: unmeasured(view, hint) };
  const svg = svgElement(roofline.svg);
  svg.removeAttribute("height");
  svg.setAttribute("width", "100%");
  svg.style.maxWidth = "720px";
  const advice = roofline.advice.map((text) =>
    h("div", { class: "wia-card" }, h("b", {}, "Advice"), h("p", {}, text)),
  );
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
        advice.length ? h("div", { class: "wia-cards" }, advice) : null,
        h("h4", {}, "Every number and its origin"),
        h("div", { class: "wia-facts" }, byOrigin(roofline.rows).map(facts)),
      ),
    ),
  };
}

function unmeasured(view, hint) {
  const ask = h(
    "button",
    { type: "button", class: "btn", onclick: () => view.send({ type: "run" }) },
    "▶ Run and measure",
  );
  return h(
    "div",
    { class: "wia-empty" },
    h("b", {}, "Not measured yet"),
    h("p", {}, hint || "A live run puts its point under the ceilings of the machine that runs it."),
    hint ? null : ask,
  );
}

// Numbers that follow each other and come from one place stand together above its name.
function byOrigin(rows) {
  const groups = [];
  for (const [what, value, origin] of rows) {
    if (groups.at(-1)?.origin !== origin) groups.push({ origin, numbers: [] });
    groups.at(-1).numbers.push([what, value]);
  }
  return groups;
}

const facts = ({ origin, numbers }) =>
  h(
    "div",
    { class: "fact" },
    h(
      "dl",
      {},
      numbers.map(([what, value]) => [h("dt", {}, what), h("dd", {}, value)]),
    ),
    origin ? h("small", {}, origin) : null,
  );

import { h, svgElement } from "./dom.js";

// Where the kernel stands below the machine's ceilings, with the origin of every number.
export function rooflineTab(view) {
  const { roofline, hint } = view.data;
  if (!roofline) return { element: unmeasured(view, hint) };
  const svg = svgElement(roofline.svg);
  svg.removeAttribute("height");
  svg.setAttribute("width", "100%");
  svg.style.maxWidth = "720px";
  const advice = roofline.advice.map((each) => adviceCard(view, each));
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

// A sentence, who counted, and where a schedule can do it the button that applies it.
function adviceCard(view, { title, text, source, schedule, gain }) {
  const apply = schedule
    ? h(
        "div",
        { class: "wia-buttons" },
        h(
          "button",
          {
            type: "button",
            class: "btn",
            title: schedule,
            onclick: () => view.send({ type: "schedule", text: schedule }),
          },
          "Apply",
        ),
        h("code", {}, schedule.split("\n").filter((line) => !/^\s*(#|$)/.test(line)).join(" ")),
        gain ? h("span", { class: "gain" }, gain) : null,
      )
    : null;
  return h(
    "div",
    { class: "wia-card advice" },
    h("div", { class: "head" }, h("b", {}, title), source ? h("span", { class: "pill" }, source) : null),
    h("p", {}, text),
    apply,
  );
}

// What a view says that shows a run, before there was one.
export function unmeasured(view, hint) {
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

import { h } from "./dom.js";

// The pipeline in the order data flows.
export function ribbon(view) {
  const { data, store } = view;
  let level = "";
  const groups = [];
  for (const stage of data.stages) {
    if (stage.level !== level) {
      level = stage.level;
      groups.push({ level, stages: [] });
    }
    groups[groups.length - 1].stages.push(stage);
  }
  const element = h(
    "nav",
    { class: "wia-ribbon", "aria-label": "stages of the compilation" },
    groups.map((group) =>
      h(
        "div",
        { class: "group", role: "group", "aria-label": `${group.level} level` },
        h("span", { class: "lvl", "aria-hidden": "true" }, group.level),
        h("div", { class: "steps" }, group.stages.map((stage) => step(stage, store))),
      ),
    ),
  );
  element.addEventListener("scroll", () => hintEdges(element), { passive: true });

  function show() {
    for (const button of element.querySelectorAll("[data-stage]")) {
      const on = button.dataset.stage === store.stage;
      button.classList.toggle("on", on);
      button.classList.toggle("beside", button.dataset.stage === store.compareStage);
      button.setAttribute("tabindex", on ? "0" : "-1");
      if (on) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
      if (on) reveal(element, button);
    }
    if (element.scrollWidth > element.clientWidth) element.classList.add("tight");
    hintEdges(element);
  }
  function resized() {
    element.classList.remove("tight");
    show();
  }
  return { element, show, resized };
}

// A step that changed nothing is a narrow chip where room is scarce; its words stand over its
// neighbours when it is pointed at, and in the row when it is selected.
function step(stage, store) {
  const words = [
    h("span", {}, stage.title),
    h("small", {}, stage.detail),
    stage.changed && stage.time ? h("small", { class: "time" }, stage.time) : null,
  ];
  const all = [stage.title, stage.detail, stage.time].filter(Boolean).join(" · ");
  return h(
    "button",
    {
      type: "button",
      class: `st${stage.changed ? "" : " none"}`,
      "data-stage": stage.name,
      tabindex: "-1",
      title: stage.changed ? all : null,
      "aria-label": stage.changed ? null : all,
      onclick: () => store.set({ stage: stage.name }),
    },
    stage.changed ? words : h("span", { class: "lid" }, words),
  );
}

// The ribbon fades at an edge behind which there is more.
function hintEdges(element) {
  const left = element.scrollLeft,
    over = element.scrollWidth - element.clientWidth;
  element.classList.toggle("more-left", left > 2);
  element.classList.toggle("more-right", left < over - 2);
}

function reveal(element, button) {
  const around = element.getBoundingClientRect(),
    own = button.getBoundingClientRect();
  if (own.left < around.left + 60) element.scrollLeft -= around.left + 60 - own.left;
  else if (own.right > around.right - 60) element.scrollLeft += own.right - around.right + 60;
}

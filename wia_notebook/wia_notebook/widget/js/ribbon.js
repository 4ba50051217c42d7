import { h } from "./dom.js";

// The pipeline in the order data flows; steps that changed nothing are dim and say so.
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
  const button = (stage) =>
    h(
      "button",
      {
        type: "button",
        class: `st${stage.changed ? "" : " none"}`,
        "data-stage": stage.name,
        tabindex: "-1",
        title: [stage.title, stage.detail, stage.time].filter(Boolean).join(" · "),
        onclick: () => store.set({ stage: stage.name }),
      },
      h("span", {}, stage.title),
      h("small", {}, stage.detail),
      stage.changed && stage.time ? h("small", { class: "time" }, stage.time) : null,
    );
  const element = h(
    "nav",
    { class: "wia-ribbon", "aria-label": "stages of the compilation" },
    groups.map((group) =>
      h(
        "div",
        { class: "group", role: "group", "aria-label": `${group.level} level` },
        h("span", { class: "lvl", "aria-hidden": "true" }, group.level),
        h("div", { class: "steps" }, group.stages.map(button)),
      ),
    ),
  );

  function show() {
    for (const step of element.querySelectorAll("[data-stage]")) {
      const on = step.dataset.stage === store.stage;
      step.classList.toggle("on", on);
      step.classList.toggle("beside", step.dataset.stage === store.compareStage);
      step.setAttribute("tabindex", on ? "0" : "-1");
      if (on) step.setAttribute("aria-current", "step");
      else step.removeAttribute("aria-current");
      if (on) reveal(element, step);
    }
  }
  return { element, show };
}

function reveal(element, step) {
  const left = step.offsetLeft - element.offsetLeft,
    right = left + step.offsetWidth;
  if (left < element.scrollLeft) element.scrollLeft = left - 40;
  else if (right > element.scrollLeft + element.clientWidth)
    element.scrollLeft = right - element.clientWidth + 40;
}

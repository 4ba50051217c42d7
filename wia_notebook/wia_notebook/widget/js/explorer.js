import { assemblyTab } from "./assembly_tab.js";
import { countersTab } from "./counters_tab.js";
import { decisionsTab } from "./decisions_tab.js";
import { arrowGroup, h } from "./dom.js";
import { exportButtons, receiveFile } from "./export.js";
import { graphTab } from "./graph_tab.js";
import { makeHighlighter } from "./highlight.js";
import { makeLinks, whole } from "./links.js";
import { resourcesTab } from "./resources_tab.js";
import { ribbon } from "./ribbon.js";
import { rooflineTab } from "./roofline_tab.js";
import { scheduleTab } from "./schedule_tab.js";
import { searchBox } from "./search.js";
import { sourcePane } from "./source.js";
import { makeStore } from "./store.js";
import { makeTexts } from "./texts.js";
import { textTab } from "./text_tab.js";

const TABS = {
  graph: ["Graph", graphTab],
  text: ["Text", textTab],
  decisions: ["Decisions", decisionsTab],
  assembly: ["Assembly", assemblyTab],
  roofline: ["Roofline", rooflineTab],
  counters: ["Counters", countersTab],
  schedule: ["Schedule", scheduleTab],
  resources: ["Resources", resourcesTab],
};
let instances = 0;

// Everything that the parts share: data, state, links, and questions about stages.
function makeView(model, root) {
  const data = whole(model.get("data"));
  const at = (name) => data.stages.findIndex((stage) => stage.name === name);
  const previous = (name, wanted) =>
    data.stages
      .slice(0, Math.max(0, at(name)))
      .reverse()
      .find(wanted)?.name ?? "";
  const view = {
    data,
    root,
    id: `wia-${++instances}`,
    links: makeLinks(data),
    highlighter: makeHighlighter(model.get("patterns")),
    stage: (name) => data.stages[at(name)],
    previousChanged: (name) => previous(name, (stage) => stage.changed),
    previousGraph: (name) => previous(name, (stage) => stage.graph && stage.changed),
    previousWithOps: (name) => previous(name, (stage) => stage.ops.length),
    text: makeTexts(data, (name) => model.send({ type: "text", name })),
    width: () => root.clientWidth,
    send: (message) => model.send(message),
  };
  view.store = makeStore(model, view);
  return view;
}

function header(view, model) {
  const { data } = view;
  const name =
    data.kernels.length > 1
      ? h(
          "select",
          {
            class: "kernel",
            "aria-label": "kernel",
            onchange: (event) => view.send({ type: "kernel", kernel: event.target.value }),
          },
          data.kernels.map((kernel) => h("option", { selected: kernel === data.kernel }, kernel)),
        )
      : h("b", { class: "kernel" }, data.kernel);
  const targets = h(
    "div",
    { class: "seg", role: "radiogroup", "aria-label": "target" },
    data.targets.map((target) =>
      h(
        "button",
        {
          type: "button",
          role: "radio",
          "aria-checked": String(target === data.target),
          tabindex: target === data.target ? "0" : "-1",
          class: target === data.target ? "on" : "",
          title: targetHelp(target),
          onclick: () => target !== data.target && view.send({ type: "target", target }),
        },
        targetTitle(target),
      ),
    ),
  );
  targets.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) event.stopPropagation();
    const buttons = [...targets.children],
      step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step)
      buttons[
        (buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length
      ]?.focus();
  });
  const run = h(
    "button",
    {
      type: "button",
      class: "btn",
      disabled: Boolean(data.hint),
      title: data.hint || "run it on this machine and measure",
      onclick: () => view.send({ type: "run" }),
    },
    "▶ Run",
  );
  return h(
    "header",
    { class: "wia-head" },
    name,
    h("span", { class: "sig" }, data.signature),
    data.origin ? h("span", { class: "pill g" }, data.origin) : null,
    data.targets.length > 1 ? targets : null,
    run,
  );
}

const targetTitle = (target) =>
  ({ cpu: "CPU", "tpu:spec": "TPU" })[target] ??
  target.replace("gpu:", "").replace("tpu:", "TPU ").replace("npu", "NPU");
const targetHelp = (target) =>
  target
    .replace(/^gpu:(.*)/, "NVIDIA GPU, $1")
    .replace(/^cpu$/, "this machine's processor")
    .replace(/^tpu:(.*)/, "systolic array, $1");

function tabBar(view, search) {
  const bar = h(
    "div",
    { class: "tabs", role: "tablist", "aria-label": "views" },
    Object.entries(TABS).map(([name, [title]]) =>
      h(
        "button",
        {
          type: "button",
          role: "tab",
          id: `${view.id}-tab-${name}`,
          "aria-controls": `${view.id}-panel`,
          "data-tab": name,
          onclick: () => view.store.set({ tab: name }),
        },
        title,
      ),
    ),
  );
  arrowGroup(bar, "[role=tab]");
  return h("div", { class: "wia-tabs" }, bar, search.element);
}

function footer(view, model) {
  const key = (text) => h("kbd", {}, text);
  return h(
    "footer",
    { class: "wia-foot" },
    h("span", {}, key("←"), " ", key("→"), " step stages"),
    h("span", {}, key("/"), " search"),
    h("span", {}, key("Esc"), " unpin"),
    h("span", { class: "grow" }),
    exportButtons(view, model),
  );
}

function keyboard(view, search) {
  return (event) => {
    if (
      event.target.closest("input, select, textarea") ||
      event.ctrlKey ||
      event.metaKey ||
      event.altKey
    )
      return;
    const names = view.data.stages.map((stage) => stage.name),
      at = names.indexOf(view.store.stage);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step) {
      const next = names[Math.min(names.length - 1, Math.max(0, at + step))];
      view.store.set({ stage: next });
      if (event.target.closest(".wia-ribbon"))
        view.root.querySelector(`[data-stage="${next}"]`)?.focus();
    } else if (event.key === "/") search.focus();
    else if (event.key === "Escape") view.store.set({ selected: "" });
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
}

// Draws the whole explorer into `root`; returns what undoes it.
function build(model, root) {
  const view = makeView(model, root);
  const search = searchBox(view),
    source = sourcePane(view),
    steps = ribbon(view);
  const panel = h("div", {
    class: "wia-panel",
    role: "tabpanel",
    id: `${view.id}-panel`,
    tabindex: "-1",
  });
  const hint = view.data.hint ? h("p", { class: "wia-hint" }, view.data.hint) : null;
  const message = h("div", { class: "wia-message", role: "status", hidden: true });
  const main = h(
    "div",
    { class: "wia-main" },
    source.element,
    h("div", { class: "wia-right" }, tabBar(view, search), panel),
  );
  root.replaceChildren(
    header(view, model),
    message,
    steps.element,
    ...(hint ? [hint] : []),
    main,
    footer(view, model),
  );
  let tab = null;

  function light() {
    const { store } = view,
      selection = store.shown,
      lit = view.links.resolve(selection);
    source.light(lit, selection, !store.hovering);
    tab?.light?.(lit, selection);
  }
  function show() {
    const { store } = view,
      name = TABS[store.tab] ? store.tab : "graph";
    steps.show();
    if (view.data.counts) source.refresh();
    tab = TABS[name][1](view);
    panel.replaceChildren(tab.element);
    panel.setAttribute("aria-labelledby", `${view.id}-tab-${name}`);
    for (const button of root.querySelectorAll("[data-tab]")) {
      const on = button.dataset.tab === name;
      button.setAttribute("aria-selected", String(on));
      button.setAttribute("tabindex", on ? "0" : "-1");
      button.classList.toggle("on", on);
    }
    light();
    root.dataset.ready = "1";
  }
  function status() {
    const { text = "", kind = "" } = model.get("status") ?? {};
    message.hidden = !text;
    message.className = `wia-message ${kind}`;
    message.setAttribute("role", kind === "error" ? "alert" : "status");
    message.replaceChildren(...(text ? [h("pre", {}, text)] : []));
    root.classList.toggle("busy", kind === "busy");
    root.setAttribute("aria-busy", String(kind === "busy"));
  }
  const receive = (message) => {
    if (message?.type === "text" && view.text.receive(message)) show();
  };
  const keys = keyboard(view, search);
  root.addEventListener("keydown", keys);
  model.on("change:status", status);
  model.on("msg:custom", receive);
  view.store.onChange(show);
  view.store.onLight(light);
  let narrow = false,
    width = 0;
  const sized = new ResizeObserver(() => {
    const before = width;
    width = view.width();
    if (width === before || !width) return;
    steps.resized();
    const now = width <= 760;
    if (!before || (now !== narrow && view.store.tab === "text")) show();
    narrow = now;
  });
  status();
  // A page may take the element in later; what is drawn depends on how much room there is.
  width = view.width();
  narrow = width <= 760;
  if (width) show();
  sized.observe(root);
  return () => {
    sized.disconnect();
    root.removeEventListener("keydown", keys);
    model.off("change:status", status);
    model.off("msg:custom", receive);
    view.store.dispose();
  };
}

function render({ model, el }) {
  // JupyterLab leaves keys alone where this attribute is; no key of ours steps through its cells.
  const root = h("div", {
    class: "wia",
    tabindex: "0",
    role: "region",
    "aria-label": "compilation explorer",
    "data-lm-suppress-shortcuts": "true",
  });
  el.append(root);
  let undo = build(model, root);
  const again = () => {
    undo();
    undo = build(model, root);
  };
  model.on("change:data", again);
  model.on("msg:custom", receiveFile);
  return () => {
    undo();
    model.off("change:data", again);
    model.off("msg:custom", receiveFile);
  };
}

export default { render };

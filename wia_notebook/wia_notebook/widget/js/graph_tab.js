import { decisionTable } from "./decisions_tab.js";
import { h, svgElement, table } from "./dom.js";

// Two graphs side by side: the stage to compare with, carrying the pass's plan, and the selected one.
export function graphTab(view) {
  const { store } = view;
  const stage = view.stage(store.stage),
    beside = view.stage(store.compareStage);
  const panes = [];
  const planned = stage.plan && beside && view.previousGraph(stage.name) === beside.name;
  if (beside && hasPicture(beside))
    panes.push(pane(view, beside, "before", planned ? stage.plan : beside.graph, stage));
  panes.push(
    hasPicture(stage)
      ? pane(view, stage, panes.length ? "after" : "", stage.graph)
      : nothing(view, stage),
  );
  const rows = stage.decisions.rows.length
    ? h("div", { class: "wia-under" }, decisionTable(view, stage, { short: true }))
    : null;
  const element = h(
    "div",
    {},
    h("div", { class: `wia-two${panes.length > 1 ? "" : " one"}` }, panes),
    legend(view, panes),
    rows,
  );

  let begun = false;
  function light(lit, selection) {
    if (!begun) element.querySelectorAll(".wia-picture").forEach(toFirstNode);
    begun = true;
    for (const picture of element.querySelectorAll("[data-picture]")) {
      const ids = lit.ops.get(picture.dataset.picture) ?? new Set();
      for (const node of picture.querySelectorAll("[data-op]"))
        node.classList.toggle("hl", ids.has(node.dataset.op));
      picture.classList.toggle("some-lit", ids.size > 0);
      if (selection && !store.hovering) bringIntoSight(picture);
    }
  }
  return { element, light };
}

// The colours that the pictures use, in words.
function legend(view, panes) {
  const used = view.data.legend.filter(([family]) =>
    panes.some((shown) => shown.querySelector(`.f-${family}:not(.end)`)),
  );
  return used.length
    ? h(
        "div",
        { class: "wia-legend" },
        used.map(([family, title]) => h("span", { class: `f-${family}` }, title)),
      )
    : null;
}

const hasPicture = (stage) => Boolean(stage.graph || stage.nest);

function pane(view, stage, word, picture, pass) {
  const adjacent = pass && view.previousChanged(pass.name) === stage.name;
  const name =
    word === "before"
      ? adjacent
        ? `before ${pass.title}`
        : stage.title
      : word === "after"
        ? `after ${stage.title}`
        : stage.title;
  const counts = h("span", { class: word === "after" ? "good" : "" }, picture?.counts ?? "");
  const body = picture ? graphBody(view, stage, picture) : nestBody(view, stage);
  return h(
    "div",
    { class: "wia-pane", "data-picture": stage.name },
    h("h4", {}, h("span", {}, name), counts),
    body,
  );
}

function graphBody(view, stage, picture) {
  if (!picture.svg) {
    const note = h("p", { class: "wia-note" }, picture.note ?? "too large to draw");
    return h(
      "div",
      {},
      note,
      table(
        ["family", "op", "count"],
        picture.summary.map((row) => row.map(String)),
      ),
    );
  }
  const svg = svgElement(picture.svg);
  const width = Number(svg.getAttribute("width"));
  svg.removeAttribute("height");
  svg.setAttribute("width", "100%");
  svg.setAttribute("role", "presentation"); // its ops are buttons here
  svg.style.maxWidth = `${width}px`;
  const box = h(
    "div",
    {
      class: "wia-picture",
      tabindex: "0",
      role: "group",
      "aria-label": `graph of stage ${stage.title}; Tab and Enter select ops`,
    },
    svg,
  );
  for (const node of svg.querySelectorAll("[data-op]")) {
    node.setAttribute("tabindex", "-1");
    node.setAttribute("role", "button");
    node.setAttribute(
      "aria-label",
      node.querySelector(".title, text")?.textContent ?? node.dataset.op,
    );
  }
  if (width > 900) zoomable(box, svg, width, view.width());
  return listen(view, stage, box);
}

// A graph wider than the pane can be seen whole or at its own size: at first whichever is legible.
function zoomable(box, svg, width, room) {
  const scale = (large) => {
    button.setAttribute("aria-pressed", String(large));
    button.textContent = large ? "fit the pane" : "full size";
    svg.style.width = large ? `${width}px` : "100%";
    svg.style.maxWidth = "none";
    if (large) toFirstNode(box);
  };
  const button = h(
    "button",
    {
      type: "button",
      class: "wia-zoom",
      onclick: () => scale(button.getAttribute("aria-pressed") !== "true"),
    },
    "",
  );
  box.prepend(button);
  scale(width > 1.5 * room);
}

// Data flows down from here.
function toFirstNode(box) {
  const first = box.querySelector("svg [data-op]");
  if (first && box.scrollWidth > box.clientWidth) centre(box, first);
}

// What is pinned, where the picture is larger than its pane; the page itself stays where it is.
function bringIntoSight(picture) {
  const box = picture.querySelector(".wia-picture"),
    lit = box?.querySelector(".hl");
  if (!lit) return;
  const own = lit.getBoundingClientRect(),
    around = box.getBoundingClientRect();
  if (
    own.bottom < around.top ||
    own.top > around.bottom ||
    own.right < around.left ||
    own.left > around.right
  )
    centre(box, lit);
}

function centre(box, node) {
  const own = node.getBoundingClientRect(),
    around = box.getBoundingClientRect();
  box.scrollLeft += own.left + own.width / 2 - around.left - around.width / 2;
  box.scrollTop += own.top + own.height / 2 - around.top - around.height / 2;
}

function listen(view, stage, box) {
  const { store } = view;
  const opAt = (event) => event.target.closest?.("[data-op]")?.dataset.op;
  box.addEventListener("mouseover", (event) =>
    store.hover(opAt(event) ? `${stage.name}/${opAt(event)}` : ""),
  );
  box.addEventListener("mouseleave", () => store.hover(""));
  box.addEventListener(
    "click",
    (event) => opAt(event) && store.pick(`${stage.name}/${opAt(event)}`),
  );
  box.addEventListener("keydown", (event) => {
    const nodes = [...box.querySelectorAll("[data-op]")];
    const at = nodes.indexOf(document.activeElement);
    if (event.key === "Enter" || event.key === " ") {
      if (at >= 0) store.pick(`${stage.name}/${nodes[at].dataset.op}`);
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const next = event.key === "ArrowDown" ? at + 1 : at - 1;
      nodes[(next + nodes.length) % nodes.length]?.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return box;
}

// Loops around loops around leaves, as boxes in boxes.
function nestBody(view, stage) {
  const box = (item) =>
    h(
      "div",
      {
        class: `wia-nest f-${item.family}`,
        "data-op": item.id,
        tabindex: "-1",
        role: "button",
        "aria-label": item.label,
      },
      h("span", {}, item.label),
      item.note ? h("small", {}, item.note) : null,
      item.children.map(box),
    );
  const left = stage.nest.left_out
    ? h("p", { class: "wia-note" }, `${stage.nest.left_out} more ops are in the text`)
    : null;
  return listen(
    view,
    stage,
    h(
      "div",
      {
        class: "wia-picture nests",
        tabindex: "0",
        role: "group",
        "aria-label": `loop nests of stage ${stage.title}`,
      },
      stage.nest.boxes.map(box),
      left,
    ),
  );
}

function nothing(view, stage) {
  const here = view.data.assembly.some((pane) => pane.format === stage.name);
  const tab = here ? "assembly" : "text";
  return h(
    "div",
    { class: "wia-pane" },
    h("h4", {}, h("span", {}, stage.title)),
    h(
      "p",
      { class: "wia-empty" },
      `${stage.title} is a listing, not a graph. `,
      h(
        "button",
        { type: "button", class: "link", onclick: () => view.store.set({ tab }) },
        here ? "Show the assembly" : "Show its text",
      ),
    ),
  );
}

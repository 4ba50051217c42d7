import { h } from "./dom.js";
import { FAMILY, ID, LABEL, NAME } from "./links.js";
import { expandTabs } from "./listing.js";

const MOST = 14;

// One box for stages, ops and opcodes: type, then Enter or a click goes there.
export function searchBox(view) {
  const input = h("input", {
    type: "search",
    placeholder: "search  /",
    "aria-label": "search stages, ops and opcodes",
    role: "combobox",
    "aria-expanded": "false",
    "aria-autocomplete": "list",
    autocomplete: "off",
  });
  const list = h("ul", { class: "wia-results", role: "listbox", hidden: true });
  let found = [],
    at = 0;

  function show() {
    found = input.value.trim() ? matches(view, input.value.trim().toLowerCase()) : [];
    at = 0;
    draw();
  }
  function draw() {
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    list.replaceChildren(
      ...(found.length
        ? found.map((item, index) =>
            h(
              "li",
              {
                role: "option",
                "aria-selected": String(index === at),
                class: index === at ? "on" : "",
                onmousedown: (event) => (event.preventDefault(), go(item)),
              },
              h("b", { class: `f-${item.family} ink` }, item.title),
              h("small", {}, item.where),
            ),
          )
        : [h("li", { class: "dim" }, "nothing has that name")]),
    );
  }
  function go(item) {
    view.store.set(item.state);
    if (item.selected) view.store.pick(item.selected, true);
    clear();
    view.root.focus();
  }
  function clear() {
    input.value = "";
    show();
  }
  input.addEventListener("input", show);
  input.addEventListener("blur", () => setTimeout(clear, 150));
  input.addEventListener("keydown", (event) => {
    event.stopPropagation();
    if (event.key === "Escape") (clear(), view.root.focus());
    else if (event.key === "Enter" && found[at]) go(found[at]);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      at = (at + (event.key === "ArrowDown" ? 1 : -1) + found.length) % Math.max(1, found.length);
      draw();
      event.preventDefault();
    }
  });
  return { element: h("div", { class: "wia-search" }, input, list), focus: () => input.focus() };
}

function matches(view, text) {
  const { data, store } = view;
  const stages = data.stages
    .filter((stage) => `${stage.title} ${stage.name}`.toLowerCase().includes(text))
    .map((stage) => ({
      title: stage.title,
      where: `stage · ${stage.level}`,
      family: "loop",
      state: { stage: stage.name },
    }));
  const current = view.stage(store.stage);
  const order = [current, ...data.stages.filter((stage) => stage !== current && stage.changed)];
  const ops = order.flatMap((stage) =>
    stage.ops
      .filter((op) => `${op[LABEL]} ${op[NAME]}`.toLowerCase().includes(text))
      .slice(0, 5)
      .map((op) => ({
        title: op[LABEL],
        where: `op · ${stage.title}`,
        family: op[FAMILY],
        state: { stage: stage.name, tab: stage.graph || stage.nest ? "graph" : "text" },
        selected: `${stage.name}/${op[ID]}`,
      })),
  );
  const machine = data.assembly.flatMap((pane) => opcodeMatches(view, pane, text));
  return [...stages.slice(0, 6), ...ops.slice(0, 8), ...machine].slice(0, MOST);
}

function opcodeMatches(view, pane, text) {
  const lines = (view.text(pane) ?? "").split("\n");
  const seen = new Map();
  for (let index = 0; index < lines.length && seen.size < 5; index++) {
    if (!lines[index].toLowerCase().includes(text)) continue;
    const opcode = view.highlighter.opcode(pane.language, expandTabs(lines[index]));
    if (opcode.toLowerCase().includes(text) && !seen.has(opcode)) seen.set(opcode, index + 1);
  }
  return [...seen].map(([opcode, line]) => ({
    title: opcode,
    where: `${pane.title} · line ${line}`,
    family: "contraction",
    state: { tab: "assembly", formats: [pane.format] },
    selected: `text/${pane.format}/${line}`,
  }));
}

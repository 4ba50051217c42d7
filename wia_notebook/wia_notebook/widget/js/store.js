// The explorer's state: traits of the model, so that Python reads and drives it, plus the pointer.
const TRAITS = ["stage", "compare", "selected", "tab", "formats", "metric"];

export function makeStore(model, view) {
  const listeners = new Set(),
    lightListeners = new Set();
  let hovered = "";
  let frame = 0;

  const store = {
    get stage() {
      const name = model.get("stage");
      return view.data.stages.some((stage) => stage.name === name)
        ? name
        : (view.data.stages.at(-1)?.name ?? "");
    },
    // "" follows the selected stage: the last one before it that changed something; "-" is none.
    get compareStage() {
      const name = model.get("compare");
      if (name === "-") return "";
      return view.data.stages.some((stage) => stage.name === name && name !== store.stage)
        ? name
        : view.previousChanged(store.stage);
    },
    get tab() {
      return model.get("tab");
    },
    get selected() {
      return model.get("selected");
    },
    get formats() {
      return model.get("formats") ?? [];
    },
    // The counter beside the lines of machine code; "" is the first that there is.
    get metric() {
      return model.get("metric") ?? "";
    },
    get hovering() {
      return Boolean(hovered);
    },
    get shown() {
      return hovered || store.selected;
    },
    set(changes) {
      for (const [name, value] of Object.entries(changes))
        if (TRAITS.includes(name)) model.set(name, value);
      model.save_changes();
    },
    pick(selection, keep = false) {
      store.set({ selected: !keep && selection === store.selected ? "" : selection });
    },
    hover(selection) {
      if (selection === hovered) return;
      hovered = selection;
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => lightListeners.forEach((listener) => listener()));
    },
    onChange: (listener) => listeners.add(listener),
    onLight: (listener) => lightListeners.add(listener),
  };
  const changed = () => listeners.forEach((listener) => listener());
  const lit = () => lightListeners.forEach((listener) => listener());
  const events = [
    ["change:stage", changed],
    ["change:compare", changed],
    ["change:tab", changed],
    ["change:formats", changed],
    ["change:metric", changed],
    ["change:selected", lit],
  ];
  for (const [name, handler] of events) model.on(name, handler);
  store.dispose = () => {
    for (const [name, handler] of events) model.off(name, handler);
    cancelAnimationFrame(frame);
  };
  return store;
}

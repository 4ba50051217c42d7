import { h } from "./dom.js";

// How the loops run, as text to change: what is applied builds, and runs where it had run.
export function scheduleTab(view) {
  const { data } = view;
  if (data.hint) return { element: h("p", { class: "wia-empty" }, data.hint) };
  const { text, own } = data.schedule;
  const area = h("textarea", {
    class: "wia-schedule",
    spellcheck: "false",
    rows: String(Math.min(30, Math.max(8, text.split("\n").length + 1))),
    "aria-label": "schedule",
  });
  area.value = text;
  const button = (title, kind, send, disabled = false) =>
    h("button", { type: "button", class: kind, disabled, onclick: send }, title);
  const apply = () => view.send({ type: "schedule", text: area.value });
  area.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    apply();
  });
  return {
    element: h(
      "div",
      { class: "pad wia-editor" },
      h(
        "h4",
        {},
        h("span", {}, own ? "Your schedule" : "What was applied"),
        h("span", {}, data.target),
      ),
      area,
      h(
        "div",
        { class: "wia-buttons" },
        button("Apply", "btn", apply),
        button(
          "Back to the target's choice",
          "chip",
          () => view.send({ type: "schedule", text: null }),
          !own,
        ),
        h("span", { class: "dim" }, h("kbd", {}, "Ctrl"), " ", h("kbd", {}, "Enter"), " applies"),
      ),
      reasons(view),
    ),
  };
}

// Why the loops run so: the decisions of the stage that scheduled them.
function reasons(view) {
  const stage = view.stage("schedule");
  const rows = stage?.decisions.rows ?? [];
  return rows.length
    ? h(
        "div",
        { class: "wia-cards bare" },
        rows.map((row) =>
          h(
            "div",
            { class: "wia-card" },
            h("b", {}, row[0]),
            h("p", {}, row[row.length - 1].split("\n")[0]),
          ),
        ),
      )
    : null;
}

// Elements without innerHTML: every text becomes a text node.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined));
  return element;
}

// An SVG text as elements; scripts and event attributes are dropped, links too.
export function svgElement(text) {
  const parsed = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (parsed.nodeName !== "svg")
    return h("p", { class: "wia-empty" }, "this picture cannot be read");
  for (const element of [parsed, ...parsed.querySelectorAll("*")]) {
    if (["script", "foreignObject", "a", "use", "image"].includes(element.nodeName)) {
      element.remove();
      continue;
    }
    for (const { name } of [...element.attributes]) {
      if (name.startsWith("on") || name.endsWith("href")) element.removeAttribute(name);
    }
  }
  return document.importNode(parsed, true);
}

export function table(columns, rows, options = {}) {
  const numeric = columns.map(
    (_, index) =>
      rows.length > 0 &&
      rows.every(
        (row) =>
          typeof row[index] === "string" &&
          /^[-–−]?[\d.,  ]*( ?[%kKMGTPµnm]?[Bs]?)$/.test(row[index] ?? ""),
      ),
  );
  const head = columns.length
    ? h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((title, index) =>
            h("th", { scope: "col", class: numeric[index] ? "n" : null }, title),
          ),
        ),
      )
    : null;
  const body = rows.flatMap((row, rowIndex) => [
    h(
      "tr",
      options.row ? options.row(rowIndex) : {},
      row.map((cell, index) =>
        h(
          "td",
          {
            class:
              [numeric[index] ? "n" : "", options.cell ? options.cell(rowIndex, index) : ""]
                .join(" ")
                .trim() || null,
          },
          cell,
        ),
      ),
    ),
    ...(options.note ? [noteRow(options, rowIndex, columns.length)] : []),
  ]);
  return h("div", { class: "wia-scroll" }, h("table", {}, head, h("tbody", {}, body)));
}

// A line under a row, as wide as the table; it answers to the mouse as its row does.
function noteRow(options, index, span) {
  const { tabindex: _, ...handlers } = options.row ? options.row(index) : {};
  return h("tr", { ...handlers, class: "wia-note" }, h("td", { colspan: span }, options.note(index)));
}

// Arrow keys, Home and End move among the buttons of a group (one of them in the tab order).
export function arrowGroup(container, selector) {
  container.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity }[event.key];
    const buttons = [...container.querySelectorAll(selector)];
    const at = buttons.indexOf(event.target.closest(selector));
    if (step === undefined || at < 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next =
      Math.abs(step) === 1
        ? (at + step + buttons.length) % buttons.length
        : step < 0
          ? 0
          : buttons.length - 1;
    buttons[next].focus();
    buttons[next].click();
  });
}

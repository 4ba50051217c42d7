import { h } from "./dom.js";

const ROW = 19,
  ALL_AT_ONCE = 400,
  MARGIN = 40;

// Lines of text in a scrolling pane; long texts keep only the visible lines in the page.
// A row is {number, text, sign, kind, line, mark, fold}; `line` is its number in the stage's text.
export function listing({ rows, language, highlighter, label, onHover, onPick, onFold, bar }) {
  const box = h("div", {
    class: "wia-listing",
    tabindex: "0",
    role: "region",
    "aria-label": label,
  });
  const inner = h("pre", { class: "wia-code" });
  box.append(inner);
  box.style.setProperty("--rows", String(rows.length));
  let lit = new Set(),
    chosen = new Set();
  let first = -1,
    last = -1;
  const windowed = rows.length > ALL_AT_ONCE;
  const width = String(rows.reduce((most, row) => Math.max(most, row.number || 0), 0)).length;

  function element(row) {
    if (row.fold)
      return h(
        "button",
        { class: "wia-fold", type: "button", onclick: () => onFold(row) },
        `⋯ ${row.fold} unchanged lines`,
      );
    const number = h("i", { "aria-hidden": "true" }, String(row.number || "").padStart(width));
    const sign = row.sign === undefined ? null : h("b", { class: "sign" }, row.sign || " ");
    const gauge = bar ? h("span", { class: "bar", "aria-hidden": "true" }, bar(row)) : null;
    const classes = [
      "ln",
      row.kind,
      row.line && lit.has(row.line) ? "hl" : "",
      row.line && chosen.has(row.line) ? "at" : "",
    ]
      .filter(Boolean)
      .join(" ");
    return h(
      "span",
      { class: classes, "data-line": row.line || null },
      number,
      sign,
      gauge,
      ...(row.kind === "magic" ? [row.text] : highlighter.render(language, row.text, row.mark)),
      "\n",
    );
  }

  function draw() {
    let from = 0,
      to = rows.length;
    if (windowed) {
      from = Math.max(0, Math.floor(box.scrollTop / ROW) - MARGIN);
      to = Math.min(
        rows.length,
        Math.ceil((box.scrollTop + (box.clientHeight || 480)) / ROW) + MARGIN,
      );
      if (from >= first && to <= last && first >= 0) return;
      inner.style.paddingTop = `${from * ROW}px`;
      inner.style.paddingBottom = `${(rows.length - to) * ROW}px`;
    }
    [first, last] = [from, to];
    inner.replaceChildren(...rows.slice(from, to).map(element));
  }

  const lineAt = (event) => Number(event.target.closest?.("[data-line]")?.dataset.line ?? 0);
  box.addEventListener("mouseover", (event) => onHover?.(lineAt(event)));
  box.addEventListener("mouseleave", () => onHover?.(0));
  box.addEventListener("click", (event) => {
    const line = lineAt(event);
    if (line && !String(window.getSelection())) onPick?.(line);
  });
  if (windowed) box.addEventListener("scroll", draw, { passive: true });
  draw();

  // `at` are the lines that were chosen, among all that belong to them.
  function light(lines, at = []) {
    [lit, chosen] = [lines, new Set(at)];
    for (const row of inner.querySelectorAll("[data-line]")) {
      row.classList.toggle("hl", lit.has(Number(row.dataset.line)));
      row.classList.toggle("at", chosen.has(Number(row.dataset.line)));
    }
  }

  // Bring a line into view without moving the page.
  function reveal(line) {
    const index = rows.findIndex((row) => row.line === line);
    if (index < 0) return;
    const top = index * ROW;
    if (top < box.scrollTop || top > box.scrollTop + box.clientHeight - ROW)
      box.scrollTop = Math.max(0, top - box.clientHeight / 3);
    draw();
  }
  // Begin at a line that is not the first.
  function start(line) {
    box.scrollTop = (line - 1) * ROW;
    draw();
  }
  // Draw the lines again, where what their bars show has changed.
  function refresh() {
    first = last = -1;
    draw();
  }
  return { element: box, light, reveal, start, refresh };
}

// The line of the magic, a comment for the compiler, stands as the reader wrote it.
export function plainRows(text, language = "") {
  const lines = text.split("\n");
  if (lines[lines.length - 1] === "") lines.pop();
  const rows = lines.map((line, index) => ({
    number: index + 1,
    line: index + 1,
    text: expandTabs(line),
  }));
  if (language === "wia" && rows[0]?.text.startsWith("# %%"))
    Object.assign(rows[0], { text: rows[0].text.slice(2), kind: "magic" });
  return rows;
}

// Tab stops every eight columns, as assemblers assume.
export function expandTabs(line) {
  let out = "";
  for (const part of line.split(/(\t)/))
    out += part === "\t" ? " ".repeat(8 - (out.length % 8)) : part;
  return out;
}

import { h } from "./dom.js";

// Words of a line by the patterns that Python sends; `mark` is a range of columns to stand out.
export function makeHighlighter(patterns) {
  const compiled = {};
  const pattern = (language) =>
    (compiled[language] ??= new RegExp(patterns[language] ?? patterns.text, "g"));

  function words(language, line) {
    const out = [];
    let position = 0;
    for (const match of line.matchAll(pattern(language))) {
      if (!match[0]) continue;
      if (match.index > position) out.push(["", line.slice(position, match.index)]);
      out.push([
        Object.keys(match.groups).find((name) => match.groups[name] !== undefined) ?? "",
        match[0],
      ]);
      position = match.index + match[0].length;
    }
    if (position < line.length) out.push(["", line.slice(position)]);
    return out;
  }

  function opcode(language, line) {
    const found = words(language, line).find(([kind]) => kind === "op");
    return found ? found[1].trim().split(/\s+/).pop() : "";
  }

  function render(language, line, mark) {
    const nodes = [];
    let column = 0;
    for (const [kind, text] of line.length > 2000 ? [["", line]] : words(language, line)) {
      for (const [piece, marked] of split(text, column, mark)) {
        const classes = [kind && `w-${kind}`, marked && "mark"].filter(Boolean).join(" ");
        nodes.push(classes ? h("span", { class: classes }, piece) : piece);
      }
      column += text.length;
    }
    return nodes;
  }
  return { words, opcode, render };
}

function split(text, column, mark) {
  if (!mark || mark[1] <= column || mark[0] >= column + text.length) return [[text, false]];
  const from = Math.max(0, mark[0] - column),
    to = Math.min(text.length, mark[1] - column);
  return [
    [text.slice(0, from), false],
    [text.slice(from, to), true],
    [text.slice(to), false],
  ].filter(([piece]) => piece);
}

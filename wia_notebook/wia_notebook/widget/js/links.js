// What belongs together: source lines, ops of every stage and lines of machine text.
// A selection is a text: "fusion/3" (ops "3,4"), "line/8", "text/ptx/12" (a line of a stage).
// A row of an op table has its values at these places.
export const ID = 0;
export const NAME = 1;
export const LABEL = 2;
export const FAMILY = 3;
export const TYPE = 4;
export const SPANS = 5;
export const ORIGINS = 6;
export const PARENT = 7;
export const LINE = 8;
export const FLOPS = 9;
export const BYTES = 10;
const NOTHING = { lines: new Set(), ops: new Map(), spans: [] };

// Stages that changed nothing name the stage before; here they become whole again.
// Spans, which are sent once and named by number, stand in place of their numbers again.
export function whole(data) {
  const stages = [];
  const lines = (runs) => {
    const map = {};
    for (const [from, to, numbers] of runs) {
      const spans = numbers.map((number) => data.spans[number]);
      for (let line = from; line <= to; line++) map[line] = spans;
    }
    return map;
  };
  const row = (op) =>
    op.map((value, index) => (index === SPANS ? value.map((number) => data.spans[number]) : value));
  for (const sent of data.stages) {
    const stage = sent.same ? sent : { ...sent, ops: sent.ops.map(row), lines: lines(sent.lines) };
    const before = stage.same && stages.find((other) => other.name === stage.same);
    if (!before) stages.push(stage);
    else {
      const ops = before.ops.map((op) =>
        op.map((value, index) => (index === ORIGINS ? [op[ID]] : value)),
      );
      stages.push({ ...before, plan: undefined, ...stage, ops });
    }
  }
  const assembly = data.assembly.map((pane) =>
    pane.lines ? { ...pane, lines: lines(pane.lines) } : pane,
  );
  return { ...data, stages, assembly };
}

export function makeLinks(data) {
  const stages = data.stages.filter((stage) => stage.ops.length);
  const rows = new Map(
    stages.map((stage) => [stage.name, new Map(stage.ops.map((op) => [op[ID], op]))]),
  );
  const cache = new Map();

  function resolve(selection) {
    if (!selection) return NOTHING;
    if (!cache.has(selection)) cache.set(selection, compute(selection));
    return cache.get(selection);
  }

  function compute(selection) {
    const [kind, rest, line] = selection.split("/");
    if (kind === "line") return byLine(Number(rest));
    if (kind === "text") return bySpans(spansOfLine(rest, Number(line)));
    return byOps(kind, new Set(rest.split(",")));
  }

  function spansOfLine(name, line) {
    const stage = data.stages.find((candidate) => candidate.name === name);
    const pane = data.assembly.find((candidate) => candidate.format === name);
    return (stage?.lines ?? pane?.lines ?? {})[line] ?? [];
  }

  function byLine(line) {
    const ops = new Map();
    for (const stage of stages) {
      const found = stage.ops.filter((op) =>
        op[SPANS].some((span) => span[0] <= line && line <= span[2]),
      );
      ops.set(stage.name, new Set(found.map((op) => op[ID])));
    }
    return { lines: new Set([line]), ops, spans: [[line, 1, line, 100000]] };
  }

  function bySpans(spans) {
    if (!spans.length) return NOTHING;
    const keys = new Set(spans.map(String));
    const ops = new Map();
    for (const stage of stages)
      ops.set(
        stage.name,
        new Set(
          stage.ops
            .filter((op) => op[SPANS].some((span) => keys.has(String(span))))
            .map((op) => op[ID]),
        ),
      );
    return { lines: linesOf(spans), ops, spans };
  }

  // Follow origins both ways; where a stage keeps none, equal source spans stand in.
  function byOps(name, ids) {
    const at = stages.findIndex((stage) => stage.name === name);
    if (at < 0) return NOTHING;
    const arguments_ = new Set([...ids].filter((id) => /^(arg|out):/.test(id)));
    const ops = new Map([[name, ids]]);
    const spans = uniqueSpans([...ids].flatMap((id) => rows.get(name).get(id)?.[SPANS] ?? []));
    const keys = new Set(spans.map(String));
    const bySpan = (stage) =>
      new Set(
        stage.ops
          .filter((op) => op[SPANS].length && op[SPANS].every((span) => keys.has(String(span))))
          .map((op) => op[ID]),
      );
    let current = ids;
    for (let i = at; i > 0; i--) {
      const origins = [...current].flatMap(
        (id) => rows.get(stages[i].name).get(id)?.[ORIGINS] ?? [],
      );
      current = origins.length ? new Set(origins) : bySpan(stages[i - 1]);
      ops.set(stages[i - 1].name, new Set([...current, ...arguments_]));
    }
    current = ids;
    for (let i = at + 1; i < stages.length; i++) {
      const next = stages[i].ops.filter((op) => op[ORIGINS].some((id) => current.has(id)));
      current = next.length ? new Set(next.map((op) => op[ID])) : bySpan(stages[i]);
      ops.set(stages[i].name, new Set([...current, ...arguments_]));
    }
    return { lines: linesOf(spans), ops, spans };
  }

  // Which lines of a stage's text are lit.
  function litLines(stage, lit) {
    const lines = new Set();
    for (const id of lit.ops.get(stage.name) ?? []) {
      const line = rows.get(stage.name)?.get(id)?.[LINE];
      if (line) lines.add(line);
    }
    for (const line of litByLines(stage.lines, lit)) lines.add(line);
    if (stage.language === "wia") for (const line of lit.lines) lines.add(line);
    return lines;
  }

  return {
    resolve,
    litLines,
    row: (stage, id) => rows.get(stage)?.get(id),
    rows: (stage) => rows.get(stage),
  };
}

export function litByLines(lineSpans, lit) {
  if (!lit.spans.length) return [];
  return Object.entries(lineSpans ?? {})
    .filter(([, spans]) => spans.some((span) => lit.spans.some((wanted) => overlap(span, wanted))))
    .map(([line]) => Number(line));
}

export function linesOf(spans) {
  const lines = new Set();
  for (const [first, , last] of spans) for (let line = first; line <= last; line++) lines.add(line);
  return lines;
}

const before = (line, column, otherLine, otherColumn) =>
  line < otherLine || (line === otherLine && column <= otherColumn);
const overlap = (a, b) => !before(a[2], a[3], b[0], b[1]) && !before(b[2], b[3], a[0], a[1]);
const uniqueSpans = (spans) => [...new Map(spans.map((span) => [String(span), span])).values()];

export function linesText(lines) {
  const sorted = [...lines].sort((a, b) => a - b);
  if (!sorted.length) return "";
  const runs = [];
  for (const line of sorted) {
    const last = runs[runs.length - 1];
    if (last && line === last[1] + 1) last[1] = line;
    else runs.push([line, line]);
  }
  return `line${sorted.length > 1 ? "s" : ""} ${runs.map(([a, b]) => (a === b ? a : `${a}–${b}`)).join(", ")}`;
}

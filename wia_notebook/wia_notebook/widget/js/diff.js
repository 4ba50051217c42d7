// A line diff: trim what both ends share, then Myers; past MAX_EDITS the middle counts as replaced.
const MAX_EDITS = 1200;
const VALUE_NUMBER = /([%^])(?:(?:bb)?\d+|([A-Za-z]\w*?)_\d+)\b/g;

// Lines that differ in the compiler's value numbers alone count as the same.
export const sameButForNumbers = (line) =>
  line.replace(VALUE_NUMBER, (_, sign, name) => sign + (name ?? "_"));

export function diffRows(before, after) {
  const old = before.map(sameButForNumbers),
    now = after.map(sameButForNumbers);
  let start = 0,
    oldEnd = old.length,
    newEnd = now.length;
  while (start < oldEnd && start < newEnd && old[start] === now[start]) start++;
  while (oldEnd > start && newEnd > start && old[oldEnd - 1] === now[newEnd - 1])
    (oldEnd--, newEnd--);
  const rows = [];
  const same = (a, b) => rows.push({ kind: "same", a, b });
  for (let i = 0; i < start; i++) same(i, i);
  pair(rows, edits(old.slice(start, oldEnd), now.slice(start, newEnd)), start);
  for (let i = 0; oldEnd + i < old.length; i++) same(oldEnd + i, newEnd + i);
  return rows;
}

function edits(old, now) {
  const n = old.length,
    m = now.length,
    max = Math.min(n + m, MAX_EDITS);
  const trace = [];
  let v = new Map([[1, 0]]);
  for (let d = 0; d <= max; d++) {
    trace.push(new Map(v));
    for (let k = -d; k <= d; k += 2) {
      let x =
        k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1))
          ? (v.get(k + 1) ?? 0)
          : (v.get(k - 1) ?? 0) + 1;
      let y = x - k;
      while (x < n && y < m && old[x] === now[y]) (x++, y++);
      v.set(k, x);
      if (x >= n && y >= m) return backtrack(trace, n, m);
    }
  }
  return [...old.map((_, i) => ["gone", i]), ...now.map((_, i) => ["new", i])];
}

function backtrack(trace, n, m) {
  const path = [];
  let x = n,
    y = m;
  for (let d = trace.length - 1; d >= 0; d--) {
    const v = trace[d],
      k = x - y;
    const previous =
      k === -d || (k !== d && (v.get(k - 1) ?? -1) < (v.get(k + 1) ?? -1)) ? k + 1 : k - 1;
    const px = v.get(previous) ?? 0,
      py = px - previous;
    while (x > px && y > py && x > 0 && y > 0) path.push(["same", --x, --y]);
    if (d > 0) path.push(x === px ? ["new", --y] : ["gone", --x]);
  }
  return path.reverse();
}

// Removed and added lines of one place stand side by side.
function pair(rows, path, offset) {
  let gone = [],
    fresh = [];
  const flush = () => {
    for (let i = 0; i < Math.max(gone.length, fresh.length); i++)
      rows.push({ kind: "changed", a: gone[i], b: fresh[i] });
    gone = [];
    fresh = [];
  };
  for (const [kind, first, second] of path) {
    if (kind === "same") {
      flush();
      rows.push({ kind: "same", a: first + offset, b: second + offset });
    } else (kind === "gone" ? gone : fresh).push(first + offset);
  }
  flush();
}

// Long runs of unchanged lines become one row that says how many they are.
export function folded(rows, opened, context = 3) {
  const out = [];
  for (let i = 0; i < rows.length;) {
    let end = i;
    while (end < rows.length && rows[end].kind === "same") end++;
    const keepHead = i === 0 ? 0 : context,
      keepTail = end === rows.length ? 0 : context;
    if (end - i > keepHead + keepTail + 3 && !opened.has(i)) {
      out.push(
        ...rows.slice(i, i + keepHead),
        { kind: "fold", at: i, count: end - i - keepHead - keepTail },
        ...rows.slice(end - keepTail, end),
      );
    } else out.push(...rows.slice(i, end));
    while (end < rows.length && rows[end].kind !== "same") out.push(rows[end++]);
    i = end;
  }
  return out;
}

// The range of columns in which two lines differ, where most of them is the same.
export function differingRange(before, after) {
  let start = 0,
    a = before.length,
    b = after.length;
  while (start < a && start < b && before[start] === after[start]) start++;
  while (a > start && b > start && before[a - 1] === after[b - 1]) (a--, b--);
  const shared = before.length + after.length - (a - start) - (b - start);
  if (shared < 0.5 * (before.length + after.length)) return {};
  return { before: [start, a], after: [start, b] };
}

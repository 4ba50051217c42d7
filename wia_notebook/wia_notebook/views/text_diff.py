"""Two texts line by line: what stayed, went and came."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from html import escape
from typing import Literal

_VALUE_NUMBER = re.compile(r"(?<=[%^])(?:(?:bb)?\d+|([A-Za-z]\w*?)_\d+)\b")


@dataclass(frozen=True)
class DiffLine:
    """One row of a diff: ``before`` and ``after`` are line numbers from 1 (0: there is none)."""

    kind: Literal["same", "gone", "new"]
    text: str
    before: int
    after: int


def same_but_for_numbers(line: str) -> str:
    """The line with the compiler's value numbers left out, which renumber at each pass."""
    return _VALUE_NUMBER.sub(lambda m: m[1] or "_", line)


def diff_lines(before: str, after: str) -> list[DiffLine]:
    """The rows of a line diff; lines that differ in value numbers alone count as the same."""
    old, new = before.splitlines(), after.splitlines()
    keys = (
        [same_but_for_numbers(line) for line in old],
        [same_but_for_numbers(line) for line in new],
    )
    matcher = difflib.SequenceMatcher(None, *keys, autojunk=len(old) + len(new) > 2000)
    rows: list[DiffLine] = []
    for tag, a0, a1, b0, b1 in matcher.get_opcodes():
        if tag == "equal":
            rows += [
                DiffLine("same", new[b], a + 1, b + 1)
                for a, b in zip(range(a0, a1), range(b0, b1), strict=True)
            ]
            continue
        rows += [DiffLine("gone", old[a], a + 1, 0) for a in range(a0, a1)]
        rows += [DiffLine("new", new[b], 0, b + 1) for b in range(b0, b1)]
    return rows


def diff_html(before: str, after: str, *, context: int = 3) -> str:
    """A diff as ``<pre>``: signs carry the meaning, colour helps; long same runs are counted."""
    rows = diff_lines(before, after)
    changed = [index for index, row in enumerate(rows) if row.kind != "same"]
    shown = {i for c in changed for i in range(c - context, c + context + 1)}
    out: list[str] = []
    skipped = 0
    for index, row in enumerate(rows):
        if index not in shown:
            skipped += 1
            continue
        if skipped:
            out.append(f'<span class="d-skip">  ⋯ {skipped} unchanged lines</span>')
            skipped = 0
        sign = {"same": " ", "gone": "-", "new": "+"}[row.kind]
        out.append(f'<span class="d-{row.kind}">{sign} {escape(row.text)}</span>')
    if skipped:
        out.append(f'<span class="d-skip">  ⋯ {skipped} unchanged lines</span>')
    return "<pre>" + "\n".join(out) + "</pre>"

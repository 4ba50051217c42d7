"""The loop nests of a mid-level stage as nested boxes: loops around loops around leaves."""

from __future__ import annotations

import re
from typing import Any

from wia_compiler.base.record import OpRow, Stage

MAX_BOXES = 400
_SHOWN = ("tile.", "scf.for", "scf.if", "scf.parallel", "memref.alloc", "func.call", "gpu.", "tpu.")


def nest_of(stage: Stage) -> dict[str, Any]:
    """A tree of {id, label, family, children}; ``left_out`` counts what a picture cannot hold."""
    children: dict[str | None, list[OpRow]] = {}
    for row in stage.ops:
        children.setdefault(row.parent, []).append(row)
    budget = [MAX_BOXES]
    lines = stage.text.split("\n")
    boxes = [box for row in children.get(None, []) for box in _boxes(row, children, lines, budget)]
    return {"boxes": boxes, "left_out": max(0, -budget[0])}


def _boxes(
    row: OpRow, children: dict[str | None, list[OpRow]], lines: list[str], budget: list[int]
) -> list[dict[str, Any]]:
    held = children.get(row.id, [])
    blocks = list(dict.fromkeys(child.block for child in held))
    if len(blocks) > 1:
        inner = [_block(block, held, children, lines, budget) for block in blocks]
    else:
        inner = [box for child in held for box in _boxes(child, children, lines, budget)]
    if row.name == "builtin.module":
        return inner
    if row.name != "func.func" and not row.name.startswith(_SHOWN):
        return inner
    if row.name.endswith(".yield"):
        return inner
    budget[0] -= 1
    if budget[0] < 0:
        return inner
    note = _note(row, lines[row.line - 1] if 0 < row.line <= len(lines) else "")
    box = {"id": row.id, "label": row.label, "family": row.family, "children": inner}
    return [box | {"note": note} if note else box]


def _block(
    block: str,
    held: list[OpRow],
    children: dict[str | None, list[OpRow]],
    lines: list[str],
    budget: list[int],
) -> dict[str, Any]:
    """A block of a function that branches; its branch stands for it."""
    rows = [row for row in held if row.block == block]
    inner = [box for row in rows for box in _boxes(row, children, lines, budget)]
    last = rows[-1]
    budget[0] -= 1
    ways = [f"^{each}" for each in last.successors]
    if last.name == "cf.cond_br":
        ways = [f"{ways[0]} if true", f"{ways[1]} if false"]
    note = f"then {', '.join(ways)}" if ways else "then returns"
    return {
        "id": last.id,
        "label": f"^{block}",
        "family": "loop",
        "children": inner,
        "note": note,
    }


def _note(row: OpRow, line: str) -> str:
    """What the printed line says beside the label: a loop's level, a leaf's axes, a type."""
    patterns = {
        "tile.for": r"(@\w+) \{",
        "tile.compute": r"axes \[([^\]]*)\]",
        "memref.alloc": r": memref<(.*)>$",
    }
    pattern = patterns.get(row.name)
    found = re.search(pattern, line) if pattern else None
    return found[1].replace('"', "") if found else ""

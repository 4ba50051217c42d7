"""Parents and producers of one stage's rows."""

from __future__ import annotations

from collections.abc import Iterable

from wia_compiler.base.record import OpRow, Stage

HIDDEN = ("wia.declare", "wia.condition", "wia.yield", "tile.yield", "scf.yield")
CONTROL = ("cf.br", "cf.cond_br", "block.argument", "func.return")
"""Rows that say where control goes and what it takes along; they compute nothing."""
CONTAINERS = ("func.func", "builtin.module", "gpu.func", "gpu.module")


class Shape:
    """Who holds whom in a stage, and whose results an op reads."""

    def __init__(self, stage: Stage):
        self.rows = {row.id: row for row in stage.ops}
        self.children: dict[str | None, list[OpRow]] = {}
        for row in stage.ops:
            if row.name not in CONTAINERS:
                self.children.setdefault(self._parent(row), []).append(row)
        self.top = [row for row in self.children.get(None, []) if row.name not in HIDDEN]
        order = [
            operand for row in stage.ops for operand in row.operands if operand.startswith("arg:")
        ]
        self._arguments = {id: index for index, id in enumerate(dict.fromkeys(order))}

    def _parent(self, row: OpRow) -> str | None:
        parent = row.parent
        while parent is not None and self.rows[parent].name in CONTAINERS:
            parent = self.rows[parent].parent
        return parent

    def members(self, id: str) -> list[OpRow]:
        """The ops directly inside a group."""
        return [row for row in self.children.get(id, []) if row.name not in HIDDEN]

    def inside(self, id: str) -> Iterable[OpRow]:
        """Every row inside a group, at any depth."""
        for row in self.children.get(id, []):
            yield row
            yield from self.inside(row.id)

    def producers(self, id: str) -> tuple[str, ...]:
        """What stands behind an operand: a group's results are members that none of them reads."""
        row = self.rows.get(id)
        if row is None:
            return (id,)
        if row.name in ("wia.declare", "wia.condition"):
            return tuple(p for operand in row.operands for p in self.producers(operand))
        members = self.members(id)
        read = {operand for member in members for operand in member.operands}
        return tuple(member.id for member in members if member.id not in read) or (id,)

    def end_order(self, id: str) -> tuple[int, str]:
        """Arguments in the order they are first used."""
        return (self._arguments.get(id, len(self._arguments)), id)

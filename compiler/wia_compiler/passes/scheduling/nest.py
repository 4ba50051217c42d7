"""A nest while directives are applied to it, and what they ask of it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from wia_compiler.base.schedule import Directive, Entry
from wia_compiler.dialects.tile import ComputeOp, ForOp, LoopLevel
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.nests.writer import UNIT_AXES
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_of,
)


@dataclass(frozen=True)
class MemoryNames:
    """The memory spaces in which a target keeps copies of tiles, and the levels of its loops.

    ``packed`` is where ``pack`` copies to, ``cached`` where ``cache`` does; ``parallel`` is the
    level of a loop whose iterations its processors share, ``levels`` all that loops may have.
    """

    packed: str = "packed"
    cached: str = "packed"
    parallel: LoopLevel = "thread"
    levels: tuple[LoopLevel, ...] = ("thread", "serial")


CPU_MEMORY = MemoryNames()
"""Main memory with caches, and threads that share it."""


@dataclass
class ScheduledNest:
    """One nest, what its target is, and what directives before have done to it.

    ``blocks`` are the loops over whole tiles that ``tile`` made, ``warnings`` what a user should
    know of a schedule that is taken all the same.
    """

    function: FuncOp
    facts: TargetFacts
    memory: MemoryNames = CPU_MEMORY
    blocks: list[ForOp] = field(default_factory=list[ForOp])
    warnings: list[str] = field(default_factory=list[str])

    @property
    def name(self) -> str:
        """The nest's name: that of its function in the stage ``loops``."""
        return self.function.sym_name.data

    def leaves(self) -> list[ComputeOp]:
        """The leaves, in the order in which they run."""
        return leaves_of(self.function)

    def loops(self, axis: str | None = None) -> list[ForOp]:
        """The loops, outer ones first; those of one axis where it is named."""
        return loops_of(self.function, axis)

    def axes(self) -> list[str]:
        """The names of all axes: those of loops, then those that leaves alone walk."""
        found = dict.fromkeys(axis_of(loop) for loop in self.loops())
        for leaf in self.leaves():
            found |= dict.fromkeys(leaf.axis_names)
        return list(found)

    def unit_axes(self) -> list[str]:
        """The names of axes that have one point for these arguments, and so no loop."""
        noted = self.function.attributes.get(UNIT_AXES)
        listed = cast("ArrayAttr[StringAttr]", noted) if isinstance(noted, ArrayAttr) else ()
        return [each.data for each in listed]

    def is_folded(self, axis: str) -> bool:
        """Whether a leaf folds an axis."""
        return any(axis in {name.data for name in leaf.reduce_axes} for leaf in self.leaves())

    def loop(self, entry: Entry, name: str | None = None) -> ForOp:
        """The loop that an entry names: ``i.0``, or with a bare ``i`` the innermost of ``i``."""
        wanted = name or entry.name or ""
        found = [loop for loop in self.loops() if wanted in (loop.axis.data, axis_of(loop))]
        if found:
            return found[-1]
        names = list(dict.fromkeys(loop.axis.data for loop in self.loops()))
        if wanted in self.axes():
            raise IllegalRewrite(
                f"axis {wanted!r} has no loop: a leaf walks all of it",
                hint=f"tile {wanted} SIZE makes one; there are {_listed(names)}",
                span=entry.span,
            )
        raise IllegalRewrite(
            f"no loop {wanted!r}",
            hint=_nearest(wanted, [*names, *self.axes()], f"the nest has {_listed(names)}"),
            span=entry.span,
        )

    def check_axis(self, entry: Entry) -> str:
        """The axis that an entry names; ``IllegalRewrite`` lists those there are."""
        axis = entry.name
        if axis is None:
            raise IllegalRewrite(
                f"{entry.number} belongs to no axis",
                hint=f"name it: {_listed(self.axes())}",
                span=entry.span,
            )
        if axis not in self.axes():
            hint = _nearest(axis, self.axes(), f"the nest has {_listed(self.axes())}")
            raise IllegalRewrite(f"no axis {axis!r}", hint=hint, span=entry.span)
        return axis

    def arrays(self) -> dict[str, SSAValue]:
        """The arrays of main memory that the nest reads and writes, by name (``arrays_of``)."""
        return arrays_of(self.function)

    def array(self, entry: Entry) -> SSAValue:
        """The array that an entry names; ``IllegalRewrite`` lists those there are."""
        known = self.arrays()
        name = (entry.name or "").partition(".")[0]
        if name not in known:
            hint = _nearest(name, known, f"the nest reads and writes {_listed(known)}")
            raise IllegalRewrite(f"no array {name!r}", hint=hint, span=entry.span)
        return known[name]

    def warn(self, text: str) -> None:
        """Note what a user should know of a schedule that is taken all the same."""
        self.warnings.append(text)


def arrays_of(function: FuncOp) -> dict[str, SSAValue]:
    """The arrays that a nest reads and writes, by the names that directives have for them.

    Names are those of the text; a second array of a name is ``NAME_1``, one without ``arg0``.
    """
    found: dict[str, SSAValue] = {}
    for number, value in enumerate(function.body.block.args):
        name = value.name_hint or f"arg{number}"
        unique, again = name, 0
        while unique in found:
            again += 1
            unique = f"{name}_{again}"
        found[unique] = value
    return found


def number_of(directive: Directive, entry: Entry, what: str, least: int = 1) -> int:
    """The number of an entry; ``IllegalRewrite`` says ``what`` it is where it is missing or low."""
    if entry.number is None:
        raise IllegalRewrite(
            f"{directive.name} {entry.name} has no {what}",
            hint=f"write {directive.name} {entry.name} 8",
            span=entry.span,
        )
    if entry.number < least:
        raise IllegalRewrite(
            f"{directive.name} takes a {what} from {least}, found {entry.number}",
            hint=f"write {directive.name} {entry.name or ''} 8".replace("  ", " "),
            span=entry.span,
        )
    return entry.number


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def _nearest(wanted: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(wanted, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else otherwise

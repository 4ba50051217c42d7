"""What a schedule asks of a loop and lowering carries out: hints, kept as attributes.

A directive that changes neither the order of what is computed nor where values are kept
(``unroll``, ``pipeline`` …) is checked when it is applied and only noted then. The note stands on
the loop, or on the leaf whose axis becomes one, until code of that loop exists, where
``passes.scf_rewrites`` writes it out::

    tile.for %k0 in 100 step 32 axis "k.0" @serial attributes {wia.pipeline = 2 : i64}
    tile.compute contract … attributes {wia.hints = {k = {accumulators = 4 : i64}}}
      →  scf.for %k = … {wia.accumulators = 4 : i64}

================== ============================================================================
unroll             iterations that one turn runs, one after the other; a unit: all of them
unroll_and_jam     iterations of an outer loop that share one turn of the loops inside it
accumulators       partial results of a fold: iteration n goes to number n mod that many
pipeline           stages: loads run that many - 1 iterations before what uses them
prefetch           an array of ``{array, argument, ahead, level}``
independent        a unit: iterations may run in any order (a tile loop says so by being one)
================== ============================================================================

On a loop each name has the prefix ``wia.``; ``wia.unroll`` that nothing expanded is what LLVM is
asked to do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, Operation

if TYPE_CHECKING:
    from wia_compiler.dialects.tile import ComputeOp

PREFIX = "wia."
AXIS_HINTS = "wia.hints"
"""Attribute of a leaf: for each axis that has some, its hints."""
WHOLE = 0
"""``unroll`` of all iterations."""
_HANDED_ON = "wia.handed_on"
_COUNTS = ("unroll", "unroll_and_jam", "accumulators", "pipeline")


@dataclass(frozen=True)
class Prefetch:
    """An array of the nest to bring nearer before it is read.

    ``argument`` is its number among the nest's parameters, ``ahead`` how far the loop's variable is
    ahead (in points of the axis), ``level`` the cache it is brought to (1, 2 or 3).
    """

    array: str
    argument: int
    ahead: int
    level: int = 1


@dataclass(frozen=True)
class LoopHints:
    """The hints of one loop; a count of 1 asks for nothing."""

    unroll: int = 1
    unroll_and_jam: int = 1
    accumulators: int = 1
    pipeline: int = 1
    prefetch: tuple[Prefetch, ...] = ()
    independent: bool = False

    def __bool__(self) -> bool:
        counts = (self.unroll, self.unroll_and_jam, self.accumulators, self.pipeline)
        return counts != (1, 1, 1, 1) or bool(self.prefetch)


def hints_of(loop: Operation) -> LoopHints:
    """The hints on a ``tile.for`` or ``scf.for``."""
    names = (*_COUNTS, "prefetch", "independent")
    found = {name: loop.attributes.get(PREFIX + name) for name in names}
    return _read({name: value for name, value in found.items() if value is not None})


def note_hints(loop: Operation, hints: LoopHints) -> None:
    """Put hints on a ``tile.for`` or ``scf.for`` in the place of those it has."""
    for name in (*_COUNTS, "prefetch", "independent"):
        loop.attributes.pop(PREFIX + name, None)
    loop.attributes |= {PREFIX + name: value for name, value in _written(hints).items()}


def axis_hints(leaf: ComputeOp, axis: str) -> LoopHints:
    """The hints of one axis of a leaf."""
    table = _table(leaf)
    found = table.get(axis)
    return LoopHints() if found is None else _read(cast("DictionaryAttr", found).data)


def note_axis_hints(leaf: ComputeOp, axis: str, hints: LoopHints) -> None:
    """Put hints on one axis of a leaf in the place of those it has."""
    table = {name: value for name, value in _table(leaf).items() if name != axis}
    if hints:
        table[axis] = DictionaryAttr(_written(hints))
    if table:
        leaf.attributes[AXIS_HINTS] = DictionaryAttr(table)
    else:
        leaf.attributes.pop(AXIS_HINTS, None)


def hand_on(leaf: ComputeOp, axis: str, loop: Operation) -> None:
    """Give a loop that lowering made for an axis of a leaf the hints of that axis.

    Iterations over an axis that the leaf does not fold are independent, and it is noted so.
    """
    hints = axis_hints(leaf, axis)
    if hints:
        kept = axis not in {name.data for name in leaf.reduce_axes}
        note_hints(loop, replace(hints, independent=kept))
        leaf.attributes[_HANDED_ON] = ArrayAttr([*_handed_on(leaf), StringAttr(axis)])


def lost_hints(leaf: ComputeOp) -> list[str]:
    """The axes of a lowered leaf whose hints no loop was given: they were written out."""
    given = {name.data for name in _handed_on(leaf)}
    return [axis for axis in _table(leaf) if axis not in given]


def _handed_on(leaf: ComputeOp) -> list[StringAttr]:
    found = leaf.attributes.get(_HANDED_ON)
    return list(cast("ArrayAttr[StringAttr]", found)) if found is not None else []


def _table(leaf: ComputeOp) -> Mapping[str, Attribute]:
    found = leaf.attributes.get(AXIS_HINTS)
    return found.data if isinstance(found, DictionaryAttr) else {}


def _written(hints: LoopHints) -> dict[str, Attribute]:
    made: dict[str, Attribute] = {}
    for name in _COUNTS:
        count: int = getattr(hints, name)
        if count != 1:
            whole = name == "unroll" and count == WHOLE
            made[name] = UnitAttr() if whole else IntegerAttr(count, i64)
    if hints.prefetch:
        made["prefetch"] = ArrayAttr([_prefetch_attribute(each) for each in hints.prefetch])
    if hints.independent:
        made["independent"] = UnitAttr()
    return made


def _prefetch_attribute(each: Prefetch) -> DictionaryAttr:
    numbers = {"argument": each.argument, "ahead": each.ahead, "level": each.level}
    return DictionaryAttr(
        {
            "array": StringAttr(each.array),
            **{name: IntegerAttr(number, i64) for name, number in numbers.items()},
        }
    )


def _read(found: Mapping[str, Attribute]) -> LoopHints:
    counts = {name: _count(found[name]) for name in _COUNTS if name in found}
    listed = cast("ArrayAttr[DictionaryAttr]", found.get("prefetch", ArrayAttr([])))
    prefetch = tuple(
        Prefetch(
            cast("StringAttr", each.data["array"]).data,
            *(_count(each.data[name]) for name in ("argument", "ahead", "level")),
        )
        for each in listed
    )
    return LoopHints(**counts, prefetch=prefetch, independent="independent" in found)


def _count(value: Attribute) -> int:
    return value.value.data if isinstance(value, IntegerAttr) else WHOLE

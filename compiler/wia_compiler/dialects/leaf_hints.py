"""Notes of a schedule on a leaf that lowering carries out: lanes, and stores past the caches.

::

    tile.compute map … outs(%y[%i0 + i] : …) attributes {wia.streamed = [0], wia.lanes = {i = 8}}
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, i64

from wia_compiler.dialects.tile import ComputeOp

STREAMED = "wia.streamed"
"""Attribute of a leaf: the numbers of the outputs whose stores are not to fill the caches."""

LANES = "wia.lanes"
"""Attribute of a leaf: the axis that vectors run along, and their lanes."""


def note_lanes(leaf: ComputeOp, axis: str, lanes: int) -> None:
    """Let vectors of so many lanes run along an axis of a leaf."""
    leaf.attributes[LANES] = DictionaryAttr({axis: IntegerAttr(lanes, i64)})


def noted_lanes(leaf: ComputeOp) -> tuple[str, int] | None:
    """The axis that a schedule wants vectors along, and their lanes; ``None``: it says nothing."""
    noted = leaf.attributes.get(LANES)
    if not isinstance(noted, DictionaryAttr):
        return None
    ((axis, lanes),) = noted.data.items()
    return axis, cast("IntegerAttr", lanes).value.data


def streamed_outputs(leaf: ComputeOp) -> frozenset[int]:
    """The outputs that are written past the caches (non-temporal stores)."""
    noted = leaf.attributes.get(STREAMED)
    listed = cast("ArrayAttr[IntegerAttr]", noted) if isinstance(noted, ArrayAttr) else ()
    return frozenset(each.value.data for each in listed)


def note_streamed(leaf: ComputeOp, output: int) -> None:
    """Write one more output past the caches."""
    numbers = sorted({*streamed_outputs(leaf), output})
    leaf.attributes[STREAMED] = ArrayAttr([IntegerAttr(number, i64) for number in numbers])

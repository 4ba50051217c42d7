"""Which outputs of a leaf go past the caches: a note of the schedule that lowering carries out.

::

    tile.compute map … outs(%y[%i0 + i] : …) attributes {wia.streamed = [0 : i64]}
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, i64

from wia_compiler.dialects.tile import ComputeOp

STREAMED = "wia.streamed"
"""Attribute of a leaf: the numbers of the outputs whose stores are not to fill the caches."""


def streamed_outputs(leaf: ComputeOp) -> frozenset[int]:
    """The outputs that are written past the caches (non-temporal stores)."""
    noted = leaf.attributes.get(STREAMED)
    listed = cast("ArrayAttr[IntegerAttr]", noted) if isinstance(noted, ArrayAttr) else ()
    return frozenset(each.value.data for each in listed)


def note_streamed(leaf: ComputeOp, output: int) -> None:
    """Write one more output past the caches."""
    numbers = sorted({*streamed_outputs(leaf), output})
    leaf.attributes[STREAMED] = ArrayAttr([IntegerAttr(number, i64) for number in numbers])

"""``dot``: products of four neighbouring small integers are added at a time."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, scope_of
from wia_compiler.passes.tile_rewrites.dots import interleave_dots
from wia_compiler.passes.tile_rewrites.integer_products import integer_product

SYNTAX = "dot"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Lay what ``pack`` copied out for instructions that add four products of 8 bits to 32.

    ``dot``, after ``pack B``::

        contract acc[i, j] += sext(A[i, k]) * sext(B_tile[k, j])
          →  contract acc[i, j] += sext(A[i, k]) * zext(B_tile[k floordiv 4, j, k mod 4])

    Four neighbours along the folded axis lie side by side in the copy. The instructions multiply a
    number with a sign by one without, so numbers that both have one are moved by 128 in the copy,
    and sums start from what that adds: exact for every number. Legal for products of 8-bit integers
    that are added up in 32 bits, one of them packed.
    """
    if directive.entries:
        raise IllegalRewrite("dot names nothing", hint=SYNTAX)
    found = [leaf for leaf in nest.leaves() if integer_product(leaf) is not None]
    if len(found) != 1:
        raise IllegalRewrite(
            "no leaf adds products of 8-bit integers up in 32 bits",
            hint="write cast(A, i32) @ cast(B, i32) with A and B of i8",
        )
    (leaf,) = found
    packed = [n for n, value in enumerate(leaf.inputs) if scope_of(value) == nest.memory.packed]
    if len(packed) != 1:
        raise IllegalRewrite(
            f"{len(packed)} of the two operands are packed, dot takes one that is",
            hint="pack the operand that vectors are read from first",
        )
    interleave_dots(leaf, packed[0])

"""The order in which loops stand one in another."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from wia_compiler.dialects.tile import ForOp
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    is_folded,
    is_ordered,
    loops_around,
    loops_of,
)


def interchange(outer: ForOp, inner: ForOp) -> None:
    """Swap two loops of which one holds nothing but the other.

    ::

        for %i0 … { for %j0 … { leaf } }   →   for %j0 … { for %i0 … { leaf } }
    """
    if inner.parent_op() is not outer:
        raise IllegalRewrite(f"{inner.axis.data} does not stand directly in {outer.axis.data}")
    if outer.body.block.first_op is not inner or outer.body.block.last_op is not inner:
        raise IllegalRewrite(f"{outer.axis.data} holds more than {inner.axis.data}")
    if axis_of(outer) == axis_of(inner):
        raise IllegalRewrite(f"both loops walk {axis_of(outer)!r}: the outer takes whole tiles")
    if is_folded(outer) and is_folded(inner) and is_ordered(outer):
        raise IllegalRewrite(
            f"{outer.axis.data} and {inner.axis.data} add to one sum in the order of the text"
        )
    block = outer.parent_block()
    assert block is not None
    inner.detach()
    block.insert_op_before(inner, outer)
    outer.detach()
    for op in list(inner.body.block.ops):
        op.detach()
        outer.body.block.add_op(op)
    inner.body.block.add_op(outer)


def reorder_loops(nest: Operation, names: Sequence[str]) -> None:
    """Let the named loops stand in that order, at the places that they take together.

    ::

        for %i0 … for %j0 … for %k0 … leaf   →   for %k0 … for %j0 … for %i0 … leaf     k.0, i.0

    Where a nest has loops of these names in several parts, each part is ordered alike. Legal where
    each two that change places may be interchanged.
    """
    wanted = set(names)
    around = [loop for loop in loops_of(nest) if loop.axis.data in wanted]
    roots = [loop for loop in around if not any(each in around for each in loops_around(loop))]
    for root in roots:
        chain = _chain(root)
        held = {loop.axis.data for loop in around if root is loop or root.is_ancestor(loop)}
        missing = held - {loop.axis.data for loop in chain}
        if missing:
            last = chain[-1].axis.data
            raise IllegalRewrite(
                f"{last} holds more than the loop {min(missing)}",
                hint="loops change places where each holds nothing but the next",
            )
        order = [name for name in names if name in held]
        places = [n for n, loop in enumerate(chain) if loop.axis.data in held]
        rank = {loop: n for n, loop in enumerate(chain)}
        for place, name in zip(places, order, strict=True):
            rank[next(loop for loop in chain if loop.axis.data == name)] = place
        for last in range(len(chain) - 1, 0, -1):
            for n in range(last):
                if rank[chain[n]] > rank[chain[n + 1]]:
                    interchange(chain[n], chain[n + 1])
                    chain[n], chain[n + 1] = chain[n + 1], chain[n]


def _chain(root: ForOp) -> list[ForOp]:
    """A loop and those in it, as long as each holds nothing but the next."""
    chain = [root]
    while isinstance(inner := chain[-1].body.block.first_op, ForOp) and inner.next_op is None:
        chain.append(inner)
    return chain

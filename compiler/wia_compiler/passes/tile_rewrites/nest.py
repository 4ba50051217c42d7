"""Looking around in a nest, and exchanging parts of a leaf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.base.source import Span
from wia_compiler.dialects.gpu_memory import scope_of_type
from wia_compiler.dialects.tile import ComputeOp, ForOp, LeafKind, LeafLevel
from wia_compiler.passes.affine import atoms, simplify


class IllegalRewrite(Exception):
    """A rewrite that would change what the nest computes, or that has nothing to act on.

    ``hint`` is what would be legal, ``span`` the part of a schedule's line that asked for it, where
    that is known better than the whole line.
    """

    def __init__(self, message: str, *, hint: str | None = None, span: Span | None = None):
        super().__init__(message)
        self.hint = hint
        self.span = span


def axis_of(loop: ForOp) -> str:
    """The leaf axis that a loop walks: ``i`` of ``i.0``."""
    return loop.axis.data.partition(".")[0]


def loops_of(nest: Operation, axis: str | None = None) -> list[ForOp]:
    """The loops inside an op, outer ones first; those of one axis where it is named."""
    found = [op for op in nest.walk() if isinstance(op, ForOp) and op is not nest]
    return [loop for loop in found if axis is None or axis_of(loop) == axis]


def leaves_of(nest: Operation) -> list[ComputeOp]:
    """The leaves inside an op, in the order in which they run."""
    return [op for op in nest.walk() if isinstance(op, ComputeOp)]


def find_loop(nest: Operation, name: str) -> ForOp:
    """The loop of that name (``i.0``); ``IllegalRewrite`` lists the names there are."""
    for loop in loops_of(nest):
        if loop.axis.data == name:
            return loop
    names = ", ".join(loop.axis.data for loop in loops_of(nest))
    raise IllegalRewrite(f"no loop {name!r}: the nest has {names or 'none'}")


def loops_around(op: Operation) -> list[ForOp]:
    """The loops around an op, outermost first."""
    found: list[ForOp] = []
    parent = op.parent_op()
    while parent is not None:
        if isinstance(parent, ForOp):
            found.append(parent)
        parent = parent.parent_op()
    return found[::-1]


def is_folded(loop: ForOp) -> bool:
    """Whether a leaf inside folds the axis that the loop walks."""
    axis = axis_of(loop)
    return any(axis in {name.data for name in leaf.reduce_axes} for leaf in leaves_of(loop))


def is_ordered(nest: Operation) -> bool:
    """Whether a fold in a nest adds in the order of a text that writes the sum out."""
    return any(leaf.is_ordered for leaf in leaves_of(nest))


def check_fold_order(leaf: ComputeOp, axis: str, size: int) -> None:
    """Refuse to cut an ordered fold along another than its first folded axis.

    Cut along a later one, its elements would be added in another order.
    """
    position = leaf.axis_names.index(axis)
    if not leaf.is_ordered or not leaf.reductions[position] or size >= leaf.sizes[position]:
        return
    axes = zip(leaf.axis_names[:position], leaf.sizes, leaf.reductions, strict=False)
    before = next((name for name, count, folded in axes if folded and count > 1), None)
    if before is not None:
        raise IllegalRewrite(
            f"a sum that the text writes out goes over {before} first: cut along {axis!r} it would "
            "be added in another order",
            hint=f"cut {before} into single points first: tile {before} 1",
        )


def scope_of(memref: SSAValue) -> str:
    """The memory a buffer is in: ``register``, ``shared`` …; empty for the target's main memory."""
    return scope_of_type(cast("MemRefType[Attribute]", memref.type))


def replace_leaf(
    leaf: ComputeOp,
    *,
    axes: Sequence[tuple[str, int]] | None = None,
    ivs: Sequence[SSAValue] | None = None,
    inputs: Sequence[SSAValue] | None = None,
    outputs: Sequence[SSAValue] | None = None,
    maps: Sequence[AffineMap] | None = None,
    bounds: Sequence[tuple[AffineExpr, int]] | None = None,
    padded: Sequence[bool] | None = None,
    level: LeafLevel | None = None,
) -> ComputeOp:
    """The same leaf in its place with some parts exchanged; the old one is gone.

    ``bounds`` pairs an expression with its limit. Body, location and notes stay.
    """
    own_axes = axes if axes is not None else list(zip(leaf.axis_names, leaf.sizes, strict=True))
    own_ivs = list(leaf.ivs) if ivs is None else ivs
    pairs = bounds_of(leaf) if bounds is None else bounds
    bounds_map = AffineMap(len(own_axes), len(own_ivs), tuple(each for each, _ in pairs))
    made = ComputeOp(
        cast(LeafKind, leaf.kind.data),
        axes=own_axes,
        reduce_axes=[name.data for name in leaf.reduce_axes],
        ivs=own_ivs,
        inputs=list(leaf.inputs) if inputs is None else inputs,
        outputs=list(leaf.outputs) if outputs is None else outputs,
        maps=[each.data for each in leaf.maps] if maps is None else maps,
        bounds=bounds_map,
        limits=[limit for _, limit in pairs],
        padded=leaf.is_padded if padded is None else padded,
        level=level or cast(LeafLevel, leaf.level.data),
        body=leaf.detach_region(leaf.body),
    )
    made.location = leaf.location
    made.attributes = dict(leaf.attributes)
    block = leaf.parent_block()
    assert block is not None
    block.insert_op_before(made, leaf)
    leaf.detach()
    leaf.erase()
    return made


def needs_bounds(leaf: ComputeOp) -> bool:
    """Whether points past an edge would do harm: not in a leaf that only fills a buffer."""
    return bool(leaf.inputs) or any(scope_of(value) == "" for value in leaf.outputs)


def bounds_of(leaf: ComputeOp) -> list[tuple[AffineExpr, int]]:
    """The leaf's bounds as pairs of an expression and its limit."""
    return list(zip(leaf.bounds.data.results, leaf.limit_values, strict=True))


def used_ivs(leaf: ComputeOp) -> set[SSAValue]:
    """The induction variables that a leaf's maps and bounds read."""
    expressions = [e for each in (*leaf.maps, leaf.bounds) for e in each.data.results]
    read = {atom for e in expressions for atom in atoms(e) if isinstance(atom, AffineSymExpr)}
    return {leaf.ivs[symbol.position] for symbol in read}


def walking_loops(leaf: ComputeOp, operand: int) -> list[ForOp]:
    """The loops around a leaf whose variables an input's index reads, outermost first."""
    read = {
        leaf.ivs[atom.position]
        for result in leaf.input_maps[operand].results
        for atom in atoms(result)
        if isinstance(atom, AffineSymExpr)
    }
    return [loop for loop in loops_around(leaf) if loop.induction_variable in read]


def replace_ivs(leaf: ComputeOp, parts: Mapping[SSAValue, Sequence[SSAValue]]) -> ComputeOp:
    """The leaf with induction variables replaced by sums of others (an empty sum is 0)."""
    ivs: list[SSAValue] = []
    symbols: list[AffineExpr] = []
    for iv in leaf.ivs:
        total: AffineExpr = AffineExpr.constant(0)
        for part in parts.get(iv, (iv,)):
            total = total + AffineExpr.symbol(len(ivs))
            ivs.append(part)
        symbols.append(total)
    return remap_leaf(leaf, None, symbols, ivs)


def remap_leaf(
    leaf: ComputeOp,
    dims: Sequence[AffineExpr] | None,
    symbols: Sequence[AffineExpr],
    ivs: Sequence[SSAValue],
    *,
    axes: Sequence[tuple[str, int]] | None = None,
    bounds: Sequence[tuple[AffineExpr, int]] = (),
) -> ComputeOp:
    """The leaf with its axes and induction variables replaced in every map and bound.

    ``bounds`` (in the new variables) are added to those it has, each once.
    """
    rank = len(leaf.axis_names)
    own = [AffineExpr.dimension(n) for n in range(rank)] if dims is None else dims
    old = [
        (simplify(e.replace_dims_and_symbols(own, symbols)), limit) for e, limit in bounds_of(leaf)
    ]
    added = [(simplify(each), limit) for each, limit in bounds]
    return replace_leaf(
        leaf,
        axes=axes,
        ivs=ivs,
        maps=[remap(each.data, own, symbols, (rank, len(ivs))) for each in leaf.maps],
        bounds=list(dict.fromkeys([*old, *added])),
    )


def remap(
    each: AffineMap,
    dims: Sequence[AffineExpr],
    symbols: Sequence[AffineExpr],
    rank: tuple[int, int],
) -> AffineMap:
    """A map with its dimensions and symbols replaced."""
    results = (e.replace_dims_and_symbols(dims, symbols) for e in each.results)
    return AffineMap(*rank, tuple(simplify(result) for result in results))

"""A fold in parts that do not wait for each other: each has a result of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, IntegerType, MemRefType, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.passes.affine import atoms, simplify
from wia_compiler.passes.emit_leaf import fold_op, is_carried, is_folded_into
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    bounds_of,
    leaves_of,
    loops_around,
    replace_leaf,
    scope_of,
)

_IDEMPOTENT = {
    f"arith.{name}"
    for name in ("maximumf", "minimumf", "maxsi", "minsi", "maxui", "minui", "andi", "ori")
}
PART = "part"
"""What the axis over parts is called behind the name of the axis that is cut: ``k_part``."""


def fold_parts(leaf: ComputeOp, axis: str, size: int, scope: str = "packed") -> ForOp:
    """Fold each ``size`` points of an axis into a result of their own, and these one by one.

    ::

        map %acc[] = 0                           map %acc[] = 0
        reduce [k = 1000] %acc[] += x[k]    →    %parts = alloc 4 @packed
                                                 for %p0 in 4 step 1 axis "k_part.0" @serial
                                                   map %parts[%p0 + p] = 0
                                                   reduce [p = 1, k = 256] %parts[%p0 + p] +=
                                                     x[%p0 * 256 + k] bounds (%p0 * 256 + k < 1000)
                                                 reduce [p = 4] %acc[] += %parts[p]

    The new loop is no fold: its iterations may run at once. In which order a fold adds is left open
    by the numerics contract, so that a ``wia.ordered`` leaf is not cut. The result does not depend
    on who runs the parts. Gives the loop.
    """
    if size < 1:
        raise IllegalRewrite(f"parts of {size} points of axis {axis!r}")
    check_parts(leaf, axis)
    position = leaf.axis_names.index(axis)
    extent = leaf.sizes[position]
    size = min(size, extent)
    count = -(-extent // size)
    part = f"{axis}_{PART}"
    loop = ForOp(f"{part}.0", count, 1, "serial")
    loop.location = leaf.location
    block = leaf.parent_block()
    assert block is not None
    buffers = [_parts_of(value, count, scope) for value in leaf.outputs]
    for buffer in buffers:
        buffer.location = leaf.location
    block.insert_ops_before([*buffers, loop], leaf)
    parts = [buffer.memref for buffer in buffers]
    results = [_results(leaf, value) for value in leaf.outputs]
    for fill, value, made in zip(map(_fill_of, results), leaf.outputs, parts, strict=True):
        loop.body.block.add_op(_fill(fill, value, made, part, loop))
    combined = _combine(leaf, parts, part, count)
    block.insert_op_after(combined, leaf)
    leaf.detach()
    loop.body.block.add_op(leaf)
    _fold_part(leaf, parts, (part, loop), (position, size, extent))
    return loop


def check_parts(leaf: ComputeOp, axis: str) -> None:
    """``IllegalRewrite`` where a fold cannot be cut along an axis (``fold_parts``)."""
    folded = [name.data for name in leaf.reduce_axes]
    if axis not in folded:
        raise IllegalRewrite(f"the leaf does not fold {axis!r}; it folds {', '.join(folded)}")
    if leaf.is_ordered:
        raise IllegalRewrite(
            f"a sum that the text writes out adds along {axis!r} in order",
            hint="write the sum as reduce_sum, whose order is open",
        )
    walked = [loop.axis.data for loop in loops_around(leaf) if axis_of(loop) in folded]
    if walked:
        raise IllegalRewrite(
            f"{walked[0]} walks a folded axis already",
            hint=f"write parallel {axis} SIZE before what tiles {axis}",
        )
    for number, value in enumerate(leaf.outputs):
        if not is_folded_into(leaf, number) or not is_carried(leaf, number):
            raise IllegalRewrite(f"the leaf writes an element at each point of axis {axis!r}")
        if scope_of(value) == "" or not isinstance(value.owner, memref.AllocOp):
            raise IllegalRewrite("the leaf folds into main memory")
        read = {atom for e in leaf.output_maps[number].results for atom in atoms(e)}
        if any(isinstance(atom, AffineSymExpr) for atom in read):
            raise IllegalRewrite("the buffer of the fold holds the results of several turns")
        fill = _fill_of(_results(leaf, value))
        if fill is None or not _is_neutral(fill, list(fill.outputs).index(value), leaf, number):
            raise IllegalRewrite("what the fold starts from is not neutral: parts would repeat it")


def _results(leaf: ComputeOp, value: SSAValue) -> list[ComputeOp]:
    """What wrote an output of the leaf before it, in order."""
    parent = leaf.parent_op()
    assert parent is not None
    before: list[ComputeOp] = []
    for other in leaves_of(parent):
        if other is leaf:
            break
        if value in other.outputs:
            before.append(other)
    return before


def _fill_of(before: Sequence[ComputeOp]) -> ComputeOp | None:
    """The leaf that gives a buffer its first numbers, if nothing else writes it."""
    return before[0] if len(before) == 1 and not before[0].inputs else None


def _is_neutral(fill: ComputeOp, output: int, leaf: ComputeOp, number: int) -> bool:
    value = cast(YieldOp, fill.body.block.last_op).arguments[output].owner
    if not isinstance(value, arith.ConstantOp):
        return False
    op = fold_op(leaf, number)
    if op.name in _IDEMPOTENT:
        return True  # what a fold may take twice may stand in each part
    held = cast("FloatAttr | IntegerAttr[IntegerType]", value.value)
    neutral = _neutral(op)
    return neutral is not None and held.value.data == neutral


def _neutral(op: Operation) -> float | int | None:
    """The number that a fold's op leaves as it is; ``None`` where none is known."""
    numbers: dict[str, float | int] = {
        **{"addf": 0.0, "mulf": 1.0},
        **{"addi": 0, "muli": 1, "xori": 0},
    }
    return numbers.get(op.name.removeprefix("arith."))


def _parts_of(value: SSAValue, count: int, scope: str) -> memref.AllocOp:
    """A buffer with an element for each part and each element of an output."""
    type_ = cast("MemRefType[Attribute]", value.type)
    shape = [count, *type_.get_shape()]
    made = memref.AllocOp(
        [], [], MemRefType(type_.element_type, shape, memory_space=StringAttr(scope))
    )
    made.memref.name_hint = f"{value.name_hint or 'acc'}_parts"
    return made


def _fill(
    fill: ComputeOp | None, value: SSAValue, parts: SSAValue, part: str, loop: ForOp
) -> ComputeOp:
    """The leaf that fills the result of one part as ``fill`` fills the whole's."""
    assert fill is not None
    number = list(fill.outputs).index(value)
    rank = len(fill.axis_names)
    own = fill.output_maps[number]
    ivs = [each.induction_variable for each in (*loops_around(loop), loop)]
    index = AffineExpr.symbol(len(ivs) - 1) + AffineExpr.dimension(rank)
    constant = cast(YieldOp, fill.body.block.last_op).arguments[number].owner
    assert isinstance(constant, arith.ConstantOp)
    copied = constant.clone()
    made = ComputeOp(
        "map",
        axes=[*zip(fill.axis_names, fill.sizes, strict=True), (part, 1)],
        ivs=ivs,
        inputs=[],
        outputs=[parts],
        maps=[AffineMap(rank + 1, len(ivs), (index, *own.results))],
        body=Region(Block([copied, YieldOp([copied.result])])),
    )
    made.location = fill.location
    return made


def _combine(leaf: ComputeOp, parts: Sequence[SSAValue], part: str, count: int) -> ComputeOp:
    """The leaf that folds the parts' results, in order, into what the whole fold writes."""
    kept = [
        (name, size)
        for name, size, folded in zip(leaf.axis_names, leaf.sizes, leaf.reductions, strict=True)
        if not folded
    ]
    places = {name: AffineExpr.dimension(number) for number, (name, _) in enumerate(kept)}
    dims = [places.get(name, AffineExpr.constant(0)) for name in leaf.axis_names]
    ivs = [each.induction_variable for each in loops_around(leaf)]
    rank = (len(kept) + 1, len(ivs))
    outs = [
        AffineMap(*rank, tuple(e.replace_dims_and_symbols(dims, []) for e in each.results))
        for each in leaf.output_maps
    ]
    ins = [AffineMap(*rank, (AffineExpr.dimension(len(kept)), *each.results)) for each in outs]
    elements = [cast("MemRefType[Attribute]", value.type).element_type for value in leaf.outputs]
    block = Block(arg_types=[*elements, *elements])
    folded: list[SSAValue] = []
    for number in range(len(elements)):
        new, held = block.args[number], block.args[len(elements) + number]
        made = fold_op(leaf, number).clone()
        made.operands = [held, new]
        block.add_op(made)
        folded.append(made.results[0])
    block.add_op(YieldOp(folded))
    combined = ComputeOp(
        "reduce",
        axes=[*kept, (part, count)],
        reduce_axes=[part],
        ivs=ivs,
        inputs=list(parts),
        outputs=list(leaf.outputs),
        maps=[*ins, *outs],
        body=Region(block),
    )
    combined.location = leaf.location
    return combined


def _fold_part(
    leaf: ComputeOp,
    parts: Sequence[SSAValue],
    over: tuple[str, ForOp],
    cut: tuple[int, int, int],
) -> None:
    """The leaf over the points of one part, into its result."""
    (part, loop), (position, size, extent) = over, cut
    rank, ivs = len(leaf.axis_names), [*leaf.ivs, loop.induction_variable]
    dims = [AffineExpr.dimension(number) for number in range(rank)]
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    turn = AffineExpr.symbol(len(leaf.ivs)) + AffineExpr.dimension(rank)
    dims[position] = turn * size + dims[position]
    axes = [*zip(leaf.axis_names, leaf.sizes, strict=True), (part, 1)]
    axes[position] = (leaf.axis_names[position], size)

    def moved(each: AffineExpr) -> AffineExpr:
        return simplify(each.replace_dims_and_symbols(dims, symbols))

    def moved_map(each: AffineMap, *before: AffineExpr) -> AffineMap:
        return AffineMap(rank + 1, len(ivs), (*before, *map(moved, each.results)))

    bounds = [(moved(each), limit) for each, limit in bounds_of(leaf)]
    if extent % size:
        bounds.append((simplify(dims[position]), extent))
    replace_leaf(
        leaf,
        axes=axes,
        ivs=ivs,
        outputs=parts,
        maps=[
            *(moved_map(each) for each in leaf.input_maps),
            *(moved_map(each, turn) for each in leaf.output_maps),
        ],
        bounds=bounds,
    )

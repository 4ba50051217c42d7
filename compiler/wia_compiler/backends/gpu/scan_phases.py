"""A running fold that all blocks of a GPU share, in three launches."""

from __future__ import annotations

from xdsl.dialects import memref
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.leaf_scan import scan_leaves
from wia_compiler.backends.gpu.phases import fold_in_registers, split_at_wide
from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_around,
    replace_leaf,
    tile_leaf,
)
from wia_compiler.passes.tile_rewrites.fold_parts import PART, check_parts, fold_parts
from wia_compiler.passes.tile_rewrites.nest import remap_leaf


def cut_scan(nest: FuncOp, scan: ForOp, size: int) -> list[FuncOp]:
    """Fold parts of ``size`` points, scan their results, then scan each part from where it begins.

    ::

        map s = 0                           for %p0 in 64: own = 0; own += x[…]; parts[%p0] = own
        for %i0 in 1048576 in order         s = 0; begins[0] = s
          s += x[%i0]                 →     for %q in 64: s += parts[%q]; begins[%q + 1] = s
          y[%i0] = s                        for %p0 in 64: s = begins[%p0]
                                              for %i0 in 16384: s += x[…]; y[…] = s

    Each of the three is a function. Elements are read twice and written once.
    """
    found = scan_leaves(scan)
    body = scan.parent_block()
    if found is None or body is None:
        raise IllegalRewrite(f"{scan.axis.data} is no running fold that blocks can share")
    fold, maps = found
    register = fold.outputs[0]
    fills = [leaf for leaf in leaves_of(nest) if register in leaf.outputs and leaf is not fold]
    if len(fills) != 1 or not isinstance(register.owner, memref.AllocOp):
        raise IllegalRewrite("the running fold does not begin with a number")
    count = -(-scan.trip_count // size)
    totals, combined = _totals(scan, fold, fills[0], register.owner, size)
    part = f"{axis_of(scan)}_{PART}"
    begins = memref.AllocOp(
        [], [], MemRefType(element_type(register), [count + 1, *shape_of(register)])
    )
    begins.memref.name_hint = f"{register.name_hint or 'acc'}_begins"
    begins.location = scan.location
    body.insert_op_before(begins, totals)
    _scan_totals(combined, part, begins.memref)
    _scan_parts(scan, [fold, *maps], register.owner, fills[0], begins.memref, size)
    return split_at_wide(nest)


def _totals(
    scan: ForOp, fold: ComputeOp, fill: ComputeOp, register: memref.AllocOp, size: int
) -> tuple[ForOp, ComputeOp]:
    """The loop that folds each part for itself, and the leaf that folds their results."""
    body = scan.parent_block()
    assert body is not None
    held = register.clone()
    held.memref.name_hint = f"{register.memref.name_hint or 'acc'}_all"
    begin, whole = fill.clone(), fold.clone()
    for op in (held, begin, whole):
        body.insert_op_before(op, scan)
        op.location = fold.location
    number = list(fill.outputs).index(register.memref)
    if len(fill.outputs) != 1 or number:
        raise IllegalRewrite("several buffers are filled at once")
    begin = replace_leaf(begin, outputs=[held.memref])
    axes = list(zip(whole.axis_names, whole.sizes, strict=True))
    place = whole.axis_names.index(axis_of(scan))
    axes[place] = (axis_of(scan), scan.trip_count)
    ivs = [iv for iv in whole.ivs if iv is not scan.induction_variable]
    symbols: list[AffineExpr] = [
        AffineExpr.symbol(ivs.index(iv)) if iv in ivs else AffineExpr.constant(0)
        for iv in whole.ivs
    ]
    whole = remap_leaf(whole, None, symbols, ivs, axes=axes)
    whole = replace_leaf(whole, outputs=[held.memref])
    check_parts(whole, axis_of(scan))
    loop = fold_parts(whole, axis_of(scan), size, scope="")
    fold_in_registers(loop)
    combined = next(
        leaf for leaf in leaves_of(body.parent_op() or scan) if _folds_into(leaf, held.memref)
    )
    return loop, combined


def _folds_into(leaf: ComputeOp, value: SSAValue) -> bool:
    return leaf.folds and value in leaf.outputs


def _scan_totals(combined: ComputeOp, part: str, begins: SSAValue) -> None:
    """Turn the fold over parts into a running one, which notes where each part begins."""
    held = combined.outputs[0]
    block = combined.parent_block()
    assert block is not None
    start = _copy(combined, held, begins, part, None)
    block.insert_op_before(start, combined)
    loop, fold = tile_leaf(combined, part, 1)
    loop.body.block.add_op(_copy(fold, held, begins, part, loop))


def _copy(
    like: ComputeOp, held: SSAValue, begins: SSAValue, part: str, loop: ForOp | None
) -> ComputeOp:
    """``begins[0] = held``, or ``begins[%q + 1] = held`` in a loop over parts."""
    axes = [
        (name, size)
        for name, size in zip(like.axis_names, like.sizes, strict=True)
        if loop is not None or name != part
    ]
    names = [name for name, _ in axes]
    ivs = list(like.ivs)
    rank = (len(axes), len(ivs))
    own = _renamed(like, like.output_maps[0], names, len(ivs))
    first: AffineExpr = AffineExpr.constant(0)
    if loop is not None:
        first = (
            AffineExpr.symbol(ivs.index(loop.induction_variable))
            + AffineExpr.dimension(names.index(part))
            + 1
        )
    maps = [AffineMap(*rank, own), AffineMap(*rank, (first, *own))]
    return _move(like, axes, ivs, held, begins, maps)


def _renamed(
    like: ComputeOp, each: AffineMap, names: list[str], symbols: int
) -> tuple[AffineExpr, ...]:
    dims: list[AffineExpr] = [
        AffineExpr.dimension(names.index(name)) if name in names else AffineExpr.constant(0)
        for name in like.axis_names
    ]
    own = [AffineExpr.symbol(number) for number in range(symbols)]
    return tuple(result.replace_dims_and_symbols(dims, own) for result in each.results)


def _move(
    like: ComputeOp,
    axes: list[tuple[str, int]],
    ivs: list[SSAValue],
    source: SSAValue,
    target: SSAValue,
    maps: list[AffineMap],
) -> ComputeOp:
    block = Block(arg_types=[element_type(source)])
    block.add_op(YieldOp(list(block.args)))
    made = ComputeOp(
        "map",
        axes=axes,
        ivs=ivs,
        inputs=[source],
        outputs=[target],
        maps=maps,
        body=Region(block),
    )
    made.location = like.location
    return made


def _scan_parts(
    scan: ForOp,
    leaves: list[ComputeOp],
    register: memref.AllocOp,
    fill: ComputeOp,
    begins: SSAValue,
    size: int,
) -> None:
    """A loop over parts around the scan, each of which begins with what came before it."""
    axis, extent = axis_of(scan), scan.trip_count
    part = f"{axis}_{PART}"
    loop = ForOp(f"{part}.0", -(-extent // size), 1, "serial")
    loop.location = scan.location
    body = scan.parent_block()
    assert body is not None
    body.insert_op_before(loop, scan)
    inside = loop.body.block
    for op in (register, scan):
        op.detach()
        inside.add_op(op)
    fill.detach()
    fill.erase()
    fold = leaves[0]
    around = [each.induction_variable for each in loops_around(loop)]
    start_axes = [
        (name, extent_of)
        for name, extent_of, folded in zip(
            fold.axis_names, fold.sizes, fold.reductions, strict=True
        )
        if not folded
    ]
    start_axes.append((part, 1))
    names = [name for name, _ in start_axes]
    ivs = [*around, loop.induction_variable]
    first = AffineExpr.symbol(len(ivs) - 1) + AffineExpr.dimension(len(names) - 1)
    symbols: list[AffineExpr] = [
        AffineExpr.symbol(ivs.index(iv)) if iv in ivs else AffineExpr.constant(0) for iv in fold.ivs
    ]
    dims: list[AffineExpr] = [
        AffineExpr.dimension(names.index(name)) if name in names else AffineExpr.constant(0)
        for name in fold.axis_names
    ]
    own = tuple(e.replace_dims_and_symbols(dims, symbols) for e in fold.output_maps[0].results)
    rank = (len(start_axes), len(ivs))
    maps = [AffineMap(*rank, (first, *own)), AffineMap(*rank, own)]
    start = _move(fold, start_axes, ivs, begins, register.memref, maps)
    inside.insert_op_before(start, scan)
    for leaf in leaves:
        _move_into_part(leaf, scan, loop, size, extent)
    scan.properties["extent"] = IntegerAttr(size, i64)


def _move_into_part(leaf: ComputeOp, scan: ForOp, loop: ForOp, size: int, extent: int) -> None:
    """The leaf of a scan where it walks one part: its position is that in the part and the part."""
    rank = len(leaf.axis_names)
    ivs = [*leaf.ivs, loop.induction_variable]
    turn = AffineExpr.symbol(len(ivs) - 1) + AffineExpr.dimension(rank)
    symbols: list[AffineExpr] = []
    for number, iv in enumerate(leaf.ivs):
        own = AffineExpr.symbol(number)
        symbols.append(turn * size + own if iv is scan.induction_variable else own)
    position = list(leaf.ivs).index(scan.induction_variable)
    axes = [*zip(leaf.axis_names, leaf.sizes, strict=True), (f"{axis_of(scan)}_{PART}", 1)]
    dims = [AffineExpr.dimension(number) for number in range(rank)]
    bounds = [(symbols[position], extent)] if extent % size else []
    maps = [
        AffineMap(
            rank + 1,
            len(ivs),
            tuple(e.replace_dims_and_symbols(dims, symbols) for e in each.data.results),
        )
        for each in leaf.maps
    ]
    own_bounds = [
        (e.replace_dims_and_symbols(dims, symbols), limit)
        for e, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True)
    ]
    replace_leaf(leaf, axes=axes, ivs=ivs, maps=maps, bounds=[*own_bounds, *bounds])

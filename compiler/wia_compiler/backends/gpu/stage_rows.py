"""Rows that several leaves read are read once, into registers across the threads of their group."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.dialects.tile import ComputeOp, LeafLevel, YieldOp
from wia_compiler.passes.tile_rewrites import leaves_of, replace_leaf, scope_of

REGISTERS_FOR_ROWS = 64
"""Elements of rows that one thread keeps: a quarter of its registers."""


@dataclass(frozen=True)
class _Row:
    """An operand as a row: the memref, its index, and the axes that walk it."""

    source: SSAValue
    ivs: tuple[SSAValue, ...]
    index: AffineMap
    axes: tuple[tuple[str, int], ...]
    padded: bool


def stage_rows(nest: FuncOp, group: int, level: LeafLevel) -> int:
    """Keep in registers every row of memory that more than one leaf reads; how many there are.

    ::

        reduce m[i] = max(m[i], x[i, j])              copy r[j] = x[i, j]
        reduce s[i] += exp(x[i, j] - m[i])      →     reduce m[i] = max(m[i], r[j])
        map y[i, j] = exp(x[i, j] - m[i]) / s[i]      reduce s[i] += exp(r[j] - m[i])  …

    A row is one where every thread of the ``group`` that shares the leaves gets at most 64 elements
    of all rows together, and the leaves walk it in the same order.
    """
    readers: dict[_Row, list[tuple[ComputeOp, int]]] = {}
    for leaf in leaves_of(nest):
        for number in range(len(leaf.inputs)):
            row = _row_of(leaf, number)
            if row is not None:
                readers.setdefault(row, []).append((leaf, number))
    left = REGISTERS_FOR_ROWS
    staged = 0
    current: dict[ComputeOp, ComputeOp] = {}
    for row, users in readers.items():
        slots = -(-prod(size for _, size in row.axes) // group)
        if len({leaf for leaf, _ in users}) < 2 or slots > left:
            continue
        left -= slots
        staged += 1
        first = current.get(users[0][0], users[0][0])
        register = _copy_row(row, first, level)
        for leaf, number in users:
            current[leaf] = _read_register(current.get(leaf, leaf), number, row, register)
    return staged


def _row_of(leaf: ComputeOp, number: int) -> _Row | None:
    """An input as a row, where it is one: every longer axis walks it, and no kept one does."""
    source = leaf.inputs[number]
    axes = [(n, s) for n, s in zip(leaf.axis_names, leaf.sizes, strict=True) if s > 1]
    if scope_of(source) != "" or not axes or source in leaf.outputs:
        return None
    if leaf.folds and any(
        size > 1 and not folded for size, folded in zip(leaf.sizes, leaf.reductions, strict=True)
    ):
        return None
    index = leaf.input_maps[number]
    used = {position for result in index.results for position in result.used_dims()}
    if not all(leaf.axis_names.index(name) in used for name, _ in axes):
        return None
    # In terms of the longer axes alone, so that leaves with other axes of one point compare equal.
    numbers = {leaf.axis_names.index(name): place for place, (name, _) in enumerate(axes)}
    dims: list[AffineExpr] = [
        AffineExpr.dimension(numbers[position]) if position in numbers else AffineExpr.constant(0)
        for position in range(len(leaf.axis_names))
    ]
    symbols = [AffineExpr.symbol(position) for position in range(len(leaf.ivs))]
    results = tuple(result.replace_dims_and_symbols(dims, symbols) for result in index.results)
    return _Row(
        source,
        tuple(leaf.ivs),
        AffineMap(len(axes), len(leaf.ivs), results),
        tuple(axes),
        leaf.is_padded[number],
    )


def _copy_row(row: _Row, before: ComputeOp, level: LeafLevel) -> SSAValue:
    """A register buffer with the row in it, filled before the first leaf that reads it."""
    block = before.parent_block()
    assert block is not None
    element = element_type(row.source)
    type = MemRefType(element, [size for _, size in row.axes], memory_space=StringAttr("register"))
    buffer = memref.AllocOp([], [], type)
    buffer.memref.name_hint = f"{row.source.name_hint or 'x'}_row"
    body = Block(arg_types=[element])
    body.add_op(YieldOp(list(body.args)))
    rank = (len(row.axes), len(row.ivs))
    dims = [AffineExpr.dimension(position) for position in range(rank[0])]
    bounds, limits = _bounds_without_axes(before)
    copy = ComputeOp(
        "copy",
        axes=row.axes,
        ivs=row.ivs,
        inputs=[row.source],
        outputs=[buffer.memref],
        maps=[row.index, AffineMap(*rank, tuple(dims))],
        bounds=AffineMap(*rank, bounds),
        limits=limits,
        padded=[row.padded],
        level=level,
        body=Region(body),
    )
    for op in (buffer, copy):
        op.location = before.location
        block.insert_op_before(op, before)
    return buffer.memref


def _bounds_without_axes(leaf: ComputeOp) -> tuple[tuple[AffineExpr, ...], list[int]]:
    """A leaf's bounds on rows, its own axes of one point taken as 0."""
    zeros: list[AffineExpr] = [AffineExpr.constant(0)] * len(leaf.axis_names)
    symbols = [AffineExpr.symbol(position) for position in range(len(leaf.ivs))]
    results = tuple(
        each.replace_dims_and_symbols(zeros, symbols) for each in leaf.bounds.data.results
    )
    return results, list(leaf.limit_values)


def _read_register(leaf: ComputeOp, number: int, row: _Row, register: SSAValue) -> ComputeOp:
    position = {name: place for place, name in enumerate(leaf.axis_names)}
    index = tuple(AffineExpr.dimension(position[name]) for name, _ in row.axes)
    maps = [each.data for each in leaf.maps]
    maps[number] = AffineMap(len(leaf.axis_names), len(leaf.ivs), index)
    inputs = list(leaf.inputs)
    inputs[number] = register
    padded = list(leaf.is_padded)
    padded[number] = False
    return replace_leaf(leaf, inputs=inputs, maps=maps, padded=padded)

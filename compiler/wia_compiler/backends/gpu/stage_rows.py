"""Rows that several leaves read are read once: into registers across threads, or shared memory."""

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
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import leaves_of, replace_leaf, scope_of

REGISTERS_FOR_ROWS = 44
"""Registers in which one thread keeps rows: an element of up to 4 bytes each, two for f64 and i64.
Only a block of 1024 threads has so many for each, and these have 64 registers: with 45 and more
ptxas spills (softmax, layer_norm, sm_80 and sm_90)."""
REGISTER_BYTES = 4
SHARED_RESERVE = 2048
"""Bytes of shared memory left for the partial results of folds."""


@dataclass(frozen=True)
class Staged:
    """How many rows are kept in registers, and how many in shared memory."""

    registers: int = 0
    shared: int = 0

    @property
    def numbers(self) -> dict[str, int]:
        """What a decision shows of it."""
        found = {"rows kept in registers": self.registers}
        return {**found, "rows kept in shared memory": self.shared} if self.shared else found


@dataclass(frozen=True)
class _Row:
    """An operand as a row: the memref, its index, and the axes that walk it."""

    source: SSAValue
    ivs: tuple[SSAValue, ...]
    index: AffineMap
    axes: tuple[tuple[str, int], ...]
    padded: bool


def stage_rows(nest: FuncOp, group: int, level: LeafLevel, shared_bytes: int = 0) -> Staged:
    """Keep every row of memory that more than one leaf reads nearer.

    ::

        reduce m[i] = max(m[i], x[i, j])              copy r[j] = x[i, j]
        reduce s[i] += exp(x[i, j] - m[i])      →     reduce m[i] = max(m[i], r[j])
        map y[i, j] = exp(x[i, j] - m[i]) / s[i]      reduce s[i] += exp(r[j] - m[i])  …

    In registers where every thread of the ``group`` that shares the leaves needs at most 44 for
    all rows together; else a block keeps it in shared memory, if that has ``shared_bytes`` for
    it. The leaves must walk it in the same order.
    """
    readers: dict[_Row, list[tuple[ComputeOp, int]]] = {}
    for leaf in leaves_of(nest):
        for number in range(len(leaf.inputs)):
            row = _row_of(leaf, number)
            if row is not None:
                readers.setdefault(row, []).append((leaf, number))
    left, shared_left = REGISTERS_FOR_ROWS, shared_bytes - SHARED_RESERVE
    registers = shared = 0
    current: dict[ComputeOp, ComputeOp] = {}
    for row, users in readers.items():
        points = prod(size for _, size in row.axes)
        element = size_bytes(element_type(row.source))
        slots, size = -(-points // group) * -(-element // REGISTER_BYTES), points * element
        if len({leaf for leaf, _ in users}) < 2 or (slots > left and size > shared_left):
            continue
        in_registers = slots <= left
        if in_registers:
            left -= slots
            registers += 1
        else:
            shared_left -= size
            shared += 1
        first = current.get(users[0][0], users[0][0])
        register = _copy_row(row, first, level, "register" if in_registers else "shared")
        for leaf, number in users:
            current[leaf] = _read_register(current.get(leaf, leaf), number, row, register)
    return Staged(registers, shared)


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


def _copy_row(row: _Row, before: ComputeOp, level: LeafLevel, scope: str) -> SSAValue:
    """A buffer with the row in it, filled before the first leaf that reads it."""
    block = before.parent_block()
    assert block is not None
    element = element_type(row.source)
    type = MemRefType(element, [size for _, size in row.axes], memory_space=StringAttr(scope))
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

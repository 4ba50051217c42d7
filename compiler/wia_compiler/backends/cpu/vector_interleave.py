"""Copies that put four rows of 8-bit numbers side by side, as vectors.

::

    map y[k, j, q] = x[4 k + q, j] ^ 128     16 numbers of each of four rows as integers of 32 bits,
                                         →   shifted to their place and put together: no shuffle
    map y[k, j, q] = x[j, 4 k + q] ^ 128     four numbers that lie side by side already, as one
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, scf, vector
from xdsl.dialects.builtin import IntegerAttr, MemRefType, VectorType, i1, i8, i32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from wia_compiler.backends.cpu.vector_plan import Condition, is_register
from wia_compiler.dialects.arith_lanes import ExtendUnsignedLanesOp
from wia_compiler.dialects.tile import YieldOp
from wia_compiler.passes.affine import atoms, linear_form
from wia_compiler.passes.emit_index import INDEX, IndexEmitter
from wia_compiler.passes.emit_leaf import LeafContext
from wia_compiler.passes.lane_ops import splat
from wia_compiler.passes.llvm.types import strides_of
from wia_compiler.passes.tile_rewrites.integer_products import NEIGHBOURS


@dataclass(frozen=True)
class InterleavePlan:
    """``along`` is the axis that vectors of the source run along: ``across`` the four neighbours,
    or the neighbours themselves; ``flipped`` are the bits that the copy changes.

    ``padding`` has a condition for each index of the source that may lie outside.
    """

    context: LeafContext
    lanes: int
    across: int
    neighbour: int
    along: int
    flipped: int
    padding: tuple[Condition | None, ...]


def plan_interleave(context: LeafContext, vector_bytes: int) -> InterleavePlan | None:
    """How to copy in vectors; ``None`` for a leaf that is no such copy."""
    leaf = context.leaf
    if leaf.folds or len(leaf.inputs) != 1 or len(leaf.outputs) != 1 or leaf.limit_values:
        return None
    source, target = (cast("MemRefType[Attribute]", v.type) for v in (*leaf.inputs, *leaf.outputs))
    results = leaf.output_maps[0].results
    if source.element_type != i8 or target.element_type != i8 or len(results) < 2:
        return None
    across, neighbour = results[-2:]
    if not isinstance(across, AffineDimExpr) or not isinstance(neighbour, AffineDimExpr):
        return None
    if leaf.sizes[neighbour.position] != NEIGHBOURS or not is_register(leaf.outputs[0]):
        return None
    flipped = _flipped_bits(context)
    lanes = vector_bytes // NEIGHBOURS
    if flipped is None or strides_of(source)[-1] != 1:
        return None
    *before, last = leaf.input_maps[0].results
    form = linear_form(last)
    found = [
        dim
        for dim in (across, neighbour)
        if form.terms.get(dim) == 1 and not any(dim in atoms(each) for each in before)
    ]
    if not form.is_linear or len(found) != 1:
        return None
    if found[0] == across and (neighbour in form.terms or leaf.sizes[across.position] % lanes):
        return None
    padding = tuple(
        None if context.is_within(expression, size) else Condition(expression, size)
        for expression, size in zip(leaf.input_maps[0].results, source.get_shape(), strict=True)
    )
    if any(padding) and not leaf.is_padded[0]:
        return None
    return InterleavePlan(
        context,
        lanes,
        across.position,
        neighbour.position,
        found[0].position,
        flipped,
        padding,
    )


def _flipped_bits(context: LeafContext) -> int | None:
    """What a copy's numbers are combined with by exclusive or; ``None`` if it computes more."""
    block = context.leaf.body.block
    (argument,) = block.args
    value = cast(YieldOp, block.last_op).arguments[0]
    if value is argument:
        return 0
    op = value.owner
    if not isinstance(op, arith.XOrIOp) or op.lhs is not argument:
        return None
    constant = op.rhs.owner
    if isinstance(constant, arith.ConstantOp) and isinstance(constant.value, IntegerAttr):
        return constant.value.value.data
    return None


def lower_interleave(plan: InterleavePlan, builder: Builder) -> None:
    """Write the copy's vector code at the builder's place."""
    _Copy(plan).write(IndexEmitter(builder, plan.context.leaf.location))


class _Copy:
    def __init__(self, plan: InterleavePlan):
        self.plan = plan
        self.leaf = plan.context.leaf
        self.in_rows = plan.along == plan.across
        lanes = plan.lanes if self.in_rows else NEIGHBOURS
        self.read = VectorType(i8, [lanes])
        self.array = plan.context.array(self.leaf.inputs[0])

    def write(self, emitter: IndexEmitter) -> None:
        """Loops over all axes but the neighbours."""
        axes = [axis for axis in range(len(self.leaf.sizes)) if axis != self.plan.neighbour]
        axes.sort(key=lambda axis: axis == self.plan.across and self.in_rows)
        self._loops(emitter, axes, [emitter.constant(0)] * len(self.leaf.sizes))

    def _loops(self, emitter: IndexEmitter, axes: Sequence[int], points: list[SSAValue]) -> None:
        if not axes:
            (self._rows if self.in_rows else self._neighbours)(emitter, points)
            return
        axis, *rest = axes
        step = self.plan.lanes if axis == self.plan.across and self.in_rows else 1
        size = self.leaf.sizes[axis]
        if size == step:
            self._loops(emitter, rest, points)
            return
        body = Block(arg_types=[INDEX])
        body.args[0].name_hint = self.leaf.axis_names[axis]
        inside = [*points[:axis], body.args[0], *points[axis + 1 :]]
        self._loops(emitter.nested(body), rest, inside)
        emitter.close(body)
        start, end, stride = (emitter.constant(each) for each in (0, size, step))
        loop = scf.ForOp(start, end, stride, [], Region(body))
        emitter.put(loop)

    def _rows(self, emitter: IndexEmitter, points: list[SSAValue]) -> None:
        """Four rows: each number to its byte of 32 bits."""
        wide = VectorType(i32, [self.plan.lanes])
        total: SSAValue | None = None
        for neighbour in range(NEIGHBOURS):
            place = list(points)
            place[self.plan.neighbour] = emitter.constant(neighbour)
            numbers = self._load(emitter, place)
            value = emitter.emit(ExtendUnsignedLanesOp(numbers, wide))
            if neighbour:
                shift = emitter.emit(splat(8 * neighbour, wide))
                value = emitter.emit(arith.ShLIOp(value, shift))
            total = value if total is None else emitter.emit(arith.OrIOp(total, value))
        assert total is not None
        if self.plan.flipped:
            bits = self.plan.flipped & 0xFF
            mask = int.from_bytes(bytes([bits] * 4), "little", signed=True)
            total = emitter.emit(arith.XOrIOp(total, emitter.emit(splat(mask, wide))))
        bytes_ = VectorType(i8, [self.plan.lanes * NEIGHBOURS])
        self._store(emitter, points, emitter.emit(vector.BitcastOp(total, bytes_)))

    def _neighbours(self, emitter: IndexEmitter, points: list[SSAValue]) -> None:
        """Four numbers that lie side by side."""
        value = self._load(emitter, points)
        if self.plan.flipped:
            bits = emitter.emit(splat(self.plan.flipped, self.read))
            value = emitter.emit(arith.XOrIOp(value, bits))
        self._store(emitter, points, value)

    def _load(self, emitter: IndexEmitter, points: list[SSAValue]) -> SSAValue:
        """A vector of the source, 0 outside of it."""
        results = self.leaf.input_maps[0].results
        ivs = self.plan.context.ivs
        indices = [emitter.affine(each, points, ivs) for each in results]
        lanes = self.read.get_shape()[0]
        count: SSAValue | None = None
        tests: list[SSAValue] = []
        for number, condition in enumerate(self.plan.padding):
            if condition is None:
                continue
            if self._runs_along(condition.expression):
                count = emitter.subtract(emitter.constant(condition.limit), indices[number])
            else:
                tests.append(emitter.below(indices[number], condition.limit))
        if count is None and not tests:
            return emitter.emit(vector.LoadOp(self.array, indices, self.read))
        if count is None:
            count = emitter.constant(lanes)
        if tests:
            inside, nothing = emitter.both(tests), emitter.constant(0)
            count = emitter.emit(arith.SelectOp(inside, count, nothing))
        mask_type = VectorType(i1, [lanes])
        mask = emitter.emit(vector.CreateMaskOp.build(operands=[[count]], result_types=[mask_type]))
        zero = emitter.emit(splat(0, self.read))
        return emitter.emit(vector.MaskedLoadOp(self.array, indices, mask, zero, self.read))

    def _runs_along(self, expression: AffineExpr) -> bool:
        return AffineDimExpr(self.plan.along) in atoms(expression)

    def _store(self, emitter: IndexEmitter, points: list[SSAValue], value: SSAValue) -> None:
        ivs = self.plan.context.ivs
        results = self.leaf.output_maps[0].results
        indices = [emitter.affine(each, points, ivs) for each in results]
        target = self.plan.context.array(self.leaf.outputs[0])
        emitter.put(vector.StoreOp(value, target, indices))

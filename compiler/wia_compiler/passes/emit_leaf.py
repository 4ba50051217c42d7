"""One point of a leaf as scalar code: loads, body, stores; what every target shares.

Numerics: in a folding leaf partial sums may be formed in any order (``reassoc``); in a contraction
or window a product may be added without rounding in between (``contract``). Nothing else is
relaxed, and nothing at all in a leaf that is ``wia.ordered``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, memref
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    i64,
)
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap

from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tile_check import CheckOp
from wia_compiler.dialects.tile_places import LookupOp, PositionsOp
from wia_compiler.passes.affine import Range, atoms, range_of
from wia_compiler.passes.emit_index import IndexEmitter, range_of_value

_REASSOCIATE = FastMathFlagsAttr([FastMathFlag.REASSOC])
_CONTRACT = FastMathFlagsAttr([FastMathFlag.ALLOW_CONTRACT])
_BOTH = FastMathFlagsAttr([FastMathFlag.REASSOC, FastMathFlag.ALLOW_CONTRACT])


@dataclass(frozen=True)
class Span:
    """Which points of an axis are walked: ``start``, ``start + step``, … below its extent."""

    start: SSAValue
    step: SSAValue | int


@dataclass
class LeafContext:
    """Where a leaf's values are at the place of lowering.

    ``ivs`` are the values of ``leaf.ivs`` (default: themselves); ``memrefs`` replaces operands
    that were given another buffer; ``spans`` restricts axes to a thread's share; ``points`` fixes
    axes to one value.
    """

    leaf: ComputeOp
    ivs: Sequence[SSAValue] = ()
    memrefs: Mapping[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    spans: Mapping[str, Span] = field(default_factory=dict[str, Span])
    points: Mapping[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def __post_init__(self) -> None:
        self.ivs = tuple(self.ivs) or tuple(self.leaf.ivs)
        self.symbol_ranges: list[Range | None] = [range_of_value(iv) for iv in self.leaf.ivs]
        self.dim_ranges: list[Range] = [(0, size - 1) for size in self.leaf.sizes]

    def array(self, value: SSAValue) -> SSAValue:
        """The buffer that stands for an operand."""
        return self.memrefs.get(value, value)

    def is_within(self, expression: AffineExpr, limit: int) -> bool:
        """Whether ``0 <= expression < limit`` at every point, by the ranges of axes and loops."""
        found = range_of(expression, self.dim_ranges, self.symbol_ranges)
        return found is not None and found[0] >= 0 and found[1] < limit


def fold_op(leaf: ComputeOp, output: int) -> Operation:
    """The op that combines what an output of a folding leaf held with a new element.

    Its operands are the two; applied to two partial results it gives their combination.
    """
    yielded = cast(YieldOp, leaf.body.block.last_op).arguments[output]
    return cast(Operation, yielded.owner)


def is_folded_into(leaf: ComputeOp, output: int) -> bool:
    """Whether an output of a folding leaf is folded; one that is not is written at each point."""
    held = leaf.body.block.args[len(leaf.inputs) + output]
    return held.first_use is not None


def is_carried(leaf: ComputeOp, output: int) -> bool:
    """Whether an output of a folding leaf stays one element while the ``reduce`` axes run."""
    read: set[AffineExpr] = set()
    for expression in leaf.output_maps[output].results:
        read |= atoms(expression)
    folded = {AffineDimExpr(n) for n, reduced in enumerate(leaf.reductions) if reduced}
    return not (read & folded)


def emit_indices(
    emitter: IndexEmitter, each: AffineMap, points: Sequence[SSAValue], ivs: Sequence[SSAValue]
) -> list[SSAValue]:
    """The indices at which an operand with this map is read or written."""
    return [emitter.affine(expression, points, ivs) for expression in each.results]


def emit_load(
    context: LeafContext, emitter: IndexEmitter, operand: int, points: Sequence[SSAValue]
) -> SSAValue:
    """The element of an input at a point; a padded input reads as 0 outside its memref."""
    leaf = context.leaf
    array = context.array(leaf.inputs[operand])
    each = leaf.input_maps[operand]
    indices = emit_indices(emitter, each, points, context.ivs)
    if isinstance(array.owner, PositionsOp):
        return emitter.emit(arith.IndexCastOp(indices[0], i64))
    shape = cast("MemRefType[Attribute]", array.type).get_shape()
    conditions: list[SSAValue] = []
    if leaf.is_padded[operand]:
        for number, (expression, size) in enumerate(zip(each.results, shape, strict=True)):
            if context.is_within(expression, size):
                continue
            inside = emitter.below(indices[number], size)
            conditions.append(inside)
            safe = arith.SelectOp(inside, indices[number], emitter.constant(0))
            indices[number] = emitter.emit(safe)
    element = emitter.emit(memref.LoadOp.get(array, indices))
    if not conditions:
        return element
    zero = emitter.emit(arith.ConstantOp(zero_of(element.type)))
    return emitter.emit(arith.SelectOp(emitter.both(conditions), element, zero))


def emit_point(
    context: LeafContext,
    emitter: IndexEmitter,
    points: Sequence[SSAValue],
    held: Sequence[SSAValue] = (),
) -> list[SSAValue]:
    """The new element of each output at one point: loads, then the body.

    ``points`` has a value for each axis, ``held`` what each output of a folding leaf holds.
    """
    leaf = context.leaf
    loaded = [emit_load(context, emitter, n, points) for n in range(len(leaf.inputs))]
    return emit_body(leaf, emitter.builder, [*loaded, *held])


def emit_body(leaf: ComputeOp, builder: Builder, arguments: Sequence[SSAValue]) -> list[SSAValue]:
    """The leaf's body on scalars; ops keep their locations, folds get their permission."""
    block = leaf.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
    flags = fold_permissions(leaf)
    for op in block.ops:
        if isinstance(op, YieldOp):
            return [values.get(value, value) for value in op.arguments]
        if isinstance(op, LookupOp):
            values[op.result] = emit_lookup(op, builder.insert, values)
            continue
        cloned = op.clone(values)
        if op in flags:
            cloned.properties["fastmath"] = flags[op]
        builder.insert(cloned)
    raise ValueError("a leaf's body ends with tile.yield")


def emit_lookup(
    op: LookupOp, insert: Callable[[Operation], object], values: Mapping[SSAValue, SSAValue]
) -> SSAValue:
    """The element at computed indices, 0 where a checked one is out of range, which is reported.

    ``insert`` puts each op in its place; ``values`` are those of the leaf's body.
    """

    def emit(made: Operation) -> SSAValue:
        insert(made)
        made.location = op.location
        return made.results[0]

    array = values.get(op.memref, op.memref)
    shape = cast("MemRefType[Attribute]", array.type).get_shape()
    indices = [emit(arith.IndexCastOp(values[index], IndexType())) for index in op.indices]
    inside: SSAValue | None = None
    for axis in op.checked_axes:
        limit = emit(arith.ConstantOp(IntegerAttr(shape[axis], IndexType())))
        below = emit(arith.CmpiOp(indices[axis], limit, "ult"))
        inside = below if inside is None else emit(arith.AndIOp(inside, below))
    if inside is None:
        return emit(memref.LoadOp.get(array, indices))
    start = emit(arith.ConstantOp(IntegerAttr(0, IndexType())))
    if op.number is not None:
        # Indices that cannot fail are told as 0: a check of the others may then leave their loops.
        told = [each if n in op.checked_axes else start for n, each in enumerate(indices)]
        name = array.name_hint or "an array"
        check = CheckOp(inside, told, name, shape, op.number.value.data)
        check.location = op.location
        insert(check)
    if 0 in shape:
        return emit(arith.ConstantOp(zero_of(op.result.type)))
    for axis in op.checked_axes:
        indices[axis] = emit(arith.SelectOp(inside, indices[axis], start))
    element = emit(memref.LoadOp.get(array, indices))
    zero = emit(arith.ConstantOp(zero_of(element.type)))
    return emit(arith.SelectOp(inside, element, zero))


def fold_permissions(leaf: ComputeOp) -> dict[Operation, FastMathFlagsAttr]:
    """The fast-math flags that each op of a folding leaf's body may carry (numerics contract).

    A leaf that folds one point is a step of a running fold, whose partial sums are results: with
    ``reassoc`` LLVM would make ``i * x`` of sums of one ``x``, and NaN of ``0 * inf``.
    """
    if not leaf.folds or leaf.is_ordered:
        return {}
    if leaf.kind.data == "reduce" and _folded_points(leaf) == 1:
        return {}
    flags: dict[Operation, FastMathFlagsAttr] = {}
    contracts = leaf.multiplies
    for output in range(len(leaf.outputs)):
        fold = fold_op(leaf, output)
        if not is_folded_into(leaf, output) or not isinstance(fold, arith.AddfOp | arith.MulfOp):
            continue
        flags[fold] = _BOTH if contracts else _REASSOCIATE
        products = [value.owner for value in fold.operands if contracts]
        flags |= {op: _CONTRACT for op in products if isinstance(op, arith.MulfOp)}
    return flags


def _folded_points(leaf: ComputeOp) -> int:
    sizes = zip(leaf.sizes, leaf.reductions, strict=True)
    return math.prod(size for size, is_reduced in sizes if is_reduced)


def emit_store(
    context: LeafContext,
    emitter: IndexEmitter,
    output: int,
    points: Sequence[SSAValue],
    value: SSAValue,
) -> None:
    """Write an element of an output."""
    leaf = context.leaf
    indices = emit_indices(emitter, leaf.output_maps[output], points, context.ivs)
    store = memref.StoreOp.get(value, context.array(leaf.outputs[output]), indices)
    store.location = emitter.location
    emitter.builder.insert(store)


def emit_held(
    context: LeafContext, emitter: IndexEmitter, output: int, points: Sequence[SSAValue]
) -> SSAValue:
    """What an output of a folding leaf holds at a point."""
    leaf = context.leaf
    indices = emit_indices(emitter, leaf.output_maps[output], points, context.ivs)
    return emitter.emit(memref.LoadOp.get(context.array(leaf.outputs[output]), indices))


def zero_of(scalar: Attribute) -> FloatAttr | IntegerAttr[IntegerType]:
    """The attribute of 0 in a scalar type."""
    if scalar.name == IntegerType.name:
        return IntegerAttr(0, cast("IntegerType", scalar))
    return FloatAttr(0.0, scalar)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]

"""What lowering one leaf needs to know, and the emission of one of its points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects import arith, math, memref
from xdsl.dialects.builtin import IndexType, IntegerType, i64
from xdsl.ir import Operation, SSAValue

from wia_compiler.backends.gpu.builder import Builder, Key, element_type, shape_of
from wia_compiler.backends.gpu.index import Index, evaluate
from wia_compiler.backends.gpu.layouts import Layout
from wia_compiler.backends.gpu.swizzle import Swizzle
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tile_places import LookupOp, PositionsOp
from wia_compiler.passes.emit_leaf import emit_lookup, fold_op
from wia_compiler.passes.tile_rewrites import scope_of


@dataclass
class Kernel:
    """The function under construction.

    ``threads`` are those of a block, ``thread`` is the index of one. ``values`` maps memrefs of the
    nest to those of the kernel, ``ivs`` induction variables to their index. ``distributed`` has the
    layouts of register buffers whose elements lie across threads: one slot after the other here.
    ``stages`` has the first row of the stage that is in use of shared buffers that have several,
    ``swizzles`` how the columns of some are exchanged.
    """

    builder: Builder
    threads: int
    thread: Index
    values: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    ivs: dict[SSAValue, Index] = field(default_factory=dict[SSAValue, Index])
    distributed: dict[SSAValue, Layout] = field(default_factory=dict[SSAValue, Layout])
    stages: dict[SSAValue, Index] = field(default_factory=dict[SSAValue, Index])
    swizzles: dict[SSAValue, Swizzle] = field(default_factory=dict[SSAValue, Swizzle])


class Leaf:
    """One leaf in one kernel: its operands there, and the places its maps and bounds speak of."""

    def __init__(self, op: ComputeOp, kernel: Kernel):
        self.op = op
        self.kernel = kernel
        self.builder = kernel.builder
        self.sizes = op.sizes
        self.reductions = op.reductions
        self.inputs = [kernel.values[value] for value in op.inputs]
        self.outputs = [kernel.values[value] for value in op.outputs]
        self.symbols = [kernel.ivs[iv] for iv in op.ivs]
        # What may be read once for several points: memory this leaf does not write.
        self.constant_inputs = [value not in op.outputs for value in op.inputs]
        self._fused = _multiply_adds(op)
        self._products = set(self._fused.values())

    def place(self, number: int, axes: Sequence[Index]) -> tuple[Index, ...]:
        """Where operand ``number`` (inputs, then outputs) is read or written at a point."""
        results = self.op.maps.data[number].data.results
        found = tuple(evaluate(result, axes, self.symbols) for result in results)
        value = self.op.operands[len(self.op.ivs) + number]
        swizzle = self.kernel.swizzles.get(value)
        if swizzle is not None:
            found = (found[0], swizzle.place(self.builder, *found))
        row = self.kernel.stages.get(value)
        return found if row is None else (found[0] + row, *found[1:])

    def output_place(self, number: int, axes: Sequence[Index]) -> tuple[Index, ...]:
        """Where output ``number`` is written at a point."""
        return self.place(len(self.inputs) + number, axes)

    def bounds(self, axes: Sequence[Index]) -> list[tuple[Index, int]]:
        """Each bound as an index and its limit at a point."""
        results = self.op.bounds.data.results
        return [
            (evaluate(result, axes, self.symbols), limit)
            for result, limit in zip(results, self.op.limit_values, strict=True)
        ]

    def condition(self, axes: Sequence[Index]) -> SSAValue | None:
        """Whether a point takes part; ``None`` where it always does."""
        builder = self.builder
        return builder.all_of([builder.within(*bound) for bound in self.bounds(axes)])

    def read(self, number: int, axes: Sequence[Index]) -> SSAValue:
        """The element of input ``number`` at a point."""
        buffer, place = self.inputs[number], self.place(number, axes)
        source = self.op.inputs[number]
        if source in self.kernel.distributed:
            raise AssertionError("a distributed buffer is read through its slot")
        if not self.constant_inputs[number]:
            return self._read(number, buffer, place)
        key: Key = ("load", id(self.op), number, place)
        return self.builder.once(key, lambda: self._read(number, buffer, place))

    def read_inside(self, number: int, axes: Sequence[Index], inside: SSAValue | None) -> SSAValue:
        """The element at a point that takes part where ``inside`` holds; anything elsewhere.

        Of an index that a bound keeps inside of its array, 0 is read where it does not; of all
        indices where a bound is on what they are together, as in a view of windows.
        """
        source, place = self.inputs[number], self.place(number, axes)
        asked = {index for index, _ in self.bounds(axes)}
        is_safe = self.op.is_padded[number] or isinstance(source.owner, PositionsOp)
        if inside is None or is_safe or self.is_register(self.op.inputs[number]):
            return self.read(number, axes)
        key: Key = ("load inside", id(self.op), number, place, inside)
        return self.builder.once(key, lambda: self._load_inside(source, place, asked, inside))

    def _load_inside(
        self, source: SSAValue, place: Sequence[Index], asked: set[Index], inside: SSAValue
    ) -> SSAValue:
        builder = self.builder
        origin = builder.number(0, IndexType())
        read = {atom for each in place for atom, _ in each.terms}
        joint = [each for each in asked if each not in place]
        together = any(atom in read for each in joint for atom, _ in each.terms)
        safe: list[SSAValue] = []
        for each, size in zip(place, shape_of(source), strict=True):
            low, high = each.range
            index = builder.index(each)
            if together or each in asked or low < 0 or high >= size:
                index = builder.add(arith.SelectOp(inside, index, origin)).result
            safe.append(index)
        return builder.add(memref.LoadOp.get(source, safe)).res

    def _read(self, number: int, buffer: SSAValue, place: tuple[Index, ...]) -> SSAValue:
        if isinstance(buffer.owner, PositionsOp):
            return self.builder.add(arith.IndexCastOp(self.builder.index(place[0]), i64)).result
        if not self.op.is_padded[number]:
            return self.builder.load(buffer, place)
        return self._padded_read(buffer, place)

    def _padded_read(self, buffer: SSAValue, place: tuple[Index, ...]) -> SSAValue:
        """0 outside the memref. Reads element 0 there instead of branching around the load."""
        builder = self.builder
        sizes = shape_of(buffer)
        pairs = zip(place, sizes, strict=True)
        inside = builder.all_of([builder.within(each, size) for each, size in pairs])
        if inside is None:
            return builder.load(buffer, place)
        zero = builder.number(0, element_type(buffer))
        if 0 in sizes:
            return zero
        origin = builder.number(0, IndexType())
        safe = [
            builder.add(arith.SelectOp(inside, builder.index(each), origin)).result
            for each in place
        ]
        value = builder.add(memref.LoadOp.get(buffer, safe)).res
        return builder.add(arith.SelectOp(inside, value, zero)).result

    def compute(self, arguments: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
        """Copy the body for one point; its yielded values."""
        block = self.op.body.block
        mapping: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if isinstance(op, YieldOp):
                return tuple(mapping[value] for value in op.arguments)
            self._copy(op, mapping)
        raise AssertionError("a leaf's body ends in a yield")

    def _copy(self, op: Operation, mapping: dict[SSAValue, SSAValue]) -> None:
        if isinstance(op, arith.ConstantOp):
            key: Key = ("number", op.value)
            copied = self.builder.once(
                key, lambda: self.builder.add(arith.ConstantOp(op.value)).result
            )
            mapping[op.result] = copied
            return
        if op in self._products:
            return
        if isinstance(op, LookupOp):
            values = {**mapping, op.memref: self.kernel.values[op.memref]}
            mapping[op.result] = emit_lookup(op, self.builder.add, values)
            return
        if op in self._fused:
            self._multiply_add(op, mapping)
            return
        # Bodies are pure: the same op on the same values, from the same place of the source, is
        # computed once. (Leaves recompute what they could have read from one another.)
        operands = tuple(mapping.get(operand, operand) for operand in op.operands)
        key = (op.name, operands, tuple(op.properties.items()), id(op.location))
        result = self.builder.once(
            key, lambda: self.builder.add(op.clone(mapping), op.location).results[0]
        )
        mapping[op.results[0]] = result

    def _multiply_add(self, op: Operation, mapping: dict[SSAValue, SSAValue]) -> None:
        product = self._fused[op]
        addend = next(operand for operand in op.operands if operand.owner is not product)
        a, b = (mapping[operand] for operand in product.operands)
        fused = self.builder.add(math.FmaOp(a, b, mapping[addend]), op.location)
        mapping[op.results[0]] = fused.result

    def is_register(self, value: SSAValue) -> bool:
        """Whether a memref of the nest lies in registers."""
        return scope_of(value) == "register"

    @property
    def register_axes(self) -> tuple[bool, ...]:
        """For each axis, whether it picks an element of a register buffer: its loop is unrolled."""
        used: set[int] = set()
        for value, each in zip((*self.op.inputs, *self.op.outputs), self.op.maps, strict=True):
            if self.is_register(value):
                for result in each.data.results:
                    used |= result.used_dims()
        return tuple(axis in used for axis in range(len(self.sizes)))


def _multiply_adds(leaf: ComputeOp) -> dict[Operation, Operation]:
    """Sums of a contraction that alone take a product of the body: one ``fma`` each.

    The numerics contract lets a contraction add a product without rounding in between, but where
    a text writes the sum out.
    """
    if leaf.kind.data not in ("contract", "window") or leaf.is_ordered:
        return {}
    found: dict[Operation, Operation] = {}
    for number in range(len(leaf.outputs)):
        total = fold_op(leaf, number)
        if not isinstance(total, arith.AddfOp):
            continue
        for operand in total.operands:
            product = operand.owner
            if isinstance(product, arith.MulfOp) and len(list(operand.uses)) == 1:
                found[total] = product
                break
    return found


def combine(leaf: Leaf, number: int, left: SSAValue, right: SSAValue) -> SSAValue:
    """Join two partial results of output ``number``."""
    op = fold_op(leaf.op, number)
    held = leaf.op.body.block.args[len(leaf.inputs) + number]
    mapping: Mapping[SSAValue, SSAValue] = {
        operand: left if operand is held else right for operand in op.operands
    }
    return leaf.builder.add(op.clone(dict(mapping)), op.location).results[0]


_IDENTITIES: dict[str, float] = {
    "arith.addf": -0.0,
    "arith.mulf": 1.0,
    "arith.maximumf": float("-inf"),
    "arith.maxnumf": float("-inf"),
    "arith.minimumf": float("inf"),
    "arith.minnumf": float("inf"),
    "arith.addi": 0,
    "arith.muli": 1,
    "arith.ori": 0,
    "arith.xori": 0,
    "arith.maxui": 0,
}


def identity_of(leaf: ComputeOp, number: int) -> float | int | None:
    """The value that folding leaves as it is; ``None`` for a combiner without one.

    -0 is that of a sum: +0 would turn a sum of nothing but -0 into +0.
    """
    op = fold_op(leaf, number)
    known = _IDENTITIES.get(op.name)
    if known is not None:
        return known
    type = op.results[0].type
    if not isinstance(type, IntegerType):
        return None
    width = cast("IntegerType", type).width.data
    extremes = {
        "arith.maxsi": -(1 << (width - 1)),
        "arith.minsi": (1 << (width - 1)) - 1,
        "arith.minui": -1,
        "arith.andi": -1,
    }
    return extremes.get(op.name)

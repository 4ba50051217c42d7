"""Arithmetic on SSA values that reads as arithmetic: ``p = r * q + 1.0``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    Float32Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    VectorType,
    f32,
    f64,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from wia_compiler.dialects.arith_lanes import (
    LANEWISE,
    CompareFloatsOp,
    CompareIntegersOp,
    SelectLanesOp,
)


class Expansion:
    """Inserts ops before ``anchor``, with its location, on scalars or vectors of its shape.

    ``scales_vectors`` says that the target multiplies vectors by powers of two in one instruction.
    """

    def __init__(
        self, anchor: Operation, *, block: Block | None = None, scales_vectors: bool = False
    ):
        self.anchor = anchor
        self.block = block
        self.scales_vectors = scales_vectors
        self._constants: dict[tuple[float | int, str, Attribute], Number] = {}

    def number(self, value: SSAValue) -> Number:
        """A value of the module as a ``Number``."""
        return Number(self, value)

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op; its first result."""
        op.location = self.anchor.location
        if self.block is not None:
            self.block.add_op(op)
        else:
            parent = self.anchor.parent
            assert parent is not None
            parent.insert_op_before(op, self.anchor)
        return op.results[0]

    def branch(
        self,
        condition: Number,
        then: Callable[[Expansion], list[Number]],
        otherwise: Callable[[Expansion], list[Number]],
    ) -> list[Number]:
        """``scf.if`` with results: each way is written into a block of its own."""
        blocks = Block(), Block()
        results: list[list[Number]] = []
        for block, write in zip(blocks, (then, otherwise), strict=True):
            inside = self._inside(block)
            results.append(write(inside))
            inside.insert_terminator(scf.YieldOp(*(each.value for each in results[-1])))
        types = [each.type for each in results[0]]
        op = scf.IfOp(condition.value, types, Region(blocks[0]), Region(blocks[1]))
        self.insert(op)
        return [Number(self, result) for result in op.results]

    def repeat(
        self,
        start: Number,
        condition: Callable[[Expansion, Number], Number],
        step: Callable[[Expansion, Number], Number],
    ) -> Number:
        """``scf.while``: ``step`` applied to ``start`` as long as ``condition`` holds."""
        before, after = (Block(arg_types=[start.type]) for _ in range(2))
        head = self._inside(before)
        value = head.number(before.args[0])
        test = condition(head, value)
        head.insert_terminator(scf.ConditionOp(test.value, value.value))
        body = self._inside(after)
        stepped = step(body, body.number(after.args[0]))
        body.insert_terminator(scf.YieldOp(stepped.value))
        op = scf.WhileOp([start.value], [start.type], Region(before), Region(after))
        return Number(self, self.insert(op))

    def _inside(self, block: Block) -> Expansion:
        """What inserts to a block inside."""
        return Expansion(self.anchor, block=block, scales_vectors=self.scales_vectors)

    def insert_terminator(self, op: Operation) -> None:
        """End the block that this writes to."""
        assert self.block is not None
        op.location = self.anchor.location
        self.block.add_op(op)

    def constant(self, value: float | int, type_: Attribute) -> Number:
        """A constant of a scalar type, or splatted over a vector type."""
        key = (value, repr(value), type_)
        if key not in self._constants:
            attribute = _attribute(value, type_)
            self._constants[key] = Number(self, self.insert(arith.ConstantOp(attribute, type_)))
        return self._constants[key]


def element_of(type_: Attribute) -> Attribute:
    """The element type of a vector; any other type itself."""
    if isinstance(type_, VectorType):
        return cast("VectorType[Attribute]", type_).element_type
    return type_


def _attribute(value: float | int, type_: Attribute) -> Any:
    """The attribute of ``arith.constant``: a number, or a splat for a vector type."""
    scalar = element_of(type_)
    if isinstance(scalar, IntegerType):
        width = cast("IntegerType", scalar).width.data
        number = IntegerAttr(_signed(int(value), width), IntegerType(width))
    else:
        number = FloatAttr(float(value), cast("AnyFloat", scalar))
    if isinstance(type_, VectorType):
        dense = cast("VectorType[Any]", type_)
        return DenseIntOrFPElementsAttr.from_list(dense, [number.value.data])
    return number


def _signed(value: int, width: int) -> int:
    """A bit pattern as the signed integer that attributes want."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


@dataclass(frozen=True, eq=False)
class Number:
    """A float or integer value; Python numbers beside it become constants of its type.

    ``>>`` is arithmetic. Float operators carry no fast-math flags.
    """

    at: Expansion
    value: SSAValue

    @property
    def type(self) -> Attribute:
        """The MLIR type."""
        return self.value.type

    @property
    def is_float(self) -> bool:
        """Whether it is a float or a vector of floats."""
        return not isinstance(element_of(self.type), IntegerType)

    @property
    def is_f32(self) -> bool:
        """Whether its elements are f32."""
        return isinstance(element_of(self.type), Float32Type)

    def _other(self, other: Number | float | int) -> Number:
        return other if isinstance(other, Number) else self.at.constant(other, self.type)

    def _op(self, op: Operation) -> Number:
        return Number(self.at, self.at.insert(op))

    def _binary(
        self,
        floats: type[arith.FloatingPointLikeBinaryOperation],
        integers: type[arith.SignlessIntegerBinaryOperation] | None,
        other: Number | float | int,
    ) -> Number:
        right = self._other(other).value
        if self.is_float:
            return self._op(floats(self.value, right))
        assert integers is not None
        return self._op(integers(self.value, right))

    def __add__(self, other: Number | float | int) -> Number:
        return self._binary(arith.AddfOp, arith.AddiOp, other)

    def __sub__(self, other: Number | float | int) -> Number:
        return self._binary(arith.SubfOp, arith.SubiOp, other)

    def __mul__(self, other: Number | float | int) -> Number:
        return self._binary(arith.MulfOp, arith.MuliOp, other)

    def __truediv__(self, other: Number | float | int) -> Number:
        return self._binary(arith.DivfOp, None, other)

    def __rsub__(self, other: float | int) -> Number:
        return self._other(other) - self

    def __rtruediv__(self, other: float | int) -> Number:
        return self._other(other) / self

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> Number:
        if self.is_float:
            return self._op(arith.NegfOp(self.value))
        return 0 - self

    def __and__(self, other: Number | int) -> Number:
        return self._op(arith.AndIOp(self.value, self._other(other).value))

    def __or__(self, other: Number | int) -> Number:
        return self._op(arith.OrIOp(self.value, self._other(other).value))

    def __xor__(self, other: Number | int) -> Number:
        return self._op(arith.XOrIOp(self.value, self._other(other).value))

    def __lshift__(self, other: Number | int) -> Number:
        return self._op(arith.ShLIOp(self.value, self._other(other).value))

    def __rshift__(self, other: Number | int) -> Number:
        return self._op(arith.ShRSIOp(self.value, self._other(other).value))

    def multiply_high(self, other: Number) -> Number:
        """The upper half of an unsigned product."""
        op = arith.MulUIExtendedOp(self.value, other.value)
        self.at.insert(op)
        return Number(self.at, op.high)

    def logical_shift(self, other: Number | int) -> Number:
        """Shift right, zeros from the left."""
        return self._op(arith.ShRUIOp(self.value, self._other(other).value))

    def fma(self, factor: Number | float, addend: Number | float) -> Number:
        """``self * factor + addend``, rounded once."""
        operands = self.value, self._other(factor).value, self._other(addend).value
        return self._op(math.FmaOp(*operands))

    def compare(self, predicate: str, other: Number | float | int) -> Number:
        """``arith.cmpf`` or ``cmpi``, lane by lane where this is a vector."""
        right = self._other(other).value
        if isinstance(self.type, VectorType):
            lanes = CompareFloatsOp if self.is_float else CompareIntegersOp
            return self._op(lanes(self.value, right, lanes.ORDERS.index(predicate)))
        if self.is_float:
            return self._op(arith.CmpfOp(self.value, right, predicate))
        return self._op(arith.CmpiOp(self.value, right, predicate))

    def select(self, then: Number | float | int, otherwise: Number | float | int) -> Number:
        """``then`` where this truth value holds; one of the two is a ``Number``."""
        if isinstance(then, Number):
            first, second = then, then._other(otherwise)
        else:
            assert isinstance(otherwise, Number)
            first, second = otherwise._other(then), otherwise
        if isinstance(self.type, VectorType):
            return self._op(SelectLanesOp(self.value, first.value, second.value))
        return self._op(arith.SelectOp(self.value, first.value, second.value))

    def abs(self) -> Number:
        """The magnitude of a float."""
        return self._op(math.AbsFOp(self.value))

    def floor(self) -> Number:
        """The largest whole number not above a float."""
        return self._op(math.FloorOp(self.value))

    def round_even(self) -> Number:
        """The nearest whole number, halves to even."""
        return self._op(math.RoundEvenOp(self.value))

    def sqrt(self) -> Number:
        """The square root, correctly rounded."""
        return self._op(math.SqrtOp(self.value))

    def copysign(self, sign: Number) -> Number:
        """This magnitude with the sign of ``sign``."""
        return self._op(math.CopySignOp(self.value, sign.value))

    def at_most(self, limit: float) -> Number:
        """The smaller of the two; NaN stays NaN."""
        bound = self._other(limit)
        return bound.compare("olt", self).select(bound, self)

    def at_least(self, limit: float) -> Number:
        """The larger of the two; NaN stays NaN."""
        bound = self._other(limit)
        return bound.compare("ogt", self).select(bound, self)

    def polynomial(self, coefficients: Sequence[float]) -> Number:
        """``c0 + c1 x + c2 x^2 + …`` by Horner's rule with fused multiply-adds."""
        total = self.at.constant(coefficients[-1], self.type)
        for coefficient in reversed(coefficients[:-1]):
            total = total.fma(self, coefficient)
        return total

    def bits(self) -> Number:
        """A float's bits as an integer of its width."""
        width = IntegerType(32 if self.is_f32 else 64)
        return self._op(arith.BitcastOp(self.value, self.like(width)))

    def float_of_bits(self) -> Number:
        """The float with these bits."""
        width = cast("IntegerType", element_of(self.type)).width.data
        return self._op(arith.BitcastOp(self.value, self.like(f32 if width == 32 else f64)))

    def to_f64(self) -> Number:
        """An f32, exactly, or a signed integer as an f64."""
        if self.is_float:
            return self._op(arith.ExtFOp(self.value, self.like(f64)))
        return self._convert(arith.SIToFPOp, f64)

    def to_f32(self) -> Number:
        """An f64 or a signed integer, rounded to f32."""
        if self.is_float:
            return self._op(arith.TruncFOp(self.value, self.like(f32)))
        return self._convert(arith.SIToFPOp, f32)

    def unsigned_to_f64(self) -> Number:
        """An unsigned integer as an f64."""
        return self._convert(arith.UIToFPOp, f64)

    def sign_extend(self, width: int) -> Number:
        """The same signed integer in more bits."""
        return self._convert(arith.ExtSIOp, IntegerType(width))

    def zero_extend(self, width: int) -> Number:
        """The same unsigned integer in more bits."""
        return self._convert(arith.ExtUIOp, IntegerType(width))

    def truncate(self, width: int) -> Number:
        """The low bits of an integer."""
        return self._convert(arith.TruncIOp, IntegerType(width))

    def like(self, element: Attribute) -> Attribute:
        """The type of this shape with another element."""
        own = self.type
        if isinstance(own, VectorType):
            return VectorType(element, cast("VectorType[Attribute]", own).get_shape())
        return element

    def _convert(self, op: type[Operation], element: Attribute) -> Number:
        result = self.like(element)
        if isinstance(self.type, VectorType):
            return self._op(LANEWISE[op.name](self.value, result))
        made = op.create(operands=[self.value], result_types=[result])
        return self._op(made)

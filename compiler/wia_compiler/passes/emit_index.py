"""Emission of index arithmetic: affine expressions as ``arith`` ops on ``index`` values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.builder import Builder
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, LocationAttr
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects import tile
from wia_compiler.dialects.shared_attributes import INDEX as INDEX
from wia_compiler.dialects.shared_attributes import index_number
from wia_compiler.passes.affine import Range, linear_form

OpT = TypeVar("OpT", bound=Operation)
_WRAPS = arith.IntegerOverflowAttr("none")


class IndexEmitter:
    """Emits index arithmetic at one place, each distinct value once, and folds constants.

    ``nested`` gives the emitter of a block inside: it reuses what is already there, and what it
    emits stays inside. Every op gets ``location``.
    """

    def __init__(
        self,
        builder: Builder,
        location: LocationAttr,
        known: dict[object, SSAValue] | None = None,
        constants: dict[SSAValue, int] | None = None,
    ):
        self.builder = builder
        self.location = location
        self._known = known if known is not None else {}
        self._constants = constants if constants is not None else {}

    def nested(self, block: Block) -> IndexEmitter:
        """An emitter at the end of a block inside the one this emits to."""
        inside = Builder(InsertPoint.at_end(block))
        return IndexEmitter(inside, self.location, dict(self._known), dict(self._constants))

    def emit(self, op: Operation) -> SSAValue:
        """Insert an op with the emitter's location and give its only result."""
        return self.put(op).results[0]

    def put(self, op: OpT) -> OpT:
        """Insert an op with the emitter's location."""
        op.location = self.location
        return self.builder.insert(op)

    def close(self, block: Block, *values: SSAValue) -> None:
        """End a block with ``scf.yield`` of the values."""
        made = scf.YieldOp(*values)
        made.location = self.location
        block.add_op(made)

    def constant(self, value: int) -> SSAValue:
        """``arith.constant value : index``."""
        known = self._known.get(value)
        if known is None:
            number = index_number(value)
            made = arith.ConstantOp.create(result_types=[INDEX], properties={"value": number})
            known = self.emit(made)
            self._known[value] = known
            self._constants[known] = value
        return known

    def constant_of(self, value: SSAValue) -> int | None:
        """The number behind a value that ``constant`` made."""
        return self._constants.get(value)

    def binary(
        self, op: type[arith.SignlessIntegerBinaryOperation], a: SSAValue, b: SSAValue
    ) -> SSAValue:
        """An integer op on two index values; emitted once for each pair."""
        key = (op, a, b)
        known = self._known.get(key)
        if known is None:
            # ``create`` takes a third of the time of the class's own checks of its operands.
            wraps = issubclass(op, arith.SignlessIntegerBinaryOperationWithOverflow)
            properties = {"overflowFlags": _WRAPS} if wraps else {}
            made = op.create(operands=[a, b], result_types=[a.type], properties=properties)
            known = self._known[key] = self.emit(made)
        return known

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """``a + b``, folded."""
        left, right = self.constant_of(a), self.constant_of(b)
        if left is not None and right is not None:
            return self.constant(left + right)
        if left == 0:
            return b
        return a if right == 0 else self.binary(arith.AddiOp, a, b)

    def subtract(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """``a - b``, folded."""
        left, right = self.constant_of(a), self.constant_of(b)
        if left is not None and right is not None:
            return self.constant(left - right)
        return a if right == 0 else self.binary(arith.SubiOp, a, b)

    def scale(self, a: SSAValue, factor: int) -> SSAValue:
        """``a * factor``, folded."""
        known = self.constant_of(a)
        if known is not None:
            return self.constant(known * factor)
        if factor == 0:
            return self.constant(0)
        return a if factor == 1 else self.binary(arith.MuliOp, a, self.constant(factor))

    def minimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The smaller of two, folded."""
        left, right = self.constant_of(a), self.constant_of(b)
        if left is not None and right is not None:
            return self.constant(min(left, right))
        return self.binary(arith.MinSIOp, a, b)

    def below(self, a: SSAValue, limit: int) -> SSAValue:
        """``0 <= a < limit`` as an ``i1``: one unsigned comparison."""
        key = ("below", a, limit)
        known = self._known.get(key)
        if known is None:
            known = self.emit(arith.CmpiOp(a, self.constant(limit), "ult"))
            self._known[key] = known
        return known

    def both(self, conditions: Sequence[SSAValue]) -> SSAValue:
        """The conjunction of one or more ``i1`` values."""
        total = conditions[0]
        for each in conditions[1:]:
            total = self.binary(arith.AndIOp, total, each)
        return total

    def affine(
        self, expression: AffineExpr, dims: Sequence[SSAValue], symbols: Sequence[SSAValue] = ()
    ) -> SSAValue:
        """The value of an affine expression at ``dims`` and ``symbols``."""
        form = linear_form(expression)
        total: SSAValue | None = None
        for atom, coefficient in form.terms.items():
            term = self.scale(self._atom(atom, dims, symbols), abs(coefficient))
            if total is None:
                total = term if coefficient > 0 else self.subtract(self.constant(0), term)
            else:
                total = self.add(total, term) if coefficient > 0 else self.subtract(total, term)
        if total is None:
            return self.constant(form.constant)
        if form.constant < 0:
            return self.subtract(total, self.constant(-form.constant))
        return self.add(total, self.constant(form.constant))

    def _atom(
        self, atom: AffineExpr, dims: Sequence[SSAValue], symbols: Sequence[SSAValue]
    ) -> SSAValue:
        match atom:
            case AffineDimExpr():
                return dims[atom.position]
            case AffineSymExpr():
                return symbols[atom.position]
            case AffineBinaryOpExpr(rhs=AffineConstantExpr() as divisor):
                value = self.affine(atom.lhs, dims, symbols)
                return self._divided(atom.kind, value, divisor.value)
            case _:
                raise ValueError(f"no index arithmetic for {atom}")

    def _divided(self, kind: AffineBinaryOpKind, value: SSAValue, divisor: int) -> SSAValue:
        """Divisions of index maps: their dividends are positions, never negative."""
        known = self.constant_of(value)
        by = self.constant(divisor)
        match kind:
            case AffineBinaryOpKind.FloorDiv if known is not None:
                return self.constant(known // divisor)
            case AffineBinaryOpKind.Mod if known is not None:
                return self.constant(known % divisor)
            case AffineBinaryOpKind.FloorDiv:
                return self.binary(arith.DivUIOp, value, by)
            case AffineBinaryOpKind.Mod:
                return self.binary(arith.RemUIOp, value, by)
            case _:
                return self.binary(arith.DivUIOp, self.add(value, self.constant(divisor - 1)), by)


def range_of_value(value: SSAValue) -> Range | None:
    """The range of a loop's induction variable; ``None`` where nothing is known."""
    if not isinstance(value, BlockArgument) or value.index != 0:
        return None
    match value.block.parent_op():
        case tile.ForOp() as loop:
            last = max(loop.trip_count - 1, 0) * loop.step.value.data
            return 0, last
        case scf.ForOp() as loop:
            bounds = [constant_of(each) for each in (loop.lb, loop.ub, loop.step)]
            start, stop, step = bounds
            if start is None or stop is None or not step or stop <= start:
                return None
            return start, start + (stop - start - 1) // step * step
        case _:
            return None


def constant_of(value: SSAValue) -> int | None:
    """The number that an index value is, where an ``arith.constant`` makes it."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None

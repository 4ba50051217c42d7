"""The values of one iteration as the lanes of vectors: numbers, indices, loads and stores.

A number that is the same in all lanes stays a scalar; an index that grows evenly from lane to lane
is known by what it is in the first lane, and in the last that takes part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.dialects.shared_attributes import vector_type
from wia_compiler.passes.lane_ops import lane_numbers, on_lanes, splat
from wia_compiler.passes.llvm.types import strides_of
from wia_compiler.passes.loops.forms import Atom, Form
from wia_compiler.passes.points.forms import PointForms

_REMAINDERS = ("arith.divsi", "arith.divui", "arith.remsi", "arith.remui", "arith.remf")
"""Ops that vectors have not, or that are slower on them than on scalars."""
_HALVES = ("f16", "bf16")


class NotVectors(Exception):
    """Why the iterations of a loop cannot be the lanes of a vector."""


@dataclass(frozen=True)
class Mask:
    """Which lanes take part. ``certain``: one of them at least does, so that what is read at one
    place for all lanes may be read.
    """

    lanes: SSAValue | None = None
    certain: bool = True


@dataclass
class LaneValues:
    """The values of a loop's body, written anew for ``width`` iterations of it.

    ``first`` and ``last`` are the loop's variable in the first and the last lane that takes part.
    """

    forms: PointForms
    variable: SSAValue
    width: int
    first: SSAValue
    last: SSAValue

    def __post_init__(self) -> None:
        self.values: dict[SSAValue, SSAValue] = {self.variable: self.first}
        self.lasts: dict[SSAValue, SSAValue] = {self.variable: self.last}
        self.vectors: set[SSAValue] = set()
        self.atom: Atom = self.forms.form(self.variable).terms[0][0]

    def _insert(self, builder: Builder, made: Operation, like: Operation) -> SSAValue:
        made.location = like.location
        builder.insert(made)
        return made.results[0]

    def _number(self, builder: Builder, number: int, like: Operation) -> SSAValue:
        return self._insert(builder, arith.ConstantOp.from_int_and_width(number, IndexType()), like)

    def differs(self, value: SSAValue) -> bool:
        """Whether a value is not the same in all lanes."""
        return value in self.vectors or value in self.lasts

    def _type(self, element: Attribute) -> VectorType[Attribute]:
        return vector_type(element, self.width)

    def vector(self, value: SSAValue, builder: Builder, like: Operation) -> SSAValue:
        """A value in every lane."""
        if value in self.vectors:
            return self.values[value]
        if value in self.lasts and self._hides_any(value):
            return self._on_each(value, builder, like)
        made = self.values.get(value, value)
        element = i64 if isinstance(value.type, IndexType) else value.type
        if isinstance(value.type, IndexType):
            made = self._insert(builder, arith.IndexCastOp(made, i64), like)
        spread = self._insert(builder, vector.BroadcastOp(made, self._type(element)), like)
        if value not in self.lasts:
            return spread
        factor = self._factor(self.forms.form(value))
        steps = lane_numbers([factor * lane for lane in range(self.width)], self._type(element))
        return self._insert(builder, arith.AddiOp(spread, self._insert(builder, steps, like)), like)

    def _hides_any(self, value: SSAValue) -> bool:
        return any(self._hides(atom) for atom, _ in self.forms.form(value).terms)

    def _on_each(self, value: SSAValue, builder: Builder, like: Operation) -> SSAValue:
        """A number of the loops that does not grow evenly (a minimum), computed in each lane."""
        op = value.owner
        assert isinstance(op, Operation)
        operands = [self.vector(each, builder, like) for each in op.operands]
        if isinstance(op, arith.IndexCastOp):
            return operands[0]
        made = type(op).create(
            operands=operands, result_types=[self._type(i64)], properties=dict(op.properties)
        )
        return self._insert(builder, made, like)

    def _growth(self, form: Form) -> int:
        """Whether a sum grows (1), shrinks (-1) or stays (0) from lane to lane."""
        signs: set[int] = set()
        for atom, factor in form.terms:
            up = (factor > 0) - (factor < 0)
            if atom is self.atom:
                signs.add(up)
            elif self._hides(atom):
                inner = {self._growth(each) for each in (*atom.lowers, *atom.uppers)}
                signs |= {up * each for each in inner} or {2}
        signs.discard(0)
        if len(signs) > 1 or 2 in signs or -2 in signs:
            raise NotVectors(f"{form} neither grows nor shrinks from lane to lane")
        return signs.pop() if signs else 0

    def _factor(self, form: Form) -> int:
        """By how much a sum grows from lane to lane."""
        factor = form.factor(self.atom)
        if any(self._hides(atom) for atom, _ in form.terms) or not isinstance(factor, int):
            raise NotVectors(f"{form} does not grow evenly from lane to lane")
        return factor

    def _hides(self, atom: Atom) -> bool:
        """Whether a number that is no loop's variable (a minimum) may differ between lanes."""
        if atom in self.forms.loops:
            return False
        bounds = (*atom.lowers, *atom.uppers)
        inner = [each for bound in bounds for each, _ in bound.terms]
        return not bounds or any(each is self.atom or self._hides(each) for each in inner)

    def _scalar(self, op: Operation, builder: Builder) -> None:
        if op.regions or not op.results or op.name.partition(".")[0] not in ("arith", "math"):
            raise NotVectors(f"its body holds a {op.name}")
        result = op.results[0]
        if not any(self.differs(each) for each in op.operands):
            made = op.clone(self.values)
            self.values[result] = self._insert(builder, made, op)
            made.results[0].name_hint = result.name_hint
            return
        if self._is_index(result) and not any(each in self.vectors for each in op.operands):
            self._index(op, builder)
            return
        if op.name in _REMAINDERS or isinstance(op, arith.IndexCastOp):
            raise NotVectors(f"{result.name_hint or 'a number'} is computed by {op.name}")
        if any(str(each.type) in _HALVES for each in (*op.operands, result)):
            raise NotVectors("numbers of 16 bits are converted one by one")
        operands = [self.vector(each, builder, op) for each in op.operands]
        self._define(result, self._insert(builder, on_lanes(op, operands, self.width), op))

    def _is_index(self, value: SSAValue) -> bool:
        if not isinstance(value.type, IndexType) and value.type != i64:
            return False
        form = self.forms.forms.get(value)
        return form is not None and all(
            atom in self.forms.loops or atom.lowers or atom.uppers for atom, _ in form.terms
        )

    def _index(self, op: Operation, builder: Builder) -> None:
        """A sum over loops: a scalar for the first lane and one for the last."""
        result = op.results[0]
        first = op.clone(self.values)
        last = op.clone({**self.values, **self.lasts})
        self.values[result] = self._insert(builder, first, op)
        self.lasts[result] = self._insert(builder, last, op)
        first.results[0].name_hint = last.results[0].name_hint = result.name_hint

    def _define(self, value: SSAValue, made: SSAValue) -> None:
        self.values[value] = made
        self.vectors.add(value)
        made.name_hint = value.name_hint

    def _runs_along(self, op: memref.LoadOp | memref.StoreOp) -> bool:
        """Whether neighbouring lanes access neighbours; the same place is ``False``."""
        if any(index in self.vectors for index in op.indices):
            raise NotVectors(f"{op.memref.name_hint or 'an array'} is accessed where data says")
        factors = [
            self._factor(self.forms.form(index)) if self.differs(index) else 0
            for index in op.indices
        ]
        if not any(factors):
            return False
        type_ = cast("MemRefType[Attribute]", op.memref.type)
        if any(factors[:-1]) or factors[-1] != 1 or strides_of(type_)[-1] != 1:
            name = op.memref.name_hint or "an array"
            raise NotVectors(f"neighbouring iterations access {name} at places that lie apart")
        if type_.element_type == i1:
            raise NotVectors("truth values lie in memory one by one")
        return True

    def _load(self, op: memref.LoadOp, builder: Builder, mask: Mask) -> None:
        indices = [self.values.get(each, each) for each in op.indices]
        if not self._runs_along(op):
            if not mask.certain:
                raise NotVectors(f"{op.memref.name_hint or 'an array'} is read in a branch alone")
            made = memref.LoadOp.get(self.values.get(op.memref, op.memref), indices)
            self.values[op.res] = self._insert(builder, made, op)
            made.res.name_hint = op.res.name_hint
            return
        type_ = self._type(op.res.type)
        if mask.lanes is None:
            loaded: Operation = vector.LoadOp(op.memref, indices, type_)
        else:
            zero = self._insert(builder, splat(0, type_), op)
            loaded = vector.MaskedLoadOp(op.memref, indices, mask.lanes, zero, type_)
        self._define(op.res, self._insert(builder, loaded, op))

    def _store(self, op: memref.StoreOp, builder: Builder, mask: Mask) -> None:
        if not self._runs_along(op):
            raise NotVectors(f"all lanes write one element of {op.memref.name_hint or 'an array'}")
        indices = [self.values.get(each, each) for each in op.indices]
        value = self.vector(op.value, builder, op)
        if mask.lanes is None:
            stored: Operation = vector.StoreOp(value, op.memref, indices)
        else:
            stored = vector.MaskedStoreOp.build(operands=[op.memref, indices, mask.lanes, value])
        stored.location = op.location
        builder.insert(stored)

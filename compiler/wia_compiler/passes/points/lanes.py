"""Point code of one loop written for the lanes of vectors: each lane is one iteration.

Every op is done for all lanes in the order of the text, so that each iteration rounds as it did.
A branch whose condition differs between lanes is taken by some of them: both ways are computed and
each lane keeps its own. A loop inside that ends at another number for each lane runs until the
last one is done; the iterations that all lanes have need no mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, memref, scf, vector
from xdsl.dialects.builtin import IndexType, MemRefType, VectorType, i1, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects.arith_lanes import SelectLanesOp
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
class Lanes:
    """Writes blocks of a loop's body anew for ``width`` iterations of it.

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

    def block(self, source: Block, builder: Builder, mask: Mask) -> None:
        """Write the ops of a block, all but its terminator."""
        for op in source.ops:
            match op:
                case scf.ForOp():
                    self._loop(op, builder, mask)
                case scf.IfOp():
                    self._branch(op, builder, mask)
                case memref.LoadOp():
                    self._load(op, builder, mask)
                case memref.StoreOp():
                    self._store(op, builder, mask)
                case scf.YieldOp():
                    pass
                case _:
                    self._scalar(op, builder)

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

    def _branch(self, op: scf.IfOp, builder: Builder, mask: Mask) -> None:
        if not self.differs(op.cond):
            self._whole_branch(op, builder, mask)
            return
        if any(inner.regions for region in op.regions for inner in region.block.ops):
            raise NotVectors("a branch that some lanes take holds a loop or a branch")
        condition = self.vector(op.cond, builder, op)
        other = self._insert(
            builder,
            arith.XOrIOp(condition, self._insert(builder, splat(True, self._type(i1)), op)),
            op,
        )
        yielded: list[list[SSAValue]] = []
        for region, taken in ((op.true_region, condition), (op.false_region, other)):
            if not region.blocks:
                continue
            lanes = self._both(mask.lanes, taken, builder, op)
            self.block(region.block, builder, Mask(lanes, certain=False))
            last = region.block.last_op
            assert last is not None
            yielded.append([self.vector(each, builder, last) for each in last.operands])
        for number, result in enumerate(op.results):
            chosen = SelectLanesOp(condition, yielded[0][number], yielded[1][number])
            self._define(result, self._insert(builder, chosen, op))

    def _both(
        self, one: SSAValue | None, other: SSAValue, builder: Builder, like: Operation
    ) -> SSAValue:
        if one is None:
            return other
        return self._insert(builder, arith.AndIOp(one, other), like)

    def _whole_branch(self, op: scf.IfOp, builder: Builder, mask: Mask) -> None:
        """A branch that all lanes take alike."""
        blocks: list[Block] = []
        for region in op.regions:
            if not region.blocks:
                continue
            made = Block()
            inside = Builder(InsertPoint.at_end(made))
            self.block(region.block, inside, mask)
            last = region.block.last_op
            assert last is not None
            end = scf.YieldOp(*(self.vector(each, inside, last) for each in last.operands))
            end.location = last.location
            made.add_op(end)
            blocks.append(made)
        condition = self.values.get(op.cond, op.cond)
        types = [self._type(each.type) for each in op.results]
        regions = [Region(each) for each in blocks]
        made_if = scf.IfOp(condition, types, regions[0], regions[1] if regions[1:] else None)
        made_if.location = op.location
        builder.insert(made_if)
        for value, result in zip(op.results, made_if.results, strict=True):
            self._define(value, result)

    def _loop(self, op: scf.ForOp, builder: Builder, mask: Mask) -> None:
        if self.differs(op.step) or any(isinstance(a.type, IndexType) for a in op.iter_args):
            raise NotVectors("a loop inside takes steps that differ between lanes")
        carried = [self.vector(each, builder, op) for each in op.iter_args]
        if not self.differs(op.lb) and not self.differs(op.ub):
            bounds = [self.values.get(each, each) for each in (op.lb, op.ub)]
            carried = self._turns(op, builder, bounds, carried, mask)
        else:
            carried = self._ragged_loop(op, builder, carried, mask)
        for value, made in zip(op.results, carried, strict=True):
            self._define(value, made)

    def _ragged_loop(
        self, op: scf.ForOp, builder: Builder, carried: list[SSAValue], mask: Mask
    ) -> list[SSAValue]:
        """A loop whose bounds grow from lane to lane: before and after what all lanes have, masks.

        ::

            for k in 0..j + 1   →   for k in 0..first + 1 { all lanes }
                                    for k in first + 1..last + 1 { lanes of which k < j + 1 }
        """
        if any(each in self.vectors for each in (op.lb, op.ub)) or not mask.certain:
            raise NotVectors("a loop inside has bounds that data says, or stands in a branch")
        if self.differs(op.lb) and self.forms.constant(op.step) != 1:
            raise NotVectors("a loop inside starts apart in each lane and takes steps")
        lowest, begun = self._ends(op.lb, builder, op)
        ended, highest = self._ends(op.ub, builder, op)
        pick = arith.MaxSIOp
        begun = self._insert(builder, pick(lowest, begun), op)
        ended = self._insert(builder, pick(begun, ended), op)
        highest = self._insert(builder, pick(ended, highest), op)
        if self.differs(op.lb):
            carried = self._turns(op, builder, (lowest, begun), carried, mask, test=True)
        if self.forms.constant(op.step) != 1:
            begun, ended = lowest, self._whole_steps(op, lowest, ended, builder)
        carried = self._turns(op, builder, (begun, ended), carried, mask)
        if self.differs(op.ub):
            carried = self._turns(op, builder, (ended, highest), carried, mask, test=True)
        return carried

    def _whole_steps(
        self, op: scf.ForOp, first: SSAValue, end: SSAValue, builder: Builder
    ) -> SSAValue:
        """The place that a loop with steps is at where it would go past ``end``."""
        step = self.values.get(op.step, op.step)
        room = self._insert(builder, arith.SubiOp(end, first), op)
        more = self._insert(builder, arith.SubiOp(step, self._number(builder, 1, op)), op)
        turns = self._insert(builder, arith.AddiOp(room, more), op)
        turns = self._insert(builder, arith.DivUIOp(turns, step), op)
        gone = self._insert(builder, arith.MuliOp(turns, step), op)
        return self._insert(builder, arith.AddiOp(first, gone), op)

    def _ends(
        self, bound: SSAValue, builder: Builder, like: Operation
    ) -> tuple[SSAValue, SSAValue]:
        """A bound in the lane where it is lowest, and where it is highest."""
        first = self.values.get(bound, bound)
        if not self.differs(bound):
            return first, first
        last = self.lasts[bound]
        grows = self._growth(self.forms.form(bound)) > 0
        return (first, last) if grows else (last, first)

    def _turns(
        self,
        op: scf.ForOp,
        builder: Builder,
        bounds: Sequence[SSAValue],
        carried: Sequence[SSAValue],
        mask: Mask,
        *,
        test: bool = False,
    ) -> list[SSAValue]:
        """The loop between two bounds; ``test``: for the lanes whose own bounds hold."""
        body = Block(arg_types=[IndexType(), *(each.type for each in carried)])
        variable, *held = op.body.block.args
        self.values[variable] = body.args[0]
        body.args[0].name_hint = variable.name_hint
        for value, made in zip(held, body.args[1:], strict=True):
            self._define(value, made)
        inside = Builder(InsertPoint.at_end(body))
        own = replace(mask)
        if test:
            own = Mask(self._inside(op, variable, inside, mask), certain=mask.certain)
        self.block(op.body.block, inside, own)
        last = op.body.block.last_op
        assert last is not None
        yielded = [self.vector(each, inside, last) for each in last.operands]
        if test and own.lanes is not None:
            yielded = [
                self._insert(inside, SelectLanesOp(own.lanes, new, old), last)
                for new, old in zip(yielded, body.args[1:], strict=True)
            ]
        end = scf.YieldOp(*yielded)
        end.location = last.location
        body.add_op(end)
        step = self.values.get(op.step, op.step)
        loop = scf.ForOp(bounds[0], bounds[1], step, list(carried), Region(body))
        loop.location = op.location
        loop.attributes = dict(op.attributes)
        builder.insert(loop)
        return list(loop.results)

    def _inside(
        self, op: scf.ForOp, variable: SSAValue, builder: Builder, mask: Mask
    ) -> SSAValue | None:
        """The lanes whose own loop has an iteration here."""
        lanes = mask.lanes
        here = self.vector(variable, builder, op)
        for bound, word in ((op.lb, "sge"), (op.ub, "slt")):
            if self.differs(bound):
                other = self.vector(bound, builder, op)
                like = arith.CmpiOp(variable, variable, word)
                test = self._insert(builder, on_lanes(like, [here, other], self.width), op)
                lanes = self._both(lanes, test, builder, op)
        return lanes

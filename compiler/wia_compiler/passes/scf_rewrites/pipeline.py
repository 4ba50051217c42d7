"""Software pipelining: loads run iterations ahead of what uses them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects import arith, memref, scf
from xdsl.dialects.builtin import MemRefType, NoneAttr, StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from wia_compiler.passes.emit_index import INDEX, IndexEmitter, constant_of
from wia_compiler.passes.scf_rewrites.loops import (
    CannotExpand,
    Values,
    array_of,
    at_iteration,
    emitter_before,
    end_turn,
    hoist_invariants,
    replace_loop,
    trip_count,
    trips_of,
)
from wia_compiler.passes.scf_rewrites.stages import Stages, split_stages

STAGE = "wia.stage"
"""Attribute of what pipelining wrote: ``prologue``, ``steady state``, ``epilogue``."""


def pipeline(loop: scf.ForOp, stages: int) -> scf.ForOp | None:
    """Load ``stages - 1`` iterations ahead; gives the loop of the steady state.

    ::

        scf.for %i = 0 to 100 step 1 {         %x = load a[0]                          prologue
          %x = load a[%i]                      %y = scf.for %i = 0 to 99 step 1
          compute(%x)                     →          iter_args(%old = %x) {            steady state
        }                                        %new = load a[%i + 1]   compute(%old)
                                                 yield %new }
                                               compute(%y)                             epilogue

    Loads run ahead where no iteration may write what a later one loads: from arrays that the loop
    does not write to, or from any where its iterations are independent. So do loops inside that
    only fill a buffer of this loop's body: the buffer then has ``stages`` copies, used in turn.
    Nothing is loaded that the loop did not load. With fewer iterations than stages there are fewer
    stages; where their number comes with the data, too few run the loop as it was.
    """
    known = trip_count(loop)
    if known is not None:
        stages = min(stages, known)
    if stages < 2:
        return loop
    hoist_invariants(loop)
    split = split_stages(loop)
    emitter = emitter_before(loop)
    trips = trips_of(loop, emitter)
    if known is not None:
        work = _Pipeline(loop, split, stages, trips.value, known)
        steady, ends = work.write(emitter)
        replace_loop(loop, ends)
        return steady
    enough = emitter.emit(arith.CmpiOp(trips.value, emitter.constant(stages), "uge"))
    taken, other = Block(), Block()
    inside = emitter.nested(taken)
    steady, ends = _Pipeline(loop, split, stages, trips.value, None).write(inside)
    end_turn(taken, ends, loop)
    kept = loop.clone()
    other.add_op(kept)
    end_turn(other, kept.results, loop)
    types = [value.type for value in loop.results]
    branch = scf.IfOp(enough, types, Region(taken), Region(other))
    branch.location = loop.location
    emitter.builder.insert(branch)
    replace_loop(loop, branch.results)
    return steady


@dataclass
class _Pipeline:
    """One loop being written; ``trips`` is the number of its iterations, ``known`` or not."""

    loop: scf.ForOp
    split: Stages
    stages: int
    trips: SSAValue
    known: int | None
    buffers: Values = field(default_factory=Values)

    def write(self, emitter: IndexEmitter) -> tuple[scf.ForOp, list[SSAValue]]:
        """Prologue, steady state and epilogue; the steady loop and what the loop gave."""
        ahead = self.stages - 1
        for op in self.split.buffers:
            self.buffers[op.results[0]] = self._copies_of(op, emitter)
        queue = [
            self._load(
                emitter, at_iteration(self.loop, emitter, n), emitter.constant(n), "prologue"
            )
            for n in range(ahead)
        ]
        steady = self._steady(emitter, [value for each in queue for value in each])
        carried: list[SSAValue] = [*steady.results[: len(self.loop.iter_args)]]
        waiting = list(steady.results[len(self.loop.iter_args) :])
        width = len(self.split.values)
        for n in range(ahead):
            number = self._number(emitter, n - ahead)
            variable = at_iteration(
                self.loop, emitter, number if self.known is None else self.known + n - ahead
            )
            own = waiting[n * width : (n + 1) * width]
            slot = self._slot(emitter, number)
            carried = self._compute(emitter, variable, carried, own, slot, "epilogue")
        return steady, carried

    def _number(self, emitter: IndexEmitter, from_end: int) -> SSAValue:
        """The number of an iteration, counted from behind the last."""
        if self.known is not None:
            return emitter.constant(self.known + from_end)
        return emitter.subtract(self.trips, emitter.constant(-from_end))

    def _steady(self, emitter: IndexEmitter, queue: list[SSAValue]) -> scf.ForOp:
        loop, ahead = self.loop, self.stages - 1
        turns = self._number(emitter, -ahead)
        end = at_iteration(loop, emitter, turns if self.known is None else self.known - ahead)
        starts = [*loop.iter_args, *queue]
        body = Block(arg_types=[INDEX, *(value.type for value in starts)])
        count, width = len(loop.iter_args), len(self.split.values)
        hints = [*(each.name_hint for each in loop.body.block.args)]
        hints += [value.name_hint for _ in range(ahead) for value in self.split.values]
        for argument, hint in zip(body.args, hints, strict=True):
            argument.name_hint = hint
        if constant_of(loop.step) is not None:
            emitter.constant((constant_of(loop.step) or 1) * ahead)
        inside = emitter.nested(body)
        variable, *carried = body.args
        waiting = carried[count:]
        number = self._iteration(inside, variable)
        later = at_iteration(loop, inside, ahead, variable)
        next_slot = inside.add(number, inside.constant(ahead)) if self.buffers else number
        loaded = self._load(inside, later, next_slot, "")
        slot = self._slot(inside, number)
        ends = self._compute(inside, variable, carried[:count], waiting[:width], slot, "")
        end_turn(body, [*ends, *waiting[width:], *loaded], loop)
        made = scf.ForOp(loop.lb, end, loop.step, starts, Region(body))
        made.location = loop.location
        made.attributes = {**loop.attributes, STAGE: StringAttr("steady state")}
        emitter.builder.insert(made)
        return made

    def _iteration(self, emitter: IndexEmitter, variable: SSAValue) -> SSAValue:
        """Which iteration a variable belongs to; only where buffers are used in turn."""
        if not self.buffers:
            return variable
        distance = variable
        if constant_of(self.loop.lb) != 0:
            distance = emitter.binary(arith.SubiOp, variable, self.loop.lb)
        if constant_of(self.loop.step) == 1:
            return distance
        return emitter.binary(arith.DivUIOp, distance, self.loop.step)

    def _slot(self, emitter: IndexEmitter, number: SSAValue) -> SSAValue:
        """The copy of each buffer that an iteration uses."""
        if not self.buffers:
            return number
        known = emitter.constant_of(number)
        if known is not None:
            return emitter.constant(known % self.stages)
        return emitter.binary(arith.RemUIOp, number, emitter.constant(self.stages))

    def _copies_of(self, op: Operation, emitter: IndexEmitter) -> SSAValue:
        """As many copies of a buffer as there are stages, in front of the loop."""
        assert isinstance(op, memref.AllocOp | memref.AllocaOp)
        type_ = op.memref.type
        if not isinstance(type_.layout, NoneAttr):
            raise CannotExpand("a buffer of its body has a layout that copies cannot follow")
        shape = [self.stages, *type_.get_shape()]
        grown = MemRefType(type_.element_type, shape, type_.layout, type_.memory_space)
        made = (
            memref.AllocOp([], [], grown)
            if isinstance(op, memref.AllocOp)
            else memref.AllocaOp.build(
                operands=[[], []], result_types=[grown], properties=dict(op.properties)
            )
        )
        made.memref.name_hint = op.memref.name_hint
        return emitter.emit(made)

    def _load(
        self, emitter: IndexEmitter, variable: SSAValue, number: SSAValue, stage: str
    ) -> list[SSAValue]:
        values: Values = {self.loop.body.block.args[0]: variable, **self.buffers}
        self._copy(self.split.load, emitter, values, self._slot(emitter, number), stage)
        return [values[value] for value in self.split.values]

    def _compute(
        self,
        emitter: IndexEmitter,
        variable: SSAValue,
        carried: Sequence[SSAValue],
        loaded: Sequence[SSAValue],
        slot: SSAValue,
        stage: str,
    ) -> list[SSAValue]:
        block = self.loop.body.block
        values: Values = dict(zip(block.args, [variable, *carried], strict=True))
        values |= dict(zip(self.split.values, loaded, strict=True)) | self.buffers
        self._copy(self.split.compute, emitter, values, slot, stage)
        last = block.last_op
        return [values.get(value, value) for value in (last.operands if last is not None else ())]

    def _copy(
        self,
        ops: Sequence[Operation],
        emitter: IndexEmitter,
        values: Values,
        slot: SSAValue,
        stage: str,
    ) -> None:
        """Write ops once more; accesses of buffers go to their copy of that number."""
        own = set(self.buffers.values())
        for op in ops:
            made = op.clone(values)
            for each in made.walk():
                array = array_of(each)
                if array is not None and array in own:
                    place = list(each.operands).index(array) + 1
                    each.operands = [*each.operands[:place], slot, *each.operands[place:]]
            if stage and not (op.results and op.results[0].type == INDEX):
                made.attributes[STAGE] = StringAttr(stage)
            emitter.builder.insert(made)

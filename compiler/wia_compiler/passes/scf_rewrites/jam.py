"""Unroll and jam: iterations of an outer loop share the turns of the loops inside it."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint

from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.scf_rewrites.loops import (
    LOADS,
    CannotExpand,
    Values,
    array_of,
    end_turn,
    hoist_invariants,
    is_pure,
    memory_of,
    replace_loop,
    trip_count,
    write_turns,
    written_arrays,
)


def unroll_and_jam(loop: scf.ForOp, copies: int) -> scf.ForOp | None:
    """Run ``copies`` iterations of a loop side by side; gives the loop of turns, if any.

    ::

        scf.for %i = 0 to 64 step 1 {                    scf.for %i = 0 to 64 step 2 {
          %s = scf.for %k … iter_args(%t = 0) {            %s:2 = scf.for %k … iter_args(%t, %u) {
            yield %t + A[%i, %k] * B[%k]             →       %b = B[%k]
          }                                                  yield %t + A[%i, %k] * %b,
          C[%i] = %s                                               %u + A[%i + 1, %k] * %b }
        }                                                  C[%i] = %s#0   C[%i + 1] = %s#1
                                                         }

    What does not depend on the outer loop is computed, and read, once for all. The loop's
    iterations must be independent: the caller has proven it. A loop inside whose bounds depend on
    the outer one stays one for each iteration.
    """
    if loop.iter_args:
        raise CannotExpand("it carries a value from one iteration to the next")
    trips = trip_count(loop)
    if trips is not None:
        copies = min(copies, trips)
    if copies < 2:
        return loop
    hoist_invariants(loop)
    jam = _Jam(written_arrays(loop))

    def write(
        emitter: IndexEmitter, variables: list[SSAValue], carried: list[SSAValue]
    ) -> Sequence[SSAValue]:
        block = loop.body.block
        jam.differing = {block.args[0]}
        jam.write(block, emitter.builder, [{block.args[0]: each} for each in variables])
        return carried

    turns, _, rest = write_turns(loop, copies, (), write)
    if rest is None:
        replace_loop(loop, ())
    return turns


class _Jam:
    """Copies of a block, side by side; ``written`` are the arrays that the whole loop writes to.

    ``differing`` are the values of the block that are not the same in all copies.
    """

    def __init__(self, written: set[SSAValue]):
        self.written = written
        self.differing: set[SSAValue] = set()

    def write(self, block: Block, builder: Builder, copies: list[Values]) -> None:
        """Write the ops of a block, each for all copies before the next."""
        for op in block.ops:
            if isinstance(op, scf.YieldOp):
                return
            if isinstance(op, scf.ForOp) and not self._differ((op.lb, op.ub, op.step)):
                self._loop(op, builder, copies)
            elif self._is_shared(op):
                builder.insert(op.clone(copies[0]))
                for other in copies[1:]:
                    other |= {result: copies[0][result] for result in op.results}
            else:
                self.differing |= set(op.results)
                for each in copies:
                    builder.insert(op.clone(each))

    def _differ(self, values: Sequence[SSAValue]) -> bool:
        return any(value in self.differing for value in values)

    def _is_shared(self, op: Operation) -> bool:
        """Whether an op is the same in all copies."""
        if self._differ(op.operands):
            return False
        if is_pure(op):
            return True
        array = array_of(op) if isinstance(op, LOADS) else None
        return array is not None and memory_of(array) not in self.written

    def _loop(self, loop: scf.ForOp, builder: Builder, copies: list[Values]) -> None:
        """One loop for all copies; it carries what each of them carries."""
        hoisted = copies[0]
        starts = [each.get(value, value) for each in copies for value in loop.iter_args]
        body = Block(arg_types=[loop.lb.type, *(value.type for value in starts)])
        variable, *carried = loop.body.block.args
        body.args[0].name_hint = variable.name_hint
        for number, each in enumerate(copies):
            each[variable] = body.args[0]
            own = body.args[1 + number * len(carried) : 1 + (number + 1) * len(carried)]
            for value, argument in zip(carried, own, strict=True):
                each[value] = argument
                argument.name_hint = value.name_hint
        self.differing |= {*carried, *loop.results}
        self.write(loop.body.block, Builder(InsertPoint.at_end(body)), copies)
        last = loop.body.block.last_op
        yielded = last.operands if last is not None else ()
        end_turn(body, [each.get(value, value) for each in copies for value in yielded], loop)
        bounds = [hoisted.get(value, value) for value in (loop.lb, loop.ub, loop.step)]
        made = scf.ForOp(bounds[0], bounds[1], bounds[2], starts, Region(body))
        made.location = loop.location
        made.attributes = dict(loop.attributes)
        builder.insert(made)
        count = len(loop.results)
        for number, each in enumerate(copies):
            for position, result in enumerate(loop.results):
                each[result] = made.results[number * count + position]
                each[result].name_hint = result.name_hint

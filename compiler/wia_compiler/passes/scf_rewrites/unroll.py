"""Unrolling: several iterations of a loop, one after the other, in one turn."""

from __future__ import annotations

from xdsl.dialects import scf
from xdsl.ir import SSAValue

from wia_compiler.dialects.loop_hints import WHOLE
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.scf_rewrites.loops import (
    CannotExpand,
    Values,
    copy_body,
    hoist_invariants,
    is_buffer,
    replace_loop,
    trip_count,
    write_turns,
)


def unroll(loop: scf.ForOp, copies: int) -> scf.ForOp | None:
    """Run ``copies`` iterations in one turn (``WHOLE``: all); gives the loop of turns, if any.

    ::

        scf.for %i = 0 to 1000 step 1 { c[%i] = a[%i] + b[%i] }
          →  scf.for %i = 0 to 1000 step 4 { c[%i] = a[%i] + b[%i]   c[%i + 1] = a[%i + 1] + … }

    Iterations keep their order, so results are the same to the last bit. Where ``copies`` does not
    divide the number of iterations, a loop over those that remain follows; where that number comes
    with the data, it always does.
    """
    trips = trip_count(loop)
    if copies == WHOLE and trips is None:
        raise CannotExpand("the number of iterations is not known before the kernel runs")
    if trips is not None and (copies == WHOLE or copies > trips):
        copies = trips
    if copies == 0:
        replace_loop(loop, list(loop.iter_args))
        return None
    if copies == 1 and trips != 1:
        return loop
    hoist_invariants(loop)
    block = loop.body.block
    buffers = [op.results[0] for op in block.ops if is_buffer(op)]

    def write(
        emitter: IndexEmitter, variables: list[SSAValue], carried: list[SSAValue]
    ) -> list[SSAValue]:
        kept: Values = {}
        for variable in variables:
            values = {**kept, **dict(zip(block.args, [variable, *carried], strict=True))}
            carried = copy_body(block, emitter.builder, values)
            kept = {buffer: values[buffer] for buffer in buffers}
        return carried

    turns, ends, rest = write_turns(loop, copies, list(loop.iter_args), write)
    if rest is None:
        replace_loop(loop, ends)
    else:
        rest.operands = [*rest.operands[:3], *ends]
    return turns

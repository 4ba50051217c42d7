"""Loops that read their next tile while they compute with this one: two stages of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, gpu
from xdsl.dialects.builtin import IndexType
from xdsl.ir import SSAValue

from wia_compiler.backends.gpu.builder import Builder, shape_of
from wia_compiler.backends.gpu.index import Index, of_value
from wia_compiler.backends.gpu.leaf import Kernel
from wia_compiler.backends.gpu.tile_copy import TileCopy
from wia_compiler.dialects.loop_hints import hints_of
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.tile_rewrites import scope_of

STAGES = 2
"""What registers carry: the tile in use, and the next one. More are for asynchronous copies."""


@dataclass(frozen=True)
class PipelinedLoop:
    """A serial loop whose ``copies`` fill shared buffers that its other leaves, ``rest``, read."""

    loop: ForOp
    copies: tuple[ComputeOp, ...]
    rest: tuple[ComputeOp, ...]

    @property
    def buffers(self) -> tuple[SSAValue, ...]:
        """The shared buffers, each of which there are two of."""
        return tuple(copy.outputs[0] for copy in self.copies)


def pipelined(loop: ForOp) -> PipelinedLoop | None:
    """The parts of a loop that is noted as ``wia.pipeline = 2`` and runs more than once.

    ``None`` for any other loop. Leaves that only fill what a copy writes are left out: a copy
    writes 0 where it has nothing.
    """
    if loop.level.data != "serial" or hints_of(loop).pipeline != STAGES or loop.trip_count < 2:
        return None
    leaves = [op for op in loop.body.block.ops if isinstance(op, ComputeOp)]
    if len(leaves) != len(list(loop.body.block.ops)):
        return None
    copies = tuple(leaf for leaf in leaves if leaf.kind.data == "copy" and _fills_shared(leaf))
    filled = {copy.outputs[0] for copy in copies}
    rest = tuple(leaf for leaf in leaves if not set(leaf.outputs) & filled)
    fills = [leaf for leaf in leaves if leaf not in copies and leaf not in rest]
    if not copies or len(filled) < len(copies) or any(leaf.inputs for leaf in fills):
        return None
    return PipelinedLoop(loop, copies, rest)


def _fills_shared(leaf: ComputeOp) -> bool:
    from_memory = scope_of(leaf.inputs[0]) == ""
    return leaf.level.data == "block" and from_memory and scope_of(leaf.outputs[0]) == "shared"


def lower_pipelined(
    parts: PipelinedLoop,
    kernel: Kernel,
    leaf: Callable[[ComputeOp], None],
    *,
    changing: Sequence[SSAValue],
) -> None:
    """Emit such a loop: loads of the next tile, the leaves on this one, stores of the next one.

    ::

        for %k0 in 512 step 8               s[0] = a[0];  barrier
          s = copy a[%k0]            →      for %t in 64
          contract … s                        next = a[8 * (%t + 1)]     where %t + 1 < 64
                                              contract … s[%t mod 2]
                                              s[(%t + 1) mod 2] = next;  barrier

    One barrier a turn: who stores to a stage has passed the one after the last reads of it.
    """
    loop, builder = parts.loop, kernel.builder
    step, count = loop.step.value.data, loop.trip_count
    iv = loop.induction_variable
    kernel.ivs[iv] = Index()
    copies = [TileCopy(op, kernel) for op in parts.copies]
    for copy in copies:
        copy.put(copy.read())
    builder.add(gpu.BarrierOp())

    def turn(position: SSAValue) -> None:
        position.name_hint = iv.name_hint
        here = of_value(position, count)
        kernel.ivs[iv] = of_value(_following(builder, position, count), count) * step
        reads = [copy.read() for copy in copies]
        kernel.ivs[iv] = here * step
        _choose_stage(kernel, parts, here.modulo(STAGES))
        for op in parts.rest:
            leaf(op)
        _choose_stage(kernel, parts, (here + 1).modulo(STAGES))
        for copy, read in zip(copies, reads, strict=True):
            copy.put(read)
        builder.add(gpu.BarrierOp())

    builder.repeat(count, turn, changing=changing)
    kernel.stages.clear()


def _following(builder: Builder, position: SSAValue, count: int) -> SSAValue:
    """The turn after this one; the last one again after itself, which costs less than a branch."""
    following = builder.add(arith.AddiOp(position, builder.number(1, IndexType()))).result
    return builder.add(arith.MinSIOp(following, builder.number(count - 1, IndexType()))).result


def _choose_stage(kernel: Kernel, parts: PipelinedLoop, stage: Index) -> None:
    for buffer in parts.buffers:
        kernel.stages[buffer] = stage * shape_of(buffer)[0]

"""Attention by warpgroups with roles: one brings tiles by tensor maps, the others work on them.

Both roles walk the nest as it stands; each emits its part of it::

    for i.0 @grid                      producer                consumers, 64 rows each
      copy query_tile                    wait empty, copy        wait full (before the first use)
      for j.0
        copy key_tile                    wait empty, copy        wait full
        contract scores                                          started: wgmma from shared memory
        copy value_tile                  wait empty, copy        wait full
        map, reduce scores …                                     done; in registers, by quads
        contract sums                                            started: weights from registers
      map result                                                 done; stored

A product is waited for where its sums, or the tile it reads, are needed next; until then it runs
beside what follows it. A tile is given back behind its last use. A block takes every n-th tile of
queries where there are more than SMs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import func, gpu, memref
from xdsl.dialects.builtin import (
    IndexType,
)
from xdsl.ir import Block, SSAValue

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.hopper_consumer import Consumer
from wia_compiler.backends.gpu.hopper_lower import become_kernel, pass_maps
from wia_compiler.backends.gpu.hopper_pipes import Pipe, pipe_of
from wia_compiler.backends.gpu.hopper_roles import Producer, RoleMemory
from wia_compiler.backends.gpu.hopper_schedule import WARPGROUP_ROWS, WARPGROUP_THREADS
from wia_compiler.backends.gpu.index import of_value
from wia_compiler.backends.gpu.memory_spaces import name_memory_spaces
from wia_compiler.backends.gpu.unread import remove_unread
from wia_compiler.dialects.gpu_dynamic_shared import DynamicSharedMemoryOp
from wia_compiler.dialects.gpu_ids import ThreadIdOp
from wia_compiler.dialects.nvgpu_hopper import (
    BarrierCreateOp,
    BarrierInitOp,
    FenceBarrierInitOp,
    SetMaxRegisterOp,
)
from wia_compiler.passes.nests.written_tiles import STAGES, written_tiles
from wia_compiler.passes.tile_rewrites import leaves_of, scope_of

REGISTERS = {1: (24, 232), 2: (40, 232), 3: (32, 160)}
"""Of a thread of the producer and of each consumer, with so many consumers: all together no more
than the block was launched with, which is all of an SM's registers, or half of them with one.
"""
_X = gpu.DimensionAttr(gpu.DimensionEnum.X)


def lower_hopper_attention(nest: func.FuncOp, host: func.FuncOp) -> None:
    """Replace the body of a scheduled attention by a kernel's.

    The kernel takes the tensor maps of queries, keys and values behind the arrays of the nest.
    """
    pipes = _pipes(nest)
    _Lowering(nest, pipes).run()
    name_memory_spaces(nest)
    for call in [op for op in host.walk() if isinstance(op, func.CallOp)]:
        if call.callee.string_value() == nest.sym_name.data:
            pass_maps(call, [(pipe.source, pipe.tensor_map()) for pipe in pipes])


def _pipes(nest: func.FuncOp) -> list[Pipe]:
    """The tiles in shared memory, in the order of the nest, each behind the one before it."""
    (stages,) = written_tiles(nest, STAGES).values()
    leaves = leaves_of(nest)
    lefts = {leaf.inputs[0] for leaf in leaves if leaf.kind.data == "contract"}
    found: list[Pipe] = []
    barrier = offset = 0
    for op in nest.walk():
        if isinstance(op, memref.AllocOp) and scope_of(op.memref) == "shared":
            copies = [leaf for leaf in leaves if op.memref in leaf.outputs]
            is_left = op.memref in lefts
            made = pipe_of(op.memref, copies, 1 if is_left else stages, is_left=is_left)
            found.append(replace(made, barrier=barrier, offset=offset))
            barrier += 2 * made.stages
            offset += made.stages * made.stage_bytes
    return found


class _Lowering:
    def __init__(self, nest: func.FuncOp, pipes: Sequence[Pipe]):
        self.nest, self.pipes, self.old = nest, pipes, nest.body.block
        self.groups = written_tiles(nest)["query"] // WARPGROUP_ROWS
        self.threads = WARPGROUP_THREADS * (self.groups + 1)

    def run(self) -> None:
        old, pipes = self.old, self.pipes
        new = Block(arg_types=[*old.arg_types, *(pipe.tensor_map() for pipe in pipes)])
        for before, after in zip(old.args, new.args, strict=False):
            after.name_hint = before.name_hint
        maps = new.args[len(old.args) :]
        for pipe, argument in zip(pipes, maps, strict=True):
            argument.name_hint = f"{pipe.buffer.name_hint}_map"
        builder = self.builder = Builder(new, self.nest.location)
        thread = builder.add(ThreadIdOp(_X)).result
        thread.name_hint = "thread"
        self.thread = of_value(thread, self.threads)
        count = sum(2 * pipe.stages for pipe in pipes)
        barriers = builder.add(BarrierCreateOp(count)).barriers
        memory = builder.add(DynamicSharedMemoryOp()).memory
        self._initialise(barriers)
        consumers = WARPGROUP_THREADS * self.groups
        shared = RoleMemory(builder, barriers, memory, pipes, dict(zip(pipes, maps, strict=True)))
        values: dict[SSAValue, SSAValue] = dict(zip(old.args, new.args, strict=False))
        producer = Producer(self.nest, shared, self.thread + -consumers, WARPGROUP_THREADS, values)
        consumer = Consumer(self.nest, shared, of_value(thread, consumers), consumers, values)
        of_producer, of_consumer = REGISTERS[self.groups]

        def consume() -> Sequence[SSAValue]:
            builder.add(SetMaxRegisterOp(of_consumer))
            consumer.run()
            return ()

        def produce() -> Sequence[SSAValue]:
            builder.add(SetMaxRegisterOp(of_producer, decrease=True))
            producer.run()
            return ()

        is_consumer = builder.within(self.thread, consumers)
        assert is_consumer is not None
        builder.either(is_consumer, consume, produce)
        builder.add(func.ReturnOp())
        remove_unread(new)
        self._replace(new)

    def _initialise(self, barriers: SSAValue) -> None:
        """Full stages are announced by one thread, empty ones by one of each consumer's warps."""
        builder = self.builder
        warps = WARPGROUP_THREADS * self.groups // WARP_SIZE

        def initialise() -> None:
            for pipe in self.pipes:
                for stage in range(2 * pipe.stages):
                    arrivals = 1 if stage < pipe.stages else warps
                    number = builder.number(pipe.barrier + stage, IndexType())
                    count = builder.number(arrivals, IndexType())
                    builder.add(BarrierInitOp(barriers, number, count))
            builder.add(FenceBarrierInitOp())

        builder.when(builder.within(self.thread, 1), initialise)
        builder.add(gpu.BarrierOp())

    def _replace(self, new: Block) -> None:
        size = sum(pipe.stages * pipe.stage_bytes for pipe in self.pipes)
        become_kernel(self.nest, new, threads=self.threads, shared_bytes=size)

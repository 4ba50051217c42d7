"""Clusters: their barrier, ``mapa`` and ``getctarank``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wia_compiler.simulators.ptx.clusters import OFFSET_MASK, RANK_SHIFT
from wia_compiler.simulators.ptx.decode_mbarrier import PhaseWait, phase_wait
from wia_compiler.simulators.ptx.decode_memory import space_of
from wia_compiler.simulators.ptx.machine import Machine, Offsets, Step
from wia_compiler.simulators.ptx.memory import SHARED_WINDOW, WINDOW_BYTES
from wia_compiler.simulators.ptx.operands import Scope, reader, writer
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import Mask
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

_WORDS = frozenset({"cluster", "arrive", "wait", "aligned", "release", "acquire", "relaxed"})


@dataclass(frozen=True)
class ClusterWait:
    """A wait for all threads of a cluster, for the scheduler."""

    instruction: Instruction

    def incomplete(self, machine: Machine, mask: Mask) -> Mask:
        """Threads of a mask that must wait."""
        return machine.cluster.incomplete(mask)

    def what(self, machine: Machine, thread: int) -> str:
        """What a thread waits for, in words."""
        return "barrier.cluster.arrive of threads of its cluster that wait elsewhere"

    def told(self, machine: Machine, instruction: Instruction, lanes: Offsets) -> list[str]:
        """How many threads wait."""
        return [f"in line {instruction.span.line} {len(lanes)} threads wait for their cluster"]


def wait_of(form: Form, scope: Scope) -> PhaseWait | ClusterWait:
    """The wait that an instruction is."""
    if form.instruction.opcode == "mbarrier":
        return phase_wait(form, scope)
    return ClusterWait(form.instruction)


def decode_cluster_barrier(form: Form) -> Step:
    """``barrier.cluster.arrive`` and ``barrier.cluster.wait``."""
    instruction = form.instruction
    for word in sorted(form.flags - _WORDS):
        raise UnknownForm(f"{instruction.name}: .{word}")
    waits = "wait" in form.flags

    def step(machine: Machine) -> None:
        mask = machine.threads.mask
        wrong = machine.cluster.wait(mask) if waits else machine.cluster.arrive(mask)
        if wrong.any():
            name = machine.thread_name(int(np.argmax(wrong)))
            what = "waits for its cluster without" if waits else "arrives again without a wait"
            machine.fault(
                instruction,
                f"{name} {what} {'an arrival' if waits else 'since its last arrival'}",
                "every thread arrives, then waits, in turn",
            )
        if waits and machine.checks is not None:
            machine.checks.order.barrier(mask)

    return step


def decode_map(form: Form, scope: Scope) -> Step:
    """``mapa``: the address of the same place in the shared memory of a block of the cluster."""
    instruction, type = form.instruction, form.type
    generic = space_of(form) == "generic"
    find = reader(instruction.operands[1], type, scope)
    rank = reader(instruction.operands[2], TYPES["u32"], scope)
    put = writer(instruction.operands[0], type, scope)

    def step(machine: Machine) -> None:
        threads, blocks = machine.threads, machine.cluster_blocks
        count = threads.count
        asked = np.broadcast_to(rank(threads), (count,)).astype(np.int64)
        others = threads.mask & (asked >= blocks)
        if others.any():
            at = int(np.argmax(others))
            machine.fault(
                instruction,
                f"{machine.thread_name(at)} asks for block {asked[at]} of a cluster of "
                f"{'one block' if blocks == 1 else f'{blocks} blocks'}",
                "ranks are 0 to %cluster_nctarank - 1; run takes cluster=",
            )
        value = np.broadcast_to(find(threads), (count,)).astype(np.uint64)
        start = np.uint64(SHARED_WINDOW if generic else 0)
        outside = threads.mask & (
            value // np.uint64(WINDOW_BYTES) != start // np.uint64(WINDOW_BYTES)
        )
        if outside.any():
            name = machine.thread_name(int(np.argmax(outside)))
            machine.fault(instruction, f"mapa of an address that is not shared, in {name}")
        own = threads.block_of % blocks == asked
        code = np.where(own, 0, asked + 1).astype(np.uint64) << np.uint64(RANK_SHIFT)
        put(threads, (start | code | (value & np.uint64(OFFSET_MASK))).astype(type.value))

    return step


def decode_rank(form: Form, scope: Scope) -> Step:
    """``getctarank``: which block of the cluster an address lies in."""
    instruction = form.instruction
    read = reader(instruction.operands[1], form.type, scope)
    put = writer(instruction.operands[0], TYPES["u32"], scope)

    def step(machine: Machine) -> None:
        threads, blocks = machine.threads, machine.cluster_blocks
        value = np.broadcast_to(read(threads), (threads.count,)).astype(np.int64)
        code = (value & (WINDOW_BYTES - 1)) >> RANK_SHIFT
        put(threads, np.where(code == 0, threads.block_of % blocks, code - 1).astype(np.uint32))

    return step

"""Clusters, of which each is one block here: their barrier, ``mapa`` and ``getctarank``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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
    """``mapa``: the address of the same place in a block of the cluster, which has one block."""
    instruction, type = form.instruction, form.type
    generic = space_of(form) == "generic"
    find = reader(instruction.operands[1], type, scope)
    rank = reader(instruction.operands[2], TYPES["u32"], scope)
    put = writer(instruction.operands[0], type, scope)

    def step(machine: Machine) -> None:
        threads = machine.threads
        count = threads.count
        others = threads.mask & (np.broadcast_to(rank(threads), (count,)) != 0)
        if others.any():
            at = int(np.argmax(others))
            asked = int(np.broadcast_to(rank(threads), (count,))[at])
            machine.fault(
                instruction,
                f"{machine.thread_name(at)} asks for block {asked} of a cluster of one block",
                "clusters of several blocks are not simulated",
            )
        value = find(threads)
        if generic:
            outside = threads.mask & (
                np.broadcast_to(value, (count,)).astype(np.uint64) // np.uint64(WINDOW_BYTES)
                != SHARED_WINDOW // WINDOW_BYTES
            )
            if outside.any():
                name = machine.thread_name(int(np.argmax(outside)))
                machine.fault(instruction, f"mapa of an address that is not shared, in {name}")
        put(threads, value)

    return step


def decode_rank(form: Form, scope: Scope) -> Step:
    """``getctarank``: which block of the cluster an address lies in, of which there is one."""
    put = writer(form.instruction.operands[0], TYPES["u32"], scope)
    return lambda machine: put(machine.threads, np.zeros((), np.uint32))

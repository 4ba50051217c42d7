"""Which threads run next: the warp's lowest rank first, barriers, and threads that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from wia_compiler.base.errors import Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.barrier_checks import (
    check_whole_warps,
    left_out,
    tell_left_out,
)
from wia_compiler.simulators.ptx.counted import Executed
from wia_compiler.simulators.ptx.decode import Decoded
from wia_compiler.simulators.ptx.faults import PtxFault
from wia_compiler.simulators.ptx.graph import WHOLE_WARP, BasicBlock, gathers, waits_for_block
from wia_compiler.simulators.ptx.machine import Machine
from wia_compiler.simulators.ptx.operands import Read, Scope, reader
from wia_compiler.simulators.ptx.syntax import Immediate, Instruction, Register
from wia_compiler.simulators.ptx.threads import WARP, Array, Mask
from wia_compiler.simulators.ptx.types import TYPES

_DONE = np.iinfo(np.int32).max
_U32, _PREDICATE = TYPES["u32"], TYPES["pred"]


class OutOfPatience(Exception):
    """The launch takes longer than it was to take on this engine."""


_WARPS_PER_SECOND = 3e6
_STEP_SECONDS = 1e-5
"""What numpy takes for an instruction: of each warp, and in any case."""


class Scheduler:
    """Runs the blocks of an entry for all threads of a machine, warps in step.

    Of all threads that are not waiting, those at the lowest rank run. For each warp that is its own
    lowest rank, so that warps behave as if each was alone.
    """

    def __init__(
        self,
        blocks: Sequence[BasicBlock],
        code: Sequence[Decoded],
        scope: Scope,
        source: Source,
        budget: int | None = None,
        patience: float | None = None,
    ):
        self.patience = patience
        self.blocks = blocks
        self.code = code
        self.source = source
        self.budget = budget
        self._by_rank = {block.rank: number for number, block in enumerate(blocks)}
        self._predicates: dict[int, Read] = {}
        self._members: dict[int, Read] = {}
        self._targets: dict[int, Read] = {}
        for number, decoded in enumerate(code):
            instruction = decoded.instruction
            if instruction.predicate is not None:
                self._predicates[number] = reader(instruction.predicate, _PREDICATE, scope)
            if gathers(instruction):
                self._members[number] = reader(members_of(instruction), _U32, scope)
            if instruction.opcode == "brx":
                self._targets[number] = reader(instruction.operands[0], _U32, scope)

    def run(self, machine: Machine, executed: Executed) -> None:
        """Run every thread of the machine to its end."""
        threads = machine.threads
        place = np.where(threads.exists, np.int32(self.blocks[0].rank), np.int32(_DONE))
        waiting = np.zeros(threads.count, bool)
        barrier = np.full(threads.count, -1)
        while True:
            ready = ~waiting & (place != _DONE)
            if not ready.any():
                if (place == _DONE).all():
                    return
                self._release(machine, place, waiting, barrier)
                continue
            rank = int(place[ready].min())
            active = ready & (place == rank)
            block = self.blocks[self._by_rank[rank]]
            active = self._gathered(machine, block, active, place, waiting)
            if not active.any():
                continue
            self._run_block(machine, block, active, place, waiting, barrier, executed)
            # Whoever waits for lanes of its own warp looks again after every step.
            waiting &= barrier >= 0

    def _gathered(
        self, machine: Machine, block: BasicBlock, active: Mask, place: Array, waiting: Mask
    ) -> Mask:
        """Threads that all lanes of their member mask have joined; the others wait."""
        read = self._members.get(block.start)
        if read is None:
            return active
        threads = machine.threads
        members = np.broadcast_to(read(threads), (threads.count,)).reshape(-1, WARP)
        alive = (place != _DONE).reshape(-1, WARP)
        rows = active.reshape(-1, WARP)
        bits = (np.uint32(1) << np.arange(WARP, dtype=np.uint32)).astype(np.uint32)
        wanted = ((members * rows)[:, :, None] & bits) != 0
        missing = (wanted & (alive & ~rows)[:, None, :]).any(axis=2) & rows
        if not missing.any():
            return active
        waits = missing.reshape(-1)
        if not (~waiting & ~waits & (place != _DONE)).any():
            self._stuck(machine, block, waits)
        waiting |= waits
        return active & ~waits

    def _run_block(
        self, machine: Machine, block: BasicBlock, active: Mask, place: Array, waiting: Mask,
        barrier: Array, executed: Executed,
    ) -> None:  # fmt: skip
        threads = machine.threads
        number = self._by_rank[block.rank]
        warps = int(threads.warps(active).any(axis=1).sum())
        executed.warps[number] += warps
        executed.threads[number] += int(active.sum())
        self._spend(machine, block, warps * (block.stop - block.start))
        full = bool(active.all())
        for at in range(block.start, block.stop):
            decoded = self.code[at]
            threads.mask, threads.is_full = active, full
            predicate = self._predicates.get(at)
            if predicate is not None:
                holds = active & predicate(threads)
                executed.predicated[at] = executed.predicated.get(at, 0) + int(holds.sum())
                threads.mask, threads.is_full = holds, bool(holds.all())
            if decoded.step is not None:
                if threads.is_full or threads.mask.any():
                    if machine.product_checks is not None:
                        machine.product_checks.executes(machine, at)
                    decoded.step(machine)
                continue
            if self._leave(machine, at, block, active, place, waiting, barrier, executed):
                return
        place[active] = self._rank_after(block)

    def _rank_after(self, block: BasicBlock) -> int:
        return self.blocks[block.successors[-1]].rank if block.successors else _DONE

    def _leave(
        self, machine: Machine, at: int, block: BasicBlock, active: Mask, place: Array,
        waiting: Mask, barrier: Array, executed: Executed,
    ) -> bool:  # fmt: skip
        """The end of a block: where its threads go. ``False`` for what is no end after all."""
        threads, instruction = machine.threads, self.code[at].instruction
        taken = threads.mask
        ranks = [self.blocks[each].rank for each in block.successors]
        if waits_for_block(instruction):
            place[active] = self._rank_after(block)
            if "arrive" in instruction.modifiers:
                machine.fault(instruction, "bar.arrive is not simulated", "use bar.sync")
            self._wait(machine, instruction, taken, waiting, barrier)
            if machine.checks is not None and taken.any():
                check_whole_warps(machine.checks, instruction, at, taken, place != _DONE)
            return True
        match instruction.opcode:
            case "bra":
                _count_branch(at, active, taken, executed)
                place[taken] = ranks[0]
                place[active & ~taken] = ranks[-1]
            case "brx":
                index = np.broadcast_to(self._targets[at](threads), taken.shape)
                place[taken] = np.array(ranks, np.int32)[index[taken]]
            case "trap":
                if taken.any():
                    name = machine.thread_name(int(np.argmax(taken)))
                    machine.fault(instruction, f"trap, executed by {name}")
                place[active] = self._rank_after(block)
            case _:
                place[taken] = _DONE
                place[active & ~taken] = self._rank_after(block)
        return True

    def _wait(
        self, machine: Machine, instruction: Instruction, taken: Mask, waiting: Mask, barrier: Array
    ) -> None:
        """Threads come to a barrier of their block; one that all have come to opens."""
        number = instruction.operands[0] if instruction.operands else Immediate(0)
        if not isinstance(number, Immediate) or len(instruction.operands) > 1:
            machine.fault(
                instruction,
                "only barriers of all threads, with a number of the text, are simulated",
            )
        waiting |= taken
        barrier[taken] = int(number.value)

    def _opened(self, machine: Machine, free: Mask, place: Array) -> None:
        """Tell the checks of a barrier that opens."""
        if machine.checks is None:
            return
        short = left_out(machine.threads, free, place != _DONE)
        if short.any():
            at = self._barrier_before(int(place[np.argmax(short)]))
            tell_left_out(machine.checks, self.code[at].instruction, at, short)
        machine.checks.order.barrier(free)

    def _barrier_before(self, rank: int) -> int:
        """The instruction that threads of a rank wait at: the last of the block before theirs."""
        return max(self.blocks[self._by_rank[rank]].start - 1, 0)

    def _release(self, machine: Machine, place: Array, waiting: Mask, barrier: Array) -> None:
        """Open the barriers at which all living threads of a block wait; a deadlock otherwise."""
        threads = machine.threads
        block_of = threads.block_of
        count = int(block_of[-1]) + 1
        alive = place != _DONE
        living = np.bincount(block_of[alive], minlength=count)
        opened = False
        for number in np.unique(barrier[waiting & (barrier >= 0)]):
            here = barrier == number
            complete = np.bincount(block_of[here], minlength=count) == living
            free = here & complete[block_of]
            if free.any():
                self._opened(machine, free, place)
                waiting[free] = False
                barrier[free] = -1
                opened = True
        if not opened:
            self._deadlock(machine, place, barrier)

    def _deadlock(self, machine: Machine, place: Array, barrier: Array) -> NoReturn:
        stuck = np.flatnonzero((place != _DONE) & (barrier >= 0))
        first = int(stuck[0])
        instruction = self.code[self._barrier_before(int(place[first]))].instruction
        machine.fault(
            instruction,
            f"deadlock: {machine.thread_name(first)} waits at barrier {int(barrier[first])} for "
            "threads of its block that wait elsewhere",
            "every thread of a block must come to the same barrier",
        )

    def _stuck(self, machine: Machine, block: BasicBlock, waits: Mask) -> NoReturn:
        name = machine.thread_name(int(np.argmax(waits)))
        machine.fault(
            self.code[block.start].instruction,
            f"deadlock: {name} waits for lanes of its member mask that do not come here",
            "name the lanes that execute it, or let all lanes execute it",
        )

    def _spend(self, machine: Machine, block: BasicBlock, count: int) -> None:
        if self.patience is not None:
            length = block.stop - block.start
            self.patience -= count / _WARPS_PER_SECOND + length * _STEP_SECONDS
            if self.patience < 0:
                raise OutOfPatience
        if self.budget is None:
            return
        self.budget -= count
        if self.budget < 0:
            raise PtxFault(spent_budget(self.code[block.start].instruction, self.source))


def spent_budget(instruction: Instruction, source: Source) -> Diagnostic:
    """What is said of a launch that was stopped at an instruction."""
    return Diagnostic(
        "the launch ran more instructions than its budget allows",
        instruction.span,
        "pass a larger budget=, or None for a kernel that does end",
        source,
    )


def members_of(instruction: Instruction) -> Register | Immediate:
    """The operand that names the lanes; instructions without one are for all of the warp."""
    last = instruction.operands[-1] if instruction.operands else None
    if isinstance(last, Register | Immediate) and instruction.opcode not in WHOLE_WARP:
        return last
    return Immediate(0xFFFFFFFF)


def _count_branch(at: int, active: Mask, taken: Mask, executed: Executed) -> None:
    rows, some = active.reshape(-1, WARP), taken.reshape(-1, WARP)
    parted = some.any(axis=1) & (rows & ~some).any(axis=1)
    executed.branches[at] = executed.branches.get(at, 0) + int(rows.any(axis=1).sum())
    executed.divergent[at] = executed.divergent.get(at, 0) + int(parted.sum())

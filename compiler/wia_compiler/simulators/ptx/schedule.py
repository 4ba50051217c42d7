"""Which threads run next: the warp's lowest rank first, barriers, and threads that wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from wia_compiler.base.errors import Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.barrier_checks import check_whole_warps
from wia_compiler.simulators.ptx.counted import Executed
from wia_compiler.simulators.ptx.decode import Decoded
from wia_compiler.simulators.ptx.decode_cluster import ClusterWait, wait_of
from wia_compiler.simulators.ptx.decode_mbarrier import PhaseWait
from wia_compiler.simulators.ptx.faults import PtxFault
from wia_compiler.simulators.ptx.graph import (
    WHOLE_WARP,
    BasicBlock,
    gathers,
    waits_for_block,
    waits_for_phase,
)
from wia_compiler.simulators.ptx.machine import Machine
from wia_compiler.simulators.ptx.named_barriers import NamedBarriers
from wia_compiler.simulators.ptx.operands import Read, Scope, reader
from wia_compiler.simulators.ptx.progress import DONE, MOST_STALLS, NO_BARRIER, Progress
from wia_compiler.simulators.ptx.syntax import Immediate, Instruction, Register
from wia_compiler.simulators.ptx.threads import WARP, Array, Mask
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form

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
        self._waits: dict[int, PhaseWait | ClusterWait] = {}
        self.named = NamedBarriers(code, scope)
        for number, decoded in enumerate(code):
            instruction = decoded.instruction
            if instruction.predicate is not None:
                self._predicates[number] = reader(instruction.predicate, _PREDICATE, scope)
            if gathers(instruction):
                self._members[number] = reader(members_of(instruction), _U32, scope)
            if waits_for_phase(instruction):
                self._waits[number] = wait_of(Form(instruction), scope)
            if instruction.opcode == "brx":
                self._targets[number] = reader(instruction.operands[0], _U32, scope)
        timed = [
            block.rank for block in blocks if isinstance(self._waits.get(block.start), PhaseWait)
        ]
        self._timed_ranks = np.array(timed, np.int32)

    def run(self, machine: Machine, executed: Executed) -> None:
        """Run every thread of the machine to its end."""
        progress = Progress.of(machine.threads, self.blocks[0].rank)
        self.named.begin(machine, progress)
        changes = -1
        stalls = 0
        while True:
            ready = progress.ready
            if not ready.any():
                if not progress.alive.any():
                    return
                stalls = self._stalled(machine, progress, stalls)
                continue
            rank = int(progress.place[ready].min())
            block = self.blocks[self._by_rank[rank]]
            active = self._gathered(machine, block, ready & (progress.place == rank), progress)
            active = self._awaited(machine, block, active, progress)
            if not active.any():
                continue
            self._run_block(machine, block, active, progress, executed)
            # Whoever waits for lanes of its own warp looks again after every step.
            progress.gathering[...] = False
            if machine.changes != changes:
                changes, stalls = machine.changes, 0
                progress.wake()

    def _gathered(
        self, machine: Machine, block: BasicBlock, active: Mask, progress: Progress
    ) -> Mask:
        """Threads that all lanes of their member mask have joined; the others wait."""
        read = self._members.get(block.start)
        if read is None:
            return active
        threads = machine.threads
        members = np.broadcast_to(read(threads), (threads.count,)).reshape(-1, WARP)
        alive = progress.alive.reshape(-1, WARP)
        rows = active.reshape(-1, WARP)
        bits = (np.uint32(1) << np.arange(WARP, dtype=np.uint32)).astype(np.uint32)
        wanted = ((members * rows)[:, :, None] & bits) != 0
        missing = (wanted & (alive & ~rows)[:, None, :]).any(axis=2) & rows
        if not missing.any():
            return active
        waits = missing.reshape(-1)
        progress.gathering |= waits
        return active & ~waits

    def _awaited(
        self, machine: Machine, block: BasicBlock, active: Mask, progress: Progress
    ) -> Mask:
        """Threads that wait for nothing, or whose wait is over; the others fall asleep."""
        wait = self._waits.get(block.start)
        if wait is None or not active.any():
            return active
        asked = active & ~progress.expired
        predicate = self._predicates.get(block.start)
        if predicate is not None:
            asked &= predicate(machine.threads)
        if not asked.any():
            return active
        sleeps = wait.incomplete(machine, asked)
        progress.asleep |= sleeps
        return active & ~sleeps

    def _stalled(self, machine: Machine, progress: Progress, stalls: int) -> int:
        """No thread can go on: open a barrier, let lanes pass by those of their warp that sleep, or
        let waits for a phase end without it.

        ``stalls`` is how often that was in a row, without a change of any mbarrier; a new count.
        """
        opened = self.named.open_complete()
        if machine.cluster.complete(progress.alive) or opened:
            progress.wake()
            return 0
        held = progress.held
        if held.any():
            progress.loose |= held
            return stalls
        asleep = progress.asleep & progress.alive
        timed = asleep & np.isin(progress.place, self._timed_ranks)
        if not timed.any() or stalls >= MOST_STALLS:
            self._deadlock(machine, progress)
        progress.expired |= timed
        progress.wake()
        return stalls + 1

    def _run_block(
        self, machine: Machine, block: BasicBlock, active: Mask, progress: Progress,
        executed: Executed,
    ) -> None:  # fmt: skip
        threads = machine.threads
        progress.expired &= ~active
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
            if self._leave(machine, at, block, active, progress, executed):
                return
        progress.place[active] = self._rank_after(block)

    def _rank_after(self, block: BasicBlock) -> int:
        return self.blocks[block.successors[-1]].rank if block.successors else DONE

    def _leave(
        self, machine: Machine, at: int, block: BasicBlock, active: Mask, progress: Progress,
        executed: Executed,
    ) -> bool:  # fmt: skip
        """The end of a block: where its threads go. ``False`` for what is no end after all."""
        threads, instruction, place = machine.threads, self.code[at].instruction, progress.place
        taken = threads.mask
        ranks = [self.blocks[each].rank for each in block.successors]
        if waits_for_block(instruction):
            if machine.checks is not None and taken.any():
                check_whole_warps(machine.checks, instruction, at, taken, progress.alive)
            place[active] = self._rank_after(block)
            self.named.come(at, taken)
            return True
        match instruction.opcode:
            case "bra":
                _count_branch(at, active, taken, executed)
                place[taken] = ranks[0]
                place[active & ~taken] = ranks[-1]
            case "brx":
                self._branch_by_index(machine, at, block, active, executed, place)
            case "trap":
                if taken.any():
                    name = machine.thread_name(int(np.argmax(taken)))
                    machine.fault(instruction, f"trap, executed by {name}")
                place[active] = self._rank_after(block)
            case _:
                place[taken] = DONE
                place[active & ~taken] = self._rank_after(block)
        return True

    def _branch_by_index(
        self, machine: Machine, at: int, block: BasicBlock, active: Mask, executed: Executed,
        place: Array,
    ) -> None:  # fmt: skip
        """``brx.idx``: each thread to the label that its index is the number of."""
        threads, instruction, taken = (
            machine.threads,
            self.code[at].instruction,
            machine.threads.mask,
        )
        ranks = [self.blocks[each].rank for each in block.successors]
        ways = ranks[:-1] if instruction.predicate is not None else ranks
        index = np.broadcast_to(self._targets[at](threads), taken.shape)
        outside = taken & (index >= len(ways))
        if outside.any():
            name, first = machine.thread_name(int(np.argmax(outside))), int(np.argmax(outside))
            machine.fault(instruction, f"index {index[first]} of {len(ways)} labels, in {name}")
        place[active] = ranks[-1]
        place[taken] = np.array(ways, np.int32)[index[taken]]
        goes = np.where(active, place, -1).reshape(-1, WARP)
        rows = active.reshape(-1, WARP)
        parted = goes.max(axis=1) != np.where(rows, goes, np.iinfo(np.int32).max).min(axis=1)
        runs = rows.any(axis=1)
        executed.branches[at] = executed.branches.get(at, 0) + int(runs.sum())
        executed.divergent[at] = executed.divergent.get(at, 0) + int((parted & runs).sum())

    def _deadlock(self, machine: Machine, progress: Progress) -> NoReturn:
        """Say of the first threads that cannot go on what they wait for."""
        asleep = np.flatnonzero(progress.asleep & progress.alive)
        if len(asleep):
            self._waits_forever(machine, progress, asleep)
        gathering = np.flatnonzero(progress.gathering & progress.alive)
        if len(gathering):
            block = self.blocks[self._by_rank[int(progress.place[gathering[0]])]]
            machine.fault(
                self.code[block.start].instruction,
                f"deadlock: {machine.thread_name(int(gathering[0]))} waits for lanes of its "
                "member mask that do not come here",
                "name the lanes that execute it, or let all lanes execute it",
            )
        first = int(np.flatnonzero(progress.alive & (progress.barrier != NO_BARRIER))[0])
        number = int(progress.barrier[first])
        machine.fault(
            self.named.waits_at(first),
            f"deadlock: {machine.thread_name(first)} waits at barrier {number} for "
            f"{self.named.arrived(first, number)}",
            "every thread of a block must come to the same barrier",
        )

    def _waits_forever(self, machine: Machine, progress: Progress, asleep: Array) -> NoReturn:
        """A phase that never comes, with all that wait for it and for the others."""
        first = int(asleep[0])
        at = self.blocks[self._by_rank[int(progress.place[first])]].start
        wait = self._waits[at]
        others: list[str] = []
        for place in np.unique(progress.place[asleep]):
            number = self.blocks[self._by_rank[int(place)]].start
            lanes = asleep[progress.place[asleep] == place]
            others += self._waits[number].told(machine, self.code[number].instruction, lanes)
        machine.fault(
            self.code[at].instruction,
            f"deadlock: {machine.thread_name(first)} waits for {wait.what(machine, first)}",
            "; ".join(others),
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

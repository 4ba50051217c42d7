"""The sixteen barriers of each block: ``bar.sync``, ``bar.arrive``, ``bar.red`` and ``barrier``.

A barrier without a count is for all threads of the block that have not ended, and opens once none
of them can go on; one with a count opens when so many threads have come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from wia_compiler.simulators.ptx.barrier_checks import left_out, tell_left_out
from wia_compiler.simulators.ptx.decode import Decoded
from wia_compiler.simulators.ptx.machine import Machine
from wia_compiler.simulators.ptx.operands import Read, Scope, Write, reader, writer
from wia_compiler.simulators.ptx.progress import NO_BARRIER, Progress
from wia_compiler.simulators.ptx.syntax import Immediate, Instruction, Operand, Register
from wia_compiler.simulators.ptx.threads import WARP, Array, Mask
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

BARRIER_COUNT = 16
_U32, _PREDICATE = TYPES["u32"], TYPES["pred"]
_WORDS = frozenset({"cta", "sync", "arrive", "red", "popc", "and", "or", "aligned"})


@dataclass(frozen=True)
class BlockBarrier:
    """The parts of a barrier instruction: its number, its count, what ``red`` folds and where to.

    ``fold`` is ``popc``, ``and``, ``or``, or nothing.
    """

    action: Literal["sync", "arrive", "red"]
    number: Operand
    count: Operand | None
    result: Operand | None = None
    asked: Operand | None = None
    fold: str = ""


def block_barrier(form: Form) -> BlockBarrier:
    """The parts of ``bar…`` and ``barrier…``; ``UnknownForm`` where one is not known."""
    instruction = form.instruction
    for word in sorted(form.flags - _WORDS):
        raise UnknownForm(f"{instruction.name}: .{word}")
    operands = list(instruction.operands)
    if "red" in form.flags:
        fold = form.one_of(("popc", "and", "or"))
        if not fold or len(operands) not in (3, 4):
            raise UnknownForm(instruction.name)
        result, number, *count, asked = operands
        return BlockBarrier("red", number, count[0] if count else None, result, asked, fold)
    number = operands[0] if operands else Immediate(0)
    count = operands[1] if len(operands) > 1 else None
    if "arrive" in form.flags:
        if count is None:
            raise UnknownForm(f"{instruction.name} without a count")
        return BlockBarrier("arrive", number, count)
    if len(operands) > 2 or ("sync" not in form.flags and instruction.opcode != "bar"):
        raise UnknownForm(instruction.name)
    return BlockBarrier("sync", number, count)


@dataclass(frozen=True)
class _Reads:
    """What reads the operands of a barrier instruction, and takes its result."""

    parts: BlockBarrier
    number: Read
    count: Read | None
    asked: Read | None
    put: Write


@dataclass
class _Opening:
    """A barrier with a count: how many it waits for and how many came; who came first."""

    expected: int
    arrived: int
    instruction: Instruction
    action: str


class NamedBarriers:
    """The barriers of the blocks of a machine."""

    def __init__(self, code: Sequence[Decoded], scope: Scope):
        self._code = code
        self._reads: dict[int, _Reads] = {}
        for at, each in enumerate(code):
            if each.step is None and each.instruction.opcode in ("bar", "barrier"):
                self._reads[at] = _reads(Form(each.instruction), scope)

    def begin(self, machine: Machine, progress: Progress) -> None:
        """Go on to other blocks."""
        self._machine = machine
        self._progress = progress
        self._openings: dict[tuple[int, int], _Opening] = {}
        self._at = np.zeros(machine.threads.count, np.int64)
        self._asked = np.zeros(machine.threads.count, bool)

    def come(self, at: int, taken: Mask) -> None:
        """Threads execute a barrier instruction; whoever waits is noted in the progress."""
        if not taken.any():
            return
        threads, reads = self._machine.threads, self._reads[at]
        instruction = self._code[at].instruction
        numbers = np.broadcast_to(reads.number(threads), (threads.count,)).astype(np.int64)
        wrong = taken & (numbers >= BARRIER_COUNT)
        if wrong.any():
            self._fault(
                instruction,
                f"barrier {numbers[np.argmax(wrong)]}, expected 0 to {BARRIER_COUNT - 1}",
                wrong,
            )
        if reads.asked is not None:
            asked = np.broadcast_to(reads.asked(threads), taken.shape)
            self._asked = np.where(taken, asked, self._asked)
        self._at[taken] = at
        counts = np.zeros(threads.count, np.int64)
        if reads.count is not None:
            counts = np.broadcast_to(reads.count(threads), (threads.count,)).astype(np.int64)
        for number in np.unique(numbers[taken]):
            same = taken & (numbers == number)
            for count in np.unique(counts[same]):
                self._arrive(at, int(number), int(count), same & (counts == count))

    def _arrive(self, at: int, number: int, count: int, came: Mask) -> None:
        progress, threads = self._progress, self._machine.threads
        instruction, action = self._code[at].instruction, self._reads[at].parts.action
        if count % WARP or (self._reads[at].count is not None and not count):
            self._fault(
                instruction, f"a barrier for {count} threads, expected a multiple of {WARP}", came
            )
        per_block = progress.arrivals(came).reshape(-1, threads.warps_per_block).sum(axis=1)
        waiting = progress.barrier == number
        for block in np.flatnonzero(per_block):
            key = (int(block), number)
            here = threads.block_of == block
            opening = self._openings.get(key)
            if opening is None and count == 0:
                continue
            if opening is None:
                before = progress.arrivals(waiting & here).sum()
                if self._machine.checks is not None and before:
                    lanes = np.flatnonzero(waiting & here)
                    self._machine.checks.order.tell(key, lanes)
                opening = _Opening(count, int(before), instruction, action)
                self._openings[key] = opening
            asked = count or threads.warps_per_block * WARP
            self._check(opening, number, asked, action, instruction, came & here)
            opening.arrived += int(per_block[block])
            if self._machine.checks is not None:
                self._machine.checks.order.tell(key, np.flatnonzero(came & here))
            if opening.arrived > opening.expected:
                self._fault(
                    instruction,
                    f"barrier {number} is for {opening.expected} threads, but "
                    f"{opening.arrived} came",
                    came & here,
                )
        if action != "arrive":
            progress.barrier[came] = number
        for block in np.flatnonzero(per_block):
            opening = self._openings.get((int(block), number))
            if opening is not None and opening.arrived == opening.expected:
                del self._openings[int(block), number]
                here = threads.block_of == block
                free = (progress.barrier == number) & here
                if self._machine.checks is not None:
                    order = self._machine.checks.order
                    order.complete((int(block), number))
                    order.learn((int(block), number), np.flatnonzero(free))
                self._open(free, None)

    def _check(
        self, opening: _Opening, number: int, count: int, action: str, instruction: Instruction,
        came: Mask,
    ) -> None:  # fmt: skip
        """Threads that meet must agree on how many they are, and on what they do."""
        before = f"line {opening.instruction.span.line}"
        if count != opening.expected:
            self._fault(
                instruction,
                f"barrier {number} for {count} threads, which is for {opening.expected} in "
                f"{before}",
                came,
            )
        if (action == "red") != (opening.action == "red"):
            self._fault(instruction, f"barrier {number} is used by red and by others", came)

    def open_complete(self) -> bool:
        """Open the barriers without a count at which all living threads of their block wait."""
        progress, threads = self._progress, self._machine.threads
        block_of = threads.block_of
        count = int(block_of[-1]) + 1
        living = np.bincount(block_of[progress.alive], minlength=count)
        opened = False
        for number in np.unique(progress.barrier[progress.barrier != NO_BARRIER]):
            here = progress.barrier == number
            complete = np.bincount(block_of[here], minlength=count) == living
            for block, key in enumerate(complete):
                if key and (block, int(number)) in self._openings:
                    complete[block] = False
            free = here & complete[block_of]
            if free.any():
                self._open(free, self._at[np.argmax(free)])
                opened = True
        return opened

    def _open(self, free: Mask, at: int | None) -> None:
        """Let threads go on; ``at`` is where they wait, for a barrier of all of their block."""
        machine, progress = self._machine, self._progress
        if machine.checks is not None and at is not None and free.any():
            short = left_out(machine.threads, free, progress.alive)
            if short.any():
                first = int(self._at[np.argmax(short)])
                tell_left_out(machine.checks, self._code[first].instruction, first, short)
            machine.checks.order.barrier(free)
        for number in np.unique(self._at[free]):
            if self._reads[int(number)].parts.action == "red":
                self._fold(self._reads[int(number)], free, free & (self._at == number))
        progress.barrier[free] = NO_BARRIER

    def _fold(self, reads: _Reads, free: Mask, takers: Mask) -> None:
        """Give the threads that leave a ``red`` the fold of what all of them brought."""
        threads = self._machine.threads
        block_of = threads.block_of
        count = int(block_of[-1]) + 1
        yes = np.bincount(block_of[free & self._asked], minlength=count)
        every = np.bincount(block_of[free], minlength=count)
        folds: dict[str, Array] = {"popc": yes.astype(np.uint32), "and": yes == every}
        made = folds.get(reads.parts.fold, yes > 0)
        threads.mask, threads.is_full = takers, bool(takers.all())
        reads.put(threads, made[block_of])

    def waits_at(self, thread: int) -> Instruction:
        """The instruction that a thread waits at."""
        return self._code[int(self._at[thread])].instruction

    def arrived(self, thread: int, number: int) -> str:
        """How many threads a barrier that a thread waits at still waits for, in words."""
        block = int(self._machine.threads.block_of[thread])
        opening = self._openings.get((block, number))
        if opening is None:
            return "threads of its block that wait elsewhere"
        return f"{opening.expected} threads, of which {opening.arrived} came"

    def _fault(self, instruction: Instruction, message: str, who: Mask) -> None:
        name = self._machine.thread_name(int(np.argmax(who)))
        self._machine.fault(instruction, f"{message}, in {name}")


def _reads(form: Form, scope: Scope) -> _Reads:
    parts = block_barrier(form)
    result = _U32 if parts.fold == "popc" else _PREDICATE
    if parts.result is not None and not isinstance(scope.meant(parts.result), Register):
        raise UnknownForm(form.instruction.name)
    return _Reads(
        parts,
        reader(parts.number, _U32, scope),
        None if parts.count is None else reader(parts.count, _U32, scope),
        None if parts.asked is None else reader(parts.asked, _PREDICATE, scope),
        writer(parts.result, result, scope),
    )

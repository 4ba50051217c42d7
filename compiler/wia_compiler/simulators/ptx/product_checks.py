"""Checks of ``wgmma``: registers and shared memory that a product on its way still needs.

Between the issue of a product and the wait for its group, nothing may read or write the registers
of its result, nor write those of its left factor or the shared memory that it reads. Registers that
were written before it need ``wgmma.fence`` in between (PTX ISA, "Asynchronous wgmma operations").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.findings import Findings
from wia_compiler.simulators.ptx.jit.liveness import registers_read, registers_written
from wia_compiler.simulators.ptx.operands import Scope, items_of
from wia_compiler.simulators.ptx.products import NONE, Products
from wia_compiler.simulators.ptx.syntax import Group, Instruction, Register
from wia_compiler.simulators.ptx.threads import WARP, Mask

if TYPE_CHECKING:
    from wia_compiler.simulators.ptx.machine import Machine

Words = NDArray[np.int64]


@dataclass
class _Read:
    """Bytes of shared memory that a product read: where, what, and the group of each warp."""

    number: int
    warps: Words
    places: Words
    found: NDArray[np.uint32]
    groups: Words


class ProductChecks:
    """The checks of one chunk of a launch; ``warps`` is how many it has."""

    def __init__(self, findings: Findings, code: Sequence[Instruction], scope: Scope, warps: int):
        self._findings = findings
        self._code = code
        self._time = 0
        self._fenced = np.full(warps, NONE, np.int64)
        self._written: dict[str, Words] = {}
        self._writer: dict[str, Words] = {}
        self._left_groups: dict[str, Words] = {}
        self._shared_reads: list[_Read] = []
        self._results: dict[int, tuple[str, ...]] = {}
        self._lefts: dict[int, tuple[str, ...]] = {}
        self._touched: dict[int, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        for number, each in enumerate(code):
            if _is_product(each):
                self._results[number] = tuple(registers_written(each, scope))
                left = each.operands[1]
                meant = [scope.meant(item) for item in items_of(left)]
                self._lefts[number] = tuple(
                    item.name
                    for item in meant
                    if isinstance(left, Group) and isinstance(item, Register)
                )
        wanted = {name for row in (self._results, self._lefts) for v in row.values() for name in v}
        for name in wanted:
            self._written[name] = np.full(warps, NONE, np.int64)
            self._writer[name] = np.full(warps, NONE, np.int64)
            self._left_groups[name] = np.full(warps, NONE, np.int64)
        for number, each in enumerate(code):
            if each.opcode == "wgmma":
                continue
            reads = tuple(name for name in registers_read(each, scope) if name in wanted)
            writes = tuple(name for name in registers_written(each, scope) if name in wanted)
            if reads or writes:
                self._touched[number] = (reads, writes)

    def executes(self, machine: Machine, number: int) -> None:
        """An instruction is executed by the threads of the mask."""
        touched = self._touched.get(number)
        if touched is None:
            return
        self._time += 1
        warps = np.asarray(machine.threads.warps(machine.threads.mask).any(axis=1))
        reads, writes = touched
        for name in (*reads, *writes):
            self._check_result(machine, number, name, warps, reads=name in reads)
        for name in writes:
            late = warps & (self._left_groups[name] != NONE)
            if late.any():
                self._tell(machine, number, number, late, lambda name=name: (
                    f"writes {name}, which a wgmma on its way still reads",
                    "put wgmma.wait_group before it",
                ))  # fmt: skip
            self._written[name][warps] = self._time
            self._writer[name][warps] = number

    def _check_result(
        self, machine: Machine, number: int, name: str, warps: Mask, *, reads: bool
    ) -> None:
        for names, waiting in machine.products.pending.items():
            early = warps & (waiting.group != NONE)
            if name in names and early.any():
                owner = next(n for n, each in self._results.items() if each == names)
                line = self._code[owner].span.line
                self._tell(machine, number, owner, early, lambda line=line: (
                    f"{'reads' if reads else 'writes'} {name}, to which the wgmma in line {line} "
                    "is on its way",
                    "put wgmma.commit_group and wgmma.wait_group before it",
                ))  # fmt: skip

    def _tell(
        self, machine: Machine, number: int, other: int, warps: Mask,
        say: Callable[[], tuple[str, str]],
    ) -> None:  # fmt: skip
        first = machine.thread_name(int(np.argmax(warps)) * WARP)

        def tell() -> tuple[str, str]:
            message, hint = say()
            return f"{first} {message}", hint

        self._findings.add("wgmma", self._code[number], (number, other), tell)

    def fence(self, warps: Mask) -> None:
        """Warps execute ``wgmma.fence``."""
        self._time += 1
        self._fenced[warps] = self._time

    def begin(self, machine: Machine, number: int, warps: Mask, products: Products) -> None:
        """Warps begin the product of an instruction."""
        self._time += 1
        never = warps & (self._fenced == NONE)
        if never.any():
            self._tell(machine, number, number, never, lambda: (
                "begins its first wgmma without a wgmma.fence",
                "put wgmma.fence.sync.aligned before it",
            ))  # fmt: skip
        for name in (*self._results[number], *self._lefts[number]):
            loose = warps & (self._written[name] > self._fenced) & (self._fenced != NONE)
            if loose.any():
                writer = int(self._writer[name][np.argmax(loose)])
                line = self._code[writer].span.line
                self._tell(machine, number, writer, loose, lambda name=name, line=line: (
                    f"uses {name}, which line {line} writes, with no wgmma.fence in between",
                    "put wgmma.fence.sync.aligned between the two",
                ))  # fmt: skip
        for name in self._lefts[number]:
            self._left_groups[name][warps] = products.open_group[warps]

    def reads(
        self, machine: Machine, number: int, warps: Words, places: Words,
        found: NDArray[np.uint32],
    ) -> None:  # fmt: skip
        """A product reads chunks of shared memory."""
        groups = machine.products.open_group[warps]
        self._shared_reads.append(_Read(number, warps, places, found, groups))

    def wait(self, machine: Machine, warps: Mask, left: int) -> None:
        """Warps wait for all closed groups but the ``left`` newest."""
        closed = machine.products.open_group - left
        for groups in self._left_groups.values():
            groups[warps & (groups < closed)] = NONE
        chunks = machine.shared.reshape(-1, 16).view(np.uint32)
        kept: list[_Read] = []
        for each in self._shared_reads:
            done = warps[each.warps] & (each.groups < closed[each.warps])
            changed = (chunks[each.places[done]] != each.found[done]).any(axis=(1, 2))
            if changed.any():
                late = np.zeros(len(warps), bool)
                late[each.warps[done][changed]] = True
                self._tell(machine, each.number, each.number, late, lambda: (
                    "has shared memory that its wgmma reads written before the wait for it",
                    "write it only after wgmma.wait_group and a barrier",
                ))  # fmt: skip
            if not done.all():
                rest = ~done
                kept.append(_Read(each.number, each.warps[rest], each.places[rest],
                                  each.found[rest], each.groups[rest]))  # fmt: skip
        self._shared_reads = kept


def _is_product(instruction: Instruction) -> bool:
    return instruction.opcode == "wgmma" and "mma_async" in instruction.modifiers

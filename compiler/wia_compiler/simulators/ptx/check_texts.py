"""What the checks of a launch say: threads, blocks and addresses in words, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from wia_compiler.simulators.ptx.memory import DEVICE_BASE, DeviceMemory
from wia_compiler.simulators.ptx.shadow import COPIES, STRONG, WRITES
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import Size

Text = tuple[str, str]
"""A message and what to do."""


class Texts:
    """Messages of a launch of ``grid`` × ``block`` threads, ``per_block`` with those of padding."""

    def __init__(
        self,
        code: Sequence[Instruction],
        device: DeviceMemory,
        grid: Size,
        block: Size,
        per_block: int,
    ):
        self._code = code
        self._device = device
        self._grid, self._block = grid, block
        self._per_block = per_block

    def thread(self, number: int, than: int | None = None) -> str:
        """A thread of the launch; its block only where it is not that of ``than``."""
        block, within = divmod(number, self._per_block)
        name = f"thread {_place(within, self._block)}"
        if than is not None and than // self._per_block == block:
            return name
        return f"{name} of block {_place(block, self._grid)}"

    def unwritten(self, space: str, thread: int, offset: int) -> Text:
        """A read of what nothing wrote."""
        message = f"{self.thread(thread)} reads {self._address(space, offset)}, which nothing wrote"
        if space == "global":
            return message, "let a kernel before it, or this one, write it first"
        return message, f"{space} memory begins with any content: write it before it is read"

    def pending(self, thread: int, kind: int, offset: int, owner: int, number: int) -> Text:
        """An access to bytes that a copy is on its way to."""
        is_bulk = "bulk" in self._code[number].modifiers
        message = (
            f"{self.thread(thread)} {_verb(kind)} {self._address('shared', offset)}, to which the "
            f"cp.async{'.bulk' if is_bulk else ''} of {self.thread(owner, thread)} in "
            f"{self._line(number)} is on its way"
        )
        if is_bulk:
            return message, "wait for the phase of its mbarrier before it"
        return message, "put cp.async.wait_group or cp.async.wait_all and bar.sync 0 before it"

    def race(
        self, space: str, thread: int, kind: int, offset: int, owner: int, number: int, before: int
    ) -> Text:
        """Accesses of two threads that nothing puts in order; ``before`` is the other's kind."""
        where = self._address(space, offset)
        apart = thread // self._per_block != owner // self._per_block
        if before & COPIES and not apart:
            message = (
                f"{self.thread(thread)} {_verb(kind)} {where}; the {self._copy(number)} of "
                f"{self.thread(owner, thread)} in {self._line(number)} was waited for, but only by "
                "other threads"
            )
            if "bulk" in self._code[number].modifiers:
                return message, "let this thread wait for the phase of its mbarrier too"
            message = message.replace("by other threads", "by that thread")
            return message, "put bar.sync 0 between the wait and this access"
        message = (
            f"race in {space} memory: {self.thread(thread)} {_verb(kind)} {where}, which "
            f"{self.thread(owner, thread)} {_verb(before)} in {self._line(number)}"
        )
        if apart:
            return (
                f"{message}, and blocks run in any order",
                "use atom or red for both, let one block do it, or launch a second kernel",
            )
        atomic = ", or use atom or red for both" if kind & WRITES and before & WRITES else ""
        return (
            f"{message}, with no barrier in between",
            f"put bar.sync 0 (or bar.warp.sync within a warp) in between{atomic}",
        )

    def _copy(self, number: int) -> str:
        return "bulk copy" if "bulk" in self._code[number].modifiers else "cp.async"

    def _line(self, number: int) -> str:
        return f"line {self._code[number].span.line}"

    def _address(self, space: str, offset: int) -> str:
        if space != "global":
            return f"{space} address {offset:#x}"
        address = DEVICE_BASE + offset
        near = self._device.nearest(address)
        assert near is not None
        return f"byte {address - near.address} of {near.name} (global address {address:#x})"


def _verb(kind: int) -> str:
    if kind & COPIES:
        return "copies to"
    if kind & STRONG and kind & WRITES:
        return "updates"
    return "writes" if kind & WRITES else "reads"


def _place(number: int, sizes: Size) -> tuple[int, int, int]:
    x, y = sizes[0], sizes[1]
    return number % x, number // x % y, number // (x * y)

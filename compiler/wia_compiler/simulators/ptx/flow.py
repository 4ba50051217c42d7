"""How a launch went through its code: blocks with how often they ran, for models of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wia_compiler.simulators.ptx.decode import Decoded
from wia_compiler.simulators.ptx.graph import BasicBlock
from wia_compiler.simulators.ptx.jit.liveness import registers_read, registers_written
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.threads import WARP


@dataclass(frozen=True)
class Issued:
    """One instruction with the names of the registers that it reads and writes."""

    decoded: Decoded
    reads: tuple[str, ...]
    writes: tuple[str, ...]


@dataclass(frozen=True)
class RunBlock:
    """A basic block: its code, how many warps ran it, and the numbers of the blocks before it."""

    code: tuple[Issued, ...]
    warps: int
    before: tuple[int, ...]
    rank: int


@dataclass(frozen=True)
class Flow:
    """One launch of ``grid`` blocks of ``threads``: its code, and the warps that ran each block.

    ``shared_bytes`` is all shared memory of a block, declared and asked for by the launch.
    """

    grid: int
    threads: int
    shared_bytes: int
    blocks: Sequence[BasicBlock]
    code: Sequence[Decoded]
    scope: Scope
    ran: tuple[int, ...]

    @property
    def warps(self) -> int:
        """Warps of the launch."""
        return self.grid * -(-self.threads // WARP)

    def run_blocks(self) -> tuple[RunBlock, ...]:
        """The basic blocks in the order of the text, with what their instructions depend on."""
        before: list[list[int]] = [[] for _ in self.blocks]
        for number, block in enumerate(self.blocks):
            for after in block.successors:
                before[after].append(number)
        return tuple(
            RunBlock(
                tuple(self._issued(each) for each in self.code[block.start : block.stop]),
                ran,
                tuple(earlier),
                block.rank,
            )
            for block, ran, earlier in zip(self.blocks, self.ran, before, strict=True)
        )

    def _issued(self, decoded: Decoded) -> Issued:
        instruction = decoded.instruction
        return Issued(
            decoded,
            tuple(registers_read(instruction, self.scope)),
            tuple(registers_written(instruction, self.scope)),
        )

"""Where the lanes of a warp go at the end of a block: on, two ways, to a barrier, to their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wia_compiler.simulators.ptx.graph import ENDINGS, BasicBlock, waits_for_block
from wia_compiler.simulators.ptx.jit.access import Window, bail_if, gather
from wia_compiler.simulators.ptx.jit.code import Function
from wia_compiler.simulators.ptx.jit.conversions import BOOL, converted
from wia_compiler.simulators.ptx.jit.counts import add_to
from wia_compiler.simulators.ptx.jit.lanes import Lanes, lanes_of_mask, mask_bits
from wia_compiler.simulators.ptx.jit.layout import ASLEEP, COUNTED, DONE
from wia_compiler.simulators.ptx.jit.named import only_whole_warps, write_arrival
from wia_compiler.simulators.ptx.jit.specials import word
from wia_compiler.simulators.ptx.named_barriers import block_barrier
from wia_compiler.simulators.ptx.syntax import Immediate, Instruction
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

_U32 = np.dtype(np.uint32)


def places_of(function: Function) -> str:
    """Where each lane is: the ranks of blocks, ``DONE`` for none."""
    return function.new("load <32 x i32>, ptr %warp, align 64")


def is_end(instruction: Instruction) -> bool:
    """Whether an instruction ends its block."""
    return instruction.opcode in ENDINGS or waits_for_block(instruction)


@dataclass(frozen=True)
class Flow:
    """Writes the ends of blocks.

    ``bits`` are the lanes that run the block, ``taken`` those whose predicate holds, both as i32;
    a block that is not ``masked`` runs in all lanes, and goes on without asking who is next.
    """

    function: Function
    blocks: Sequence[BasicBlock]
    code: Sequence[Instruction]

    @property
    def has_counts(self) -> bool:
        """Whether a barrier of the entry is for some threads of the block."""
        barriers = (each for each in self.code if waits_for_block(each))
        return any(
            len(each.operands) > 1 or not {"arrive", "red"}.isdisjoint(each.modifiers)
            for each in barriers
        )

    def leave(
        self, block: BasicBlock, at: int, bits: str, taken: str, lanes: Lanes, *, masked: bool
    ) -> None:
        """The end of a block: where its lanes go; ``lanes`` are its registers."""
        function, instruction = self.function, self.code[at]
        if waits_for_block(instruction):
            if instruction.predicate is not None:
                self._pass_by(block, bits, taken, masked=masked)
            self._wait(block, instruction, bits, lanes, masked=masked)
            return
        match instruction.opcode:
            case "bra":
                self._branch(block, at, bits, taken, masked=masked)
            case "ret" | "exit":
                if taken == bits:
                    self._move(bits, DONE, masked=masked)
                else:
                    self._split(bits, taken, DONE, self._rank_after(block))
                function.emit("br label %dispatch")
            case "trap":
                if taken == bits:
                    function.emit("br label %bail")
                    return
                stops = function.new(f"icmp ne i32 {taken}, 0")
                going = function.fresh("going")
                function.emit(f"br i1 {stops}, label %bail, label %{going}")
                function.start(going)
                self.go(block, bits, masked=masked)
            case "brx":
                self._branch_by_index(block, at, bits, taken, lanes)
            case _:
                raise UnknownForm(instruction.name)

    def _pass_by(self, block: BasicBlock, bits: str, taken: str, *, masked: bool) -> None:
        """A barrier that a warp comes to as a whole, or passes by."""
        function = self.function
        every = function.new(f"icmp eq i32 {taken}, {bits}")
        none = function.new(f"icmp eq i32 {taken}, 0")
        bail_if(function, function.new(f"icmp eq i1 {every}, {none}"))
        here, on = function.fresh("here"), function.fresh("on")
        function.emit(f"br i1 {none}, label %{on}, label %{here}")
        function.start(on)
        self.go(block, bits, masked=masked)
        function.start(here)

    def _branch_by_index(
        self, block: BasicBlock, at: int, bits: str, taken: str, lanes: Lanes
    ) -> None:
        """``brx.idx``: each lane to the label that its index is the number of."""
        function, instruction = self.function, self.code[at]
        ranks = [self.blocks[each].rank for each in block.successors]
        ways = ranks[:-1] if instruction.predicate is not None else ranks
        name = f"ways{at}"
        numbers = ", ".join(f"i32 {each}" for each in ways)
        function.outlined[name] = f"@{name} = internal constant [{len(ways)} x i32] [{numbers}]"
        add_to(function, word(function, "branches", "ptr"), at, "1")
        index = lanes.read(instruction.operands[0], TYPES["u32"])
        type = function.vector(_U32)
        outside = function.each(
            BOOL, f"icmp uge {type} {{0}}, {{1}}", index, function.splat(len(ways), _U32)
        )
        wrong = function.new(f"and i32 {mask_bits(function, outside)}, {taken}")
        bail_if(function, function.new(f"icmp ne i32 {wrong}, 0"))
        window = Window(f"@{name}", converted(function, index, np.dtype(np.uint64)), "")
        chosen = gather(function, window, lanes_of_mask(function, taken), _U32, 0, scale="i32")
        for part, each in enumerate(chosen.parts):
            place = function.new(f"getelementptr i32, ptr %exchange, i64 {part * function.width}")
            function.emit(f"store {type} {each}, ptr {place}, align 4")
        whole = function.new("load <32 x i32>, ptr %exchange, align 64")
        self._send(bits, ranks[-1], places_of(function))
        goes = function.new(f"bitcast i32 {taken} to <32 x i1>")
        moved = function.new(
            f"select <32 x i1> {goes}, <32 x i32> {whole}, <32 x i32> {places_of(function)}"
        )
        function.emit(f"store <32 x i32> {moved}, ptr %warp, align 64")
        lane = function.new(f"call i32 @llvm.cttz.i32(i32 {bits}, i1 false)")
        lane = function.new(f"and i32 {lane}, {WARP - 1}")
        place = function.new(f"getelementptr i32, ptr %warp, i32 {lane}")
        first = function.new(f"load i32, ptr {place}, align 4")
        others = function.new(f"call i32 @differing(ptr %warp, i32 {first}, i32 {bits})")
        parts = function.new(f"zext i1 {function.new(f'icmp ne i32 {others}, 0')} to i64")
        add_to(function, word(function, "divergent", "ptr"), at, parts)
        function.emit("br label %dispatch")

    def _rank_after(self, block: BasicBlock) -> int:
        return self.blocks[block.successors[-1]].rank if block.successors else DONE

    def go(self, block: BasicBlock, bits: str, *, masked: bool) -> None:
        """On to the one block that follows."""
        if not masked and block.successors:
            self.function.emit(f"br label %full{block.successors[-1]}")
            return
        self._move(bits, self._rank_after(block), masked=masked)
        self.function.emit("br label %dispatch")

    def sleep(self, block: BasicBlock, missing: str, bits: str, how: str, *, masked: bool) -> None:
        """Lanes wait at the beginning of their block, noted in a mask; others may go on."""
        function = self.function
        if not masked:
            self._move(bits, block.rank, masked=False)
        before = function.new(f"load i32, ptr %{how}, align 4")
        function.emit(
            f"store i32 {function.new(f'or i32 {before}, {missing}')}, ptr %{how}, align 4"
        )
        function.emit("br label %dispatch")

    def done(self) -> None:
        """No lane can go on: the warp has ended, or sleeps."""
        function = self.function
        asleep = function.new("load i32, ptr %asleep, align 4")
        gathering = function.new("load i32, ptr %gathering, align 4")
        sleepers = function.new(f"or i32 {asleep}, {gathering}")
        some = function.new(f"icmp ne i32 {sleepers}, 0")
        function.emit(f"ret i32 {function.new(f'select i1 {some}, i32 {ASLEEP}, i32 0')}")

    def _move(self, bits: str, rank: int, *, masked: bool) -> None:
        """Send the lanes that run to one place."""
        function = self.function
        if not masked:
            function.emit(f"store <32 x i32> splat (i32 {rank}), ptr %warp, align 64")
            return
        self._send(bits, rank, places_of(self.function))

    def _send(self, bits: str, rank: int, places: str) -> None:
        function = self.function
        lanes = function.new(f"bitcast i32 {bits} to <32 x i1>")
        moved = function.new(
            f"select <32 x i1> {lanes}, <32 x i32> splat (i32 {rank}), <32 x i32> {places}"
        )
        function.emit(f"store <32 x i32> {moved}, ptr %warp, align 64")

    def _split(self, bits: str, taken: str, first: int, second: int) -> None:
        """Send the lanes that took a branch to one place, the others that run to another."""
        self._send(bits, second, places_of(self.function))
        self._send(taken, first, places_of(self.function))

    def _branch(self, block: BasicBlock, at: int, bits: str, taken: str, *, masked: bool) -> None:
        function = self.function
        first, last = block.successors[0], block.successors[-1]
        add_to(function, word(function, "branches", "ptr"), at, "1")
        if taken == bits:
            self._go_to(first, bits, masked=masked)
            return
        every = function.new(f"icmp eq i32 {taken}, {bits}")
        none = function.new(f"icmp eq i32 {taken}, 0")
        yes, no, other, both = (function.fresh(each) for each in ("yes", "no", "other", "both"))
        function.emit(f"br i1 {every}, label %{yes}, label %{other}")
        function.start(yes)
        self._go_to(first, bits, masked=masked)
        function.start(other)
        function.emit(f"br i1 {none}, label %{no}, label %{both}")
        function.start(no)
        self._go_to(last, bits, masked=masked)
        function.start(both)
        add_to(function, word(function, "divergent", "ptr"), at, "1")
        self._split(bits, taken, self.blocks[first].rank, self.blocks[last].rank)
        function.emit("br label %dispatch")

    def _go_to(self, number: int, bits: str, *, masked: bool) -> None:
        if not masked:
            self.function.emit(f"br label %full{number}")
            return
        self._move(bits, self.blocks[number].rank, masked=True)
        self.function.emit("br label %dispatch")

    def _wait(
        self, block: BasicBlock, instruction: Instruction, bits: str, lanes: Lanes, *, masked: bool
    ) -> None:
        """A barrier of the block: the warp waits as a whole, or the other engine takes over.

        Where any barrier of the entry has a count, all have: without one, that of the block.
        """
        function = self.function
        barrier = block_barrier(Form(instruction))
        if masked:
            only_whole_warps(function, bits)
        if not self.has_counts:
            if not isinstance(barrier.number, Immediate):
                raise UnknownForm(instruction.name)
            self._move(bits, self._rank_after(block), masked=masked)
            function.emit(f"ret i32 {int(barrier.number.value) + 1}")
            return
        waits, number = write_arrival(lanes, barrier, bits)
        if barrier.action == "arrive":
            self.go(block, bits, masked=masked)
            return
        stay, on = function.fresh("stay"), function.fresh("on")
        function.emit(f"br i1 {waits}, label %{stay}, label %{on}")
        function.start(stay)
        self._move(bits, self._rank_after(block), masked=masked)
        function.emit(f"ret i32 {function.new(f'add i32 {number}, {COUNTED}')}")
        function.start(on)
        self.go(block, bits, masked=masked)

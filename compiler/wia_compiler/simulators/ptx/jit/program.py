"""An entry as one LLVM function that runs a warp until it waits for its block, or ends.

Every block of the graph is written twice: for a warp whose lanes are all there, which needs no
masks and goes straight on to the next block, and for some of its lanes. Which lanes run is decided
as in ``schedule``: those at the lowest rank.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from wia_compiler.simulators.ptx.decode import IDLE, check_flags, row_of
from wia_compiler.simulators.ptx.decode_cluster import decode_cluster_barrier
from wia_compiler.simulators.ptx.graph import WHOLE_WARP, BasicBlock, gathers, waits_for_phase
from wia_compiler.simulators.ptx.jit.access import bail_if
from wia_compiler.simulators.ptx.jit.atomics import write_atomic
from wia_compiler.simulators.ptx.jit.boxes import box_text
from wia_compiler.simulators.ptx.jit.bulk import reduction_of, write_bulk
from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.copies import copies_text, write_copy
from wia_compiler.simulators.ptx.jit.counts import add_to
from wia_compiler.simulators.ptx.jit.departures import departures_text
from wia_compiler.simulators.ptx.jit.flow import Flow, is_end, places_of
from wia_compiler.simulators.ptx.jit.lanes import Lanes, lanes_of_mask, mask_bits
from wia_compiler.simulators.ptx.jit.layout import (
    BAIL,
    BULK_VALUES,
    DONE,
    PARTED,
    SPENT,
    WarpLayout,
    warp_layout,
    word_offset,
)
from wia_compiler.simulators.ptx.jit.liveness import (
    Liveness,
    liveness_of,
    registers_written,
)
from wia_compiler.simulators.ptx.jit.matrix import (
    write_matrix_load,
    write_matrix_move,
    write_matrix_store,
)
from wia_compiler.simulators.ptx.jit.mbarrier import (
    mbarrier_text,
    write_mbarrier,
    write_phase_test,
)
from wia_compiler.simulators.ptx.jit.memory import (
    Slots,
    accesses_of,
    write_address,
    write_load,
    write_store,
)
from wia_compiler.simulators.ptx.jit.multiply import write_multiply
from wia_compiler.simulators.ptx.jit.named import (
    named_text,
    write_cluster_arrival,
    write_cluster_test,
    write_cluster_wait,
)
from wia_compiler.simulators.ptx.jit.specials import word
from wia_compiler.simulators.ptx.jit.support import DECLARATIONS, support_text
from wia_compiler.simulators.ptx.jit.together import where_all_hold
from wia_compiler.simulators.ptx.jit.transfers import transfers_text
from wia_compiler.simulators.ptx.jit.values import write_move, write_value
from wia_compiler.simulators.ptx.jit.warp import (
    active_bits,
    gathered,
    waiting_lanes,
    write_active_mask,
    write_elect,
    write_fold,
    write_map,
    write_match,
    write_rank,
    write_shuffle,
    write_vote,
)
from wia_compiler.simulators.ptx.jit.warpgroup import write_warpgroup
from wia_compiler.simulators.ptx.jit.wmma import write_fragment_load, write_fragment_store
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.schedule import members_of
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import WARP
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form

_WARP_WRITERS: dict[str, Callable[[Lanes, Form], None]] = {
    "shfl": write_shuffle,
    "vote": write_vote,
    "match": write_match,
    "redux": write_fold,
    "activemask": write_active_mask,
    "elect": write_elect,
    "movmatrix": write_matrix_move,
    "mapa": write_map,
    "getctarank": write_rank,
    "mov": write_move,
    "cvta": write_address,
    "mma": write_multiply,
    "wmma.mma": write_multiply,
}
_MEMORY_WRITERS: dict[str, Callable[[Lanes, Form, Slots], None]] = {
    "ld": write_load,
    "ldu": write_load,
    "st": write_store,
    "atom": write_atomic,
    "red": write_atomic,
    "ldmatrix": write_matrix_load,
    "stmatrix": write_matrix_store,
    "wmma.load": write_fragment_load,
    "wmma.store": write_fragment_store,
    "cp": write_copy,
}


@dataclass(frozen=True)
class Program:
    """The text of a compiled entry, and how its memory is laid out.

    ``accesses`` are where memory instructions count, in order: the instruction's number, the space,
    the bytes of a lane.
    """

    text: str
    layout: WarpLayout
    accesses: tuple[tuple[int, str, int], ...]
    predicated: tuple[int, ...]


def write_program(
    blocks: Sequence[BasicBlock],
    code: Sequence[Instruction],
    scope: Scope,
    *,
    width: int,
    counts_memory: bool,
    parted: bool,
) -> Program:
    """The LLVM module of an entry; ``UnknownForm`` where an instruction is not written here.

    Without ``parted``, only blocks for whole warps are written, which takes half the time.
    """
    writer = _Writer(blocks, code, scope, width, counts_memory, parted)
    with np.errstate(all="ignore"):  # constants of the tables wrap as the hardware does
        text = writer.module()
    predicated = tuple(n for n, each in enumerate(code) if each.predicate is not None)
    return Program(text, writer.layout, writer.accesses, predicated)


def is_whole(instruction: Instruction) -> bool:
    """Whether a warp executes an instruction as a whole."""
    words = instruction.modifiers
    if instruction.opcode == "cp":
        groups = {"commit_group", "wait_group", "wait_all"}
        return "bulk" not in words and not groups.isdisjoint(words)
    return instruction.opcode in WHOLE_WARP or (
        instruction.opcode == "barrier" and "cluster" in words
    )


class _Writer:
    def __init__(
        self,
        blocks: Sequence[BasicBlock],
        code: Sequence[Instruction],
        scope: Scope,
        width: int,
        counts_memory: bool,
        parted: bool,
    ):
        self.parted = parted
        self.blocks = blocks
        self.code = code
        self.scope = scope
        self.liveness: Liveness = liveness_of(blocks, code, scope)
        self.layout = warp_layout(self.liveness.kept, scope)
        self.counts_memory = counts_memory
        self.function = Function(width)
        self.flow = Flow(self.function, blocks, code)
        self.waits = any(waits_for_phase(each) for each in code)
        self.accesses = tuple(
            (number, *access)
            for number, each in enumerate(code)
            if each.opcode in _MEMORY_WRITERS
            for access in accesses_of(Form(each))
        )

    def module(self) -> str:
        """The whole text."""
        self._dispatch()
        for number, block in enumerate(self.blocks):
            for masked in (False, True) if self.parted else (False,):
                self._block(number, block, masked=masked)
        function = self.function
        function.start("bail")
        function.emit(f"ret i32 {BAIL}")
        function.start("spent")
        function.emit(f"ret i32 {SPENT}")
        body = "\n".join(function.lines)
        declarations = "\n".join((DECLARATIONS | function.declarations).values())
        return "\n".join(
            (
                support_text(),
                copies_text(),
                mbarrier_text(),
                box_text(),
                transfers_text(),
                departures_text(function, {reduction_of(each) for each in self.code} - {""}),
                named_text(self.layout),
                *function.outlined.values(),
                declarations,
                "define i32 @warp(ptr noalias %context, ptr noalias %warp) {",
                body,
                "}",
                '!0 = !{!"branch_weights", i32 1, i32 1000000}',
                "",
            )
        )

    def _dispatch(self) -> None:
        """Find the lanes that run next, and the block where they are."""
        function = self.function
        function.start("entry")
        for name in ("units", "exchange"):
            function.emit(f"%{name} = alloca [{WARP} x i32], align 64")
        for name in ("places", "first", "second", "before"):
            function.emit(f"%{name} = alloca [{WARP} x i64], align 64")
        function.emit(f"%bulk = alloca [{BULK_VALUES * WARP} x i64], align 64")
        for name in ("mask", "alive", "asleep", "gathering", "ran", "mode", "expired"):
            function.emit(f"%{name} = alloca i32, align 4")
        for name in ("asleep", "gathering", "ran"):
            function.emit(f"store i32 0, ptr %{name}, align 4")
        mode = function.new(f"trunc i64 {word(function, 'mode')} to i32")
        function.emit(f"store i32 {mode}, ptr %mode, align 4")
        expires = function.new(f"lshr i32 {mode}, 1")
        function.emit(f"store i32 {expires}, ptr %expired, align 4")
        function.emit("br label %dispatch")
        function.start("dispatch")
        places = places_of(function)
        gone = function.new(f"icmp ne <32 x i32> {places}, splat (i32 {DONE})")
        function.emit(f"store i32 {function.new(f'bitcast <32 x i1> {gone} to i32')}, ptr %alive")
        if self.waits:
            places = self._without(places, "gathering")
        lowest, bits = self._lowest(places)
        if self.waits:
            lowest, bits = self._awake(places, lowest, bits)
        function.emit(f"store i32 {bits}, ptr %mask, align 4")
        whole = function.new(f"icmp eq i32 {bits}, -1")
        function.emit(f"br i1 {whole}, label %together, label %apart")
        kinds = (
            (("together", "full"), ("apart", "some")) if self.parted else (("together", "full"),)
        )
        if not self.parted:
            function.start("apart")
            function.emit(f"%ended = icmp eq i32 {lowest}, {DONE}")
            function.emit(f"%result = select i1 %ended, i32 0, i32 {PARTED}")
            function.emit("ret i32 %result")
        for label, kind in kinds:
            function.start(label)
            cases = " ".join(
                f"i32 {block.rank}, label %{kind}{number}"
                for number, block in enumerate(self.blocks)
            )
            function.emit(f"switch i32 {lowest}, label %done [ {cases} ]")
        function.start("done")
        if self.waits:
            self._regather()
        self.flow.done()

    def _without(self, places: str, name: str) -> str:
        """The places of lanes, ``DONE`` for those of a mask."""
        function = self.function
        bits = function.new(f"load i32, ptr %{name}, align 4")
        mask = function.new(f"bitcast i32 {bits} to <32 x i1>")
        return function.new(
            f"select <32 x i1> {mask}, <32 x i32> splat (i32 {DONE}), <32 x i32> {places}"
        )

    def _lowest(self, places: str) -> tuple[str, str]:
        """The lowest of the places, and the lanes that are there (i32 each)."""
        function = self.function
        total = function.declare(
            "llvm.vector.reduce.umin.v32i32",
            "declare i32 @llvm.vector.reduce.umin.v32i32(<32 x i32>)",
        )
        lowest = function.new(f"call i32 @{total}(<32 x i32> {places})")
        first = function.new(f"insertelement <32 x i32> poison, i32 {lowest}, i64 0")
        spread = function.new(
            f"shufflevector <32 x i32> {first}, <32 x i32> poison, <32 x i32> zeroinitializer"
        )
        here = function.new(f"icmp eq <32 x i32> {places}, {spread}")
        return lowest, function.new(f"bitcast <32 x i1> {here} to i32")

    def _awake(self, places: str, lowest: str, bits: str) -> tuple[str, str]:
        """The same of the lanes that do not sleep, which must wait for those that do.

        Where nothing else in the block can go on, lanes pass by those that sleep.
        """
        function = self.function
        asleep = function.new("load i32, ptr %asleep, align 4")
        others = function.new(f"xor i32 {asleep}, -1")
        ready = function.new(f"and i32 {bits}, {others}")
        none = function.new(f"icmp eq i32 {ready}, 0")
        waiting = function.new(f"and i1 {none}, {function.new(f'icmp ne i32 {asleep}, 0')}")
        some, look, chosen = (function.fresh(each) for each in ("some", "look", "chosen"))
        function.emit(f"br i1 {waiting}, label %{look}, label %{some}")
        function.start(look)
        mode = function.new("load i32, ptr %mode, align 4")
        strict = function.new(f"icmp eq i32 {mode}, 0")
        passing = function.fresh("passing")
        function.emit(f"br i1 {strict}, label %done, label %{passing}")
        function.start(passing)
        second, theirs = self._lowest(self._without(places, "asleep"))
        function.emit(f"br label %{chosen}")
        function.start(some)
        function.emit(f"br label %{chosen}")
        function.start(chosen)
        return (
            function.new(f"phi i32 [ {lowest}, %{some} ], [ {second}, %{passing} ]"),
            function.new(f"phi i32 [ {ready}, %{some} ], [ {theirs}, %{passing} ]"),
        )

    def _regather(self) -> None:
        """Lanes that wait for others of their warp look again, if one of these ran since."""
        function = self.function
        gathering = function.new("load i32, ptr %gathering, align 4")
        ran = function.new("load i32, ptr %ran, align 4")
        both = function.new(
            f"select i1 {function.new(f'icmp ne i32 {ran}, 0')}, i32 {gathering}, i32 0"
        )
        again, over = function.fresh("again"), function.fresh("over")
        function.emit(
            f"br i1 {function.new(f'icmp ne i32 {both}, 0')}, label %{again}, label %{over}"
        )
        function.start(again)
        function.emit("store i32 0, ptr %gathering, align 4")
        function.emit("store i32 0, ptr %ran, align 4")
        function.emit("br label %dispatch")
        function.start(over)

    def _block(self, number: int, block: BasicBlock, *, masked: bool) -> None:
        function = self.function
        function.start(f"{'some' if masked else 'full'}{number}")
        mask: Value | None = None
        bits = "-1"
        if masked:
            bits = function.new("load i32, ptr %mask, align 4")
            mask = lanes_of_mask(function, bits)
        lanes = Lanes(function, self.scope, self.layout, mask)
        self._complete = self._waited(block, lanes, bits) if self.waits else None
        if self.waits and masked:
            function.emit("store i32 1, ptr %ran, align 4")
        self._count_block(number, block, bits, masked=masked)
        for at in range(block.start, block.stop):
            instruction = self.code[at]
            lanes.predicate = None
            taken = bits
            if instruction.predicate is not None:
                lanes.predicate = lanes.read(instruction.predicate, TYPES["pred"])
                taken = self._count_predicated(at, lanes, bits)
            if is_end(instruction):
                lanes.predicate = None
                self._store(number, lanes)
                self.flow.leave(block, at, bits, taken, lanes, masked=masked)
                return
            if instruction.predicate is not None and not masked and is_whole(instruction):
                written = registers_written(instruction, self.scope)
                write = functools.partial(self._instruction, at, instruction, lanes)
                where_all_hold(lanes, taken, written, write)
                continue
            self._instruction(at, instruction, lanes)
        self._store(number, lanes)
        self.flow.go(block, bits, masked=masked)

    def _waited(self, block: BasicBlock, lanes: Lanes, bits: str) -> str | None:
        """Lanes sleep that wait, at the beginning of their block, for a phase or for other lanes.

        Of those that go on, the ones whose phase is over, where the block begins with a wait.
        """
        function, first = self.function, self.code[block.start]
        masked = lanes.mask is not None
        if gathers(first) and masked:
            alive = function.new("load i32, ptr %alive, align 4")
            missing = waiting_lanes(lanes, members_of(first), alive)
            self._sleep(block, missing, bits, "gathering", masked=True)
            return None
        if not waits_for_phase(first):
            return None
        asked = bits
        if first.predicate is not None:
            lanes.predicate = lanes.read(first.predicate, TYPES["pred"])
            asked = active_bits(lanes)
        if first.opcode == "mbarrier":
            complete = write_phase_test(lanes, Form(first))
        else:
            complete = write_cluster_test(lanes, bits, asked)
        lanes.predicate = None
        others = function.new(f"xor i32 {complete}, -1")
        missing = function.new(f"and i32 {asked}, {others}")
        if first.opcode == "mbarrier":
            # A wait that has expired ends without its phase, once.
            expired = function.new("load i32, ptr %expired, align 4")
            some = function.new(f"icmp ne i32 {missing}, 0")
            left = function.new(f"select i1 {some}, i32 0, i32 {expired}")
            function.emit(f"store i32 {left}, ptr %expired, align 4")
            over = function.new(f"icmp ne i32 {expired}, 0")
            missing = function.new(f"select i1 {over}, i32 0, i32 {missing}")
        self._sleep(block, missing, bits, "asleep", masked=masked)
        return complete

    def _sleep(self, block: BasicBlock, missing: str, bits: str, how: str, *, masked: bool) -> None:
        """Lanes go no further; ``how`` is the mask that they are noted in."""
        function = self.function
        some = function.new(f"icmp ne i32 {missing}, 0")
        sleep, on = function.fresh("sleep"), function.fresh("on")
        function.emit(f"br i1 {some}, label %{sleep}, label %{on}")
        function.start(sleep)
        self.flow.sleep(block, missing, bits, how, masked=masked)
        function.start(on)

    def _count_block(self, number: int, block: BasicBlock, bits: str, *, masked: bool) -> None:
        function = self.function
        add_to(function, word(function, "warps_executed", "ptr"), number, "1")
        threads = str(WARP)
        if masked:
            name = function.declare("llvm.ctpop.i32", "declare i32 @llvm.ctpop.i32(i32)")
            count = function.new(f"call i32 @{name}(i32 {bits})")
            threads = function.new(f"zext i32 {count} to i64")
        add_to(function, word(function, "threads_executed", "ptr"), number, threads)
        place = function.new(f"getelementptr i8, ptr %context, i64 {word_offset('budget')}")
        left = function.new(f"load i64, ptr {place}, align 8")
        left = function.new(f"sub i64 {left}, {block.stop - block.start}")
        function.emit(f"store i64 {left}, ptr {place}, align 8")
        over = function.new(f"icmp slt i64 {left}, 0")
        fine = function.fresh("fine")
        spent = function.fresh("over")
        function.emit(f"br i1 {over}, label %{spent}, label %{fine}, !prof !0")
        function.start(spent)
        where = function.new(f"getelementptr i8, ptr %context, i64 {word_offset('at')}")
        function.emit(f"store i64 {block.start}, ptr {where}, align 8")
        function.emit("br label %spent")
        function.start(fine)

    def _count_predicated(self, at: int, lanes: Lanes, bits: str) -> str:
        """The lanes that run and whose predicate holds."""
        function = self.function
        assert lanes.predicate is not None
        holds = mask_bits(function, lanes.predicate)
        if bits != "-1":
            holds = function.new(f"and i32 {holds}, {bits}")
        name = function.declare("llvm.ctpop.i32", "declare i32 @llvm.ctpop.i32(i32)")
        count = function.new(f"call i32 @{name}(i32 {holds})")
        wide = function.new(f"zext i32 {count} to i64")
        add_to(function, word(function, "predicated", "ptr"), at, wide)
        return holds

    def _instruction(self, at: int, instruction: Instruction, lanes: Lanes) -> None:
        form, opcode = Form(instruction), instruction.opcode
        if gathers(instruction) and not self.waits:
            alive = self.function.new("load i32, ptr %alive, align 4") if lanes.mask else "-1"
            gathered(lanes, members_of(instruction), alive)
        if opcode == "barrier" and "cluster" in form.flags:
            self._cluster_barrier(form, lanes)
            return
        if opcode in IDLE or opcode in ("bar", "barrier"):
            return
        if opcode == "mbarrier":
            write_mbarrier(lanes, form, self._complete)
        elif opcode == "cp" and "bulk" in form.flags:
            write_bulk(lanes, form, at, self._slots(at))
        elif opcode in _MEMORY_WRITERS:
            _MEMORY_WRITERS[opcode](lanes, form, self._slots(at))
        elif opcode in _WARP_WRITERS:
            _WARP_WRITERS[opcode](lanes, form)
        elif opcode == "wgmma":
            write_warpgroup(lanes, form, at)
        else:
            row = row_of(form)
            check_flags(form, row)
            write_value(lanes, form, row)

    def _cluster_barrier(self, form: Form, lanes: Lanes) -> None:
        decode_cluster_barrier(form)
        if lanes.predicate is not None:
            bail_if(self.function, "true")
        bits = "-1" if lanes.mask is None else self.function.new("load i32, ptr %mask, align 4")
        if "wait" in form.flags:
            write_cluster_wait(lanes)
        else:
            write_cluster_arrival(lanes, bits)

    def _slots(self, at: int) -> Slots:
        if not self.counts_memory:
            return {}
        return {space: slot for slot, (n, space, _) in enumerate(self.accesses) if n == at}

    def _store(self, number: int, lanes: Lanes) -> None:
        for name in sorted(self.liveness.after[number]):
            lanes.store(name)

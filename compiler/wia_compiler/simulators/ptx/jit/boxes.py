"""Boxes of tensors in compiled code: what a tensor map and coordinates say, row by row.

``@box_open`` reads a map where it lies and notes its geometry in 64-bit words, ``@box_row`` gives
where the part of a row that lies in the tensor begins. See ``tensor_map`` for the bytes of a map
and ``tensor_box`` for what a box is.
"""

from __future__ import annotations

from collections.abc import Sequence

from wia_compiler.simulators.ptx.jit.code import Function
from wia_compiler.simulators.ptx.jit.layout import word_offset
from wia_compiler.simulators.ptx.memory import DEVICE_BASE, PARAM_WINDOW, WINDOW_BYTES
from wia_compiler.simulators.ptx.tensor_box import MOVED
from wia_compiler.simulators.ptx.tensor_map import (
    ELEMENTS,
    MAP_ALIGNMENT,
    MAP_BYTES,
    MAP_MARK,
    MAP_OFFSETS,
    MOST_AXES,
)

ITEM, ROW_BYTES, ROWS, MOVED_BITS, BYTES, NAN, BASE, TYPE, BEFORE, INSIDE = range(10)
"""Words of a box: bytes of an element, of a row, rows, the bits that its swizzle moves, all bytes,
whether NaN fills it, where its first element lies, the driver's number of its type, of each row the
bytes before the part inside and those inside."""
_OUTER = MOST_AXES - 1
_COUNT, _SIZE, _STRIDE, _STEP, _START = (10 + _OUTER * each for each in range(5))
BOX_WORDS = _START + _OUTER
NAN_BITS = {6: 0x7E00, 7: 0x7FC00000, 8: 0x7FF8000000000000, 9: 0x7FC0}
"""What fills a tensor with NaN, by the number of its type."""


class Text:
    """The text of a function of scalars, instruction by instruction."""

    def __init__(self, head: str):
        self.head = head
        self.function = Function(1).single()
        self.counters: list[str] = []
        self.new, self.emit, self.start = (
            self.function.new, self.function.emit, self.function.start,
        )  # fmt: skip

    def word(self, name: str, type: str = "i64") -> str:
        """A word of the context."""
        place = self.new(f"getelementptr i8, ptr %context, i64 {word_offset(name)}")
        return self.new(f"load {type}, ptr {place}, align 8")

    def load(self, base: str, index: int | str, type: str = "i64") -> str:
        """An element of an array."""
        place = self.new(f"getelementptr {type}, ptr {base}, i64 {index}")
        return self.new(f"load {type}, ptr {place}, align 1")

    def store(self, base: str, index: int | str, value: str | int, type: str = "i64") -> None:
        """Put an element of an array."""
        place = self.new(f"getelementptr {type}, ptr {base}, i64 {index}")
        self.emit(f"store {type} {value}, ptr {place}, align 1")

    def at(self, base: str, offset: int | str) -> str:
        """A place so many bytes on."""
        return self.new(f"getelementptr i8, ptr {base}, i64 {offset}")

    def op(self, word: str, a: str | int, b: str | int, type: str = "i64") -> str:
        """One operation on two numbers."""
        return self.new(f"{word} {type} {a}, {b}")

    def select(self, condition: str, yes: str | int, no: str | int) -> str:
        """One of two numbers."""
        return self.new(f"select i1 {condition}, i64 {yes}, i64 {no}")

    def clamp(self, value: str, low: str | int, high: str | int) -> str:
        """A number kept in a range."""
        raised = self.select(self.op("icmp slt", value, low), low, value)
        return self.select(self.op("icmp sgt", raised, high), high, raised)

    def refuse(self, condition: str, failed: str = "no") -> None:
        """Go where the launch is given up if a condition holds."""
        fine = self.function.fresh("fine")
        self.emit(f"br i1 {condition}, label %{failed}, label %{fine}, !prof !0")
        self.start(fine)

    def loop(self, count: str | int, first: str | int = 0) -> tuple[str, str]:
        """Begin a loop over numbers from ``first``; the number, and what ``repeat`` is told."""
        label = self.function.fresh("loop")
        counter = f"%{label}_counter"
        self.counters.append(f"  {counter} = alloca i64, align 8")
        self.emit(f"store i64 {first}, ptr {counter}, align 8")
        self.emit(f"br label %{label}")
        self.start(label)
        number = self.new(f"load i64, ptr {counter}, align 8")
        over = self.op("icmp sge", number, count)
        self.emit(f"br i1 {over}, label %{label}_end, label %{label}_body")
        self.start(f"{label}_body")
        self.emit(f"store i64 {self.op('add', number, 1)}, ptr {counter}, align 8")
        return number, label

    def repeat(self, label: str) -> None:
        """End a loop."""
        self.emit(f"br label %{label}")
        self.start(f"{label}_end")

    def each(self, count: str) -> tuple[str, str]:
        """Begin a loop over numbers below ``count`` whose turns end at ``turn`` alone."""
        label, before = self.function.fresh("each"), self.function.label
        self.emit(f"br label %{label}")
        self.start(label)
        number = self.new(f"phi i64 [ 0, %{before} ], [ %{label}_next, %{label}_turn ]")
        over = self.op("icmp sge", number, count)
        self.emit(f"br i1 {over}, label %{label}_end, label %{label}_body")
        self.start(f"{label}_body")
        return number, label

    def turn(self, number: str, label: str) -> None:
        """End a turn of such a loop."""
        self.emit(f"br label %{label}_turn")
        self.start(f"{label}_turn")
        self.emit(f"%{label}_next = add i64 {number}, 1")
        self.emit(f"br label %{label}")
        self.start(f"{label}_end")

    def text(self, *endings: str) -> str:
        """The whole function; ``endings`` are blocks after its last."""
        lines = (*self.counters, *self.function.lines, *endings)
        return "\n".join([f"{self.head} {{", "entry:", *lines, "}"])


def box_text() -> str:
    """``@box_open`` and ``@box_row``."""
    items = ", ".join(f"i64 {each.itemsize}" for each in ELEMENTS)
    nans = ", ".join(
        f"i64 {_wide_bits(NAN_BITS.get(number, 0), each.itemsize)}"
        for number, each in enumerate(ELEMENTS)
    )
    moved = ", ".join(f"i64 {each}" for each in MOVED)
    return "\n".join(
        (
            f"@item_bytes = internal constant [{len(ELEMENTS)} x i64] [{items}]",
            f"@nan_bits = internal constant [{len(ELEMENTS)} x i64] [{nans}]",
            f"@moved_bits = internal constant [{len(MOVED)} x i64] [{moved}]",
            _open_text(),
            _row_text(),
        )
    )


def _wide_bits(bits: int, item_bytes: int) -> int:
    """An element as often as 64 bits have room for it."""
    wide = sum(bits << (8 * item_bytes * each) for each in range(8 // item_bytes))
    return wide - (1 << 64) if wide >> 63 else wide


def _product(t: Text, factors: Sequence[str]) -> str:
    total = factors[0]
    for each in factors[1:]:
        total = t.op("mul", total, each)
    return total


def _open_text() -> str:
    """``coordinates`` are a row of lanes each; a map that is none, or of other axes, is refused."""
    t = Text(
        "define internal i1 @box_open(ptr %context, i64 %map, ptr %coordinates, i64 %axes, "
        "ptr %box) noinline"
    )
    in_window = t.op("icmp ult", t.op("sub", "%map", PARAM_WINDOW), WINDOW_BYTES)
    offset = t.op("sub", "%map", t.select(in_window, PARAM_WINDOW, DEVICE_BASE))
    limit = t.select(in_window, t.word("parameters_bytes"), t.word("arena_bytes"))
    memory = t.new(
        f"select i1 {in_window}, ptr {t.word('parameters', 'ptr')}, ptr {t.word('arena', 'ptr')}"
    )
    t.refuse(t.op("icmp ugt", offset, limit))
    t.refuse(t.op("icmp ugt", t.op("add", offset, MAP_BYTES), limit))
    t.refuse(t.op("icmp ne", t.op("and", offset, MAP_ALIGNMENT - 1), 0))
    map = t.at(memory, offset)
    t.refuse(t.op("icmp ne", t.load(map, 0), int.from_bytes(MAP_MARK, "little")))

    def byte(name: str, number: int = 0) -> str:
        place = t.at(map, MAP_OFFSETS[name] + number)
        return t.new(f"zext i8 {t.load(place, 0, 'i8')} to i64")

    def box_size(axis: int) -> str:
        place = t.at(map, MAP_OFFSETS["box"] + 2 * axis)
        return t.new(f"zext i16 {t.load(place, 0, 'i16')} to i64")

    def wide(name: str, number: int = 0) -> str:
        return t.load(t.at(map, MAP_OFFSETS[name] + 8 * number), 0)

    t.refuse(t.op("icmp ne", byte("axes"), "%axes"))
    type = byte("data_type")
    item = t.load("@item_bytes", type)
    inner, size = box_size(0), wide("sizes")
    at = t.load("%coordinates", 0)
    low = t.clamp(t.op("sub", 0, at), 0, inner)
    high = t.clamp(t.op("sub", size, at), low, inner)
    row = t.op("mul", inner, item)
    counts: list[str] = []
    for axis in range(1, MOST_AXES):
        there = t.op("icmp ugt", "%axes", axis)
        every = t.select(there, byte("element_strides", axis), 1)
        count = t.op("udiv", t.op("add", box_size(axis), t.op("sub", every, 1)), every)
        counts.append(t.select(there, count, 1))
        start = t.load("%coordinates", 32 * axis)
        for place, value in (
            (_COUNT, counts[-1]),
            (_SIZE, t.select(there, wide("sizes", axis), 1)),
            (_STRIDE, t.select(there, wide("strides", axis), 0)),
            (_STEP, every),
            (_START, t.select(there, start, 0)),
        ):
            t.store("%box", place + axis - 1, value)
    rows = _product(t, counts)
    first = t.op("sub", wide("address"), DEVICE_BASE)
    before = t.op("mul", low, item)
    for place, value in (
        (ITEM, item),
        (ROW_BYTES, row),
        (ROWS, rows),
        (MOVED_BITS, t.load("@moved_bits", byte("swizzle"))),
        (BYTES, t.op("mul", rows, row)),
        (NAN, byte("fills_nan")),
        (BASE, t.op("add", first, t.op("mul", t.op("add", at, low), item))),
        (TYPE, type),
        (BEFORE, before),
        (INSIDE, t.op("mul", t.op("sub", high, low), item)),
    ):
        t.store("%box", place, value)
    t.emit("ret i1 true")
    return t.text("no:", "  ret i1 false")


def _divided(t: Text, number: str, count: str) -> tuple[str, str]:
    """Remainder and quotient, without a division (some 20 cycles) where the number is less."""
    large, joined = t.function.fresh("large"), t.function.fresh("joined")
    before = t.function.label
    t.emit(f"br i1 {t.op('icmp ult', number, count)}, label %{joined}, label %{large}")
    t.start(large)
    rest, whole = t.op("urem", number, count), t.op("udiv", number, count)
    t.emit(f"br label %{joined}")
    t.start(joined)
    return (
        t.new(f"phi i64 [ {number}, %{before} ], [ {rest}, %{large} ]"),
        t.new(f"phi i64 [ 0, %{before} ], [ {whole}, %{large} ]"),
    )


def _row_text() -> str:
    """Where the part inside of a row begins in device memory; -1 where none is inside."""
    t = Text("define internal i64 @box_row(ptr %box, i64 %number) noinline")
    rest, place = "%number", t.load("%box", BASE)
    for axis in range(_OUTER):
        count = t.load("%box", _COUNT + axis)
        index, rest = _divided(t, rest, count) if axis < _OUTER - 1 else (rest, rest)
        step, start = t.load("%box", _STEP + axis), t.load("%box", _START + axis)
        at = t.op("add", start, t.op("mul", index, step))
        # As unsigned numbers, negative coordinates are beyond every size.
        t.refuse(t.op("icmp uge", at, t.load("%box", _SIZE + axis)))
        place = t.op("add", place, t.op("mul", at, t.load("%box", _STRIDE + axis)))
    inside = t.op("icmp ne", t.load("%box", INSIDE), 0)
    t.emit(f"ret i64 {t.select(inside, place, -1)}")
    return t.text("no:", "  ret i64 -1")

"""Layouts: which elements of a register buffer each thread of a block holds, and in which slots.

A register buffer that lies across threads is a few *slots* in each of them. ``Cyclic`` deals
elements out like cards; ``Fragment`` is any layout whose digits are those of the thread and slot
numbers, above all the accumulators of ``mma.sync`` (``mma_accumulator``), and its slices: the
maximum of each row, beside a tile of scores, lies in the threads that hold the row.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from wia_compiler.backends.gpu.architecture import WARP_SIZE
from wia_compiler.backends.gpu.index import Index, delinearize

LAYOUT = "wia.layout"
"""Attribute of a register buffer's allocation: the spelled ``AccumulatorLayout``."""
MMA_ROWS, MMA_COLUMNS = 16, 8
"""Of the accumulator tile of one ``mma.sync``: ``m16n8``."""


class Layout(Protocol):
    """Which elements of a register buffer a thread holds."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the buffer."""
        ...

    @property
    def slots(self) -> int:
        """Elements that a thread has room for."""
        ...

    def place(self, slot: int, thread: Index) -> tuple[Index, ...]:
        """The element in a slot of a thread of the block; past the end where ``slot`` has none."""
        ...


@dataclass(frozen=True)
class Cyclic:
    """Runs of ``width`` elements are dealt out like cards to the ``group`` threads.

    Element ``p`` (the last dimension fastest) is the ``p % width``-th of run ``p // width``, which
    is with thread ``run % group``, in its slots from ``run // group * width`` on. The last slots of
    some threads hold nothing where the runs do not go round.
    """

    shape: tuple[int, ...]
    group: int
    width: int = 1

    @property
    def slots(self) -> int:
        return -(-prod(self.shape) // (self.group * self.width)) * self.width

    def place(self, slot: int, thread: Index) -> tuple[Index, ...]:
        turn, number = divmod(slot, self.width)
        run = thread.modulo(self.group) + turn * self.group
        return delinearize(run * self.width + number, self.shape)


@dataclass(frozen=True)
class Digit:
    """One digit of a thread's or slot's number: of ``count`` values, each ``step`` elements apart.

    ``dimension`` is that of the buffer; ``None`` where the digit moves along nothing: threads that
    differ in it alone hold copies of the same element.
    """

    count: int
    dimension: int | None = None
    step: int = 0


@dataclass(frozen=True)
class Fragment:
    """A layout by digits: the place of an element is the sum of what the digits of both add to it.

    The first digit of each number is its lowest. The digits of a thread multiply to the number of
    threads of the block, those of a slot to the number of slots.
    """

    shape: tuple[int, ...]
    thread_digits: tuple[Digit, ...]
    slot_digits: tuple[Digit, ...]

    def __post_init__(self) -> None:
        reached = [1] * len(self.shape)
        for digit in (*self.thread_digits, *self.slot_digits):
            if digit.dimension is not None:
                reached[digit.dimension] += (digit.count - 1) * digit.step
        if tuple(reached) != self.shape:
            raise ValueError(f"the digits reach {tuple(reached)}, the buffer has {self.shape}")

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return prod(digit.count for digit in self.thread_digits)

    @property
    def slots(self) -> int:
        return prod(digit.count for digit in self.slot_digits)

    def place(self, slot: int, thread: Index) -> tuple[Index, ...]:
        found = [Index() for _ in self.shape]
        for digit, value in zip(self.slot_digits, self.digits_of(slot), strict=True):
            if digit.dimension is not None:
                found[digit.dimension] += value * digit.step
        weight = 1
        for digit in self.thread_digits:
            if digit.dimension is not None:
                value = thread.floor_divide(weight).modulo(digit.count)
                found[digit.dimension] += value * digit.step
            weight *= digit.count
        return tuple(found)

    def digits_of(self, slot: int) -> tuple[int, ...]:
        """The digits of a slot's number."""
        values: list[int] = []
        for digit in self.slot_digits:
            slot, value = divmod(slot, digit.count)
            values.append(value)
        return tuple(values)

    def along(self, kept: Sequence[int]) -> Fragment:
        """The slice along some dimensions, in this order: a thread has what lies in its own tile.

        ::

            scores 64 × 128, 32 slots  →  along((0,)): a value of each row, 2 slots
        """
        numbers = {dimension: number for number, dimension in enumerate(kept)}

        def renumbered(digit: Digit) -> Digit:
            if digit.dimension not in numbers:
                return Digit(digit.count)
            return Digit(digit.count, numbers[digit.dimension], digit.step)

        return Fragment(
            tuple(self.shape[dimension] for dimension in kept),
            tuple(renumbered(digit) for digit in self.thread_digits),
            tuple(renumbered(each) for each in self.slot_digits if each.dimension in numbers),
        )

    def slot_along(self, kept: Collection[int], slot: int) -> int:
        """The slot of the slice ``along(kept)`` that belongs to a slot of the whole."""
        found, weight = 0, 1
        for digit, value in zip(self.slot_digits, self.digits_of(slot), strict=True):
            if digit.dimension in kept:
                found += value * weight
                weight *= digit.count
        return found

    def lane_distances(self, folded: Collection[int]) -> tuple[int, ...] | None:
        """Lane distances of the butterfly that folds dimensions over the threads that share them.

        ``None`` where the threads of more than one warp share them.
        """
        distances: list[int] = []
        weight = 1
        for digit in self.thread_digits:
            if digit.dimension in folded and digit.count > 1:
                if weight * digit.count > WARP_SIZE:
                    return None
                distances += _powers(weight, digit.count)
            weight *= digit.count
        return tuple(distances)

    def warp_origin(self, thread: Index) -> tuple[Index, ...]:
        """Where the part of a thread's warp begins: what the digits above the lane's add."""
        return self.place(0, thread.floor_divide(WARP_SIZE) * WARP_SIZE)

    def owner_digits(self) -> Iterator[tuple[int, int]]:
        """Weight and count of each thread digit that copies differ in: its 0 is the owner's."""
        weight = 1
        for digit in self.thread_digits:
            if digit.dimension is None and digit.count > 1:
                yield weight, digit.count
            weight *= digit.count


def _powers(weight: int, count: int) -> list[int]:
    return [weight << bit for bit in range(count.bit_length() - 1)]


@dataclass(frozen=True)
class AccumulatorLayout:
    """How a tile of sums lies in the accumulators of ``mma.sync``, as a nest spells it.

    ``mma(2x4)``: the block's warps, 2 along the rows and 4 along the columns, each with an equal
    part of the tile, in tiles of ``m16n8``. The rows and columns are the buffer's last two
    dimensions of more than one element. ``mma(4x1) rows 64x128``: one value for each row of such a
    tile of 64 × 128.

    ``paired_rows`` and ``paired_columns`` say that operands come from memory two rows or columns
    at a time (8-bit elements that are turned in registers): ``mma(2x4) paired rows, columns``.
    """

    warp_rows: int
    warp_columns: int
    paired_rows: bool = False
    paired_columns: bool = False
    kept: str = ""
    whole: tuple[int, int] = (0, 0)

    def __str__(self) -> str:
        words = [f"mma({self.warp_rows}x{self.warp_columns})"]
        paired = [
            name
            for name, is_paired in (("rows", self.paired_rows), ("columns", self.paired_columns))
            if is_paired
        ]
        if paired:
            words.append(f"paired {', '.join(paired)}")
        if self.kept:
            words.append(f"{self.kept} {self.whole[0]}x{self.whole[1]}")
        return " ".join(words)

    def of(self, shape: Sequence[int]) -> Fragment:
        """The layout of a buffer of that shape."""
        large = [number for number, size in enumerate(shape) if size > 1]
        if self.kept:
            whole = mma_accumulator(self.whole, self)
            part = whole.along((0 if self.kept == "rows" else 1,))
            return _in_dimensions(part, tuple(shape), large[-1:])
        rows, columns = large[-2:]
        whole = mma_accumulator((shape[rows], shape[columns]), self)
        return _in_dimensions(whole, tuple(shape), (rows, columns))


def mma_accumulator(tile: tuple[int, int], layout: AccumulatorLayout) -> Fragment:
    """A tile of rows × columns in the accumulators of a block's warps.

    Lane ``4 g + t`` holds of each ``m16n8`` tile the elements (g, 2 t), (g, 2 t + 1), (g + 8, 2 t),
    (g + 8, 2 t + 1), in this order (PTX ISA, matrix fragments of mma.m16n8k16). Slots go through
    the tiles of a warp row by row.

    Of paired rows, g and g + 8 are rows 2 g and 2 g + 1; of paired columns, two tiles beside each
    other hold the even and the odd ones of 16 columns.
    """
    rows, columns = tile
    warp_rows, warp_columns = rows // layout.warp_rows, columns // layout.warp_columns
    if rows % (MMA_ROWS * layout.warp_rows) or columns % (MMA_COLUMNS * layout.warp_columns):
        raise ValueError(f"{rows} × {columns} is no tile of {layout}")
    if layout.paired_columns and warp_columns % (2 * MMA_COLUMNS):
        raise ValueError(f"paired columns come 16 at a time, not {warp_columns}")
    pair = 2 if layout.paired_columns else 1
    slot_digits = [
        Digit(2, 1, pair),
        Digit(2, 0, 1 if layout.paired_rows else MMA_ROWS // 2),
        *([Digit(2, 1, 1)] if layout.paired_columns else []),
        Digit(warp_columns // MMA_COLUMNS // pair, 1, MMA_COLUMNS * pair),
        Digit(warp_rows // MMA_ROWS, 0, MMA_ROWS),
    ]
    thread_digits = [
        Digit(4, 1, 2 * pair),
        Digit(8, 0, 2 if layout.paired_rows else 1),
        Digit(layout.warp_columns, 1, warp_columns),
        Digit(layout.warp_rows, 0, warp_rows),
    ]
    return Fragment(tile, tuple(thread_digits), tuple(slot_digits))


def _in_dimensions(part: Fragment, shape: tuple[int, ...], dimensions: Sequence[int]) -> Fragment:
    """The same layout for a buffer that has dimensions of one element besides."""

    def moved(digit: Digit) -> Digit:
        if digit.dimension is None:
            return digit
        return Digit(digit.count, dimensions[digit.dimension], digit.step)

    return Fragment(
        shape, tuple(map(moved, part.thread_digits)), tuple(map(moved, part.slot_digits))
    )


_SPELLED = re.compile(
    r"mma\((\d+)x(\d+)\)(?: paired (rows, columns|rows|columns))?(?: (rows|columns) (\d+)x(\d+))?"
)


def parse_layout(text: str) -> AccumulatorLayout:
    """Read what ``str`` of a layout wrote; ``ValueError`` for anything else."""
    match = _SPELLED.fullmatch(text)
    if match is None:
        raise ValueError(f"no layout {text!r}: expected mma(ROWSxCOLUMNS)")
    paired = match[3] or ""
    whole = (int(match[5]), int(match[6])) if match[4] else (0, 0)
    return AccumulatorLayout(
        int(match[1]), int(match[2]), "rows" in paired, "columns" in paired, match[4] or "", whole
    )


def layout_attribute(layout: AccumulatorLayout) -> StringAttr:
    """The attribute ``wia.layout`` of an allocation."""
    return StringAttr(str(layout))


def accumulator_layout(allocation: Operation) -> AccumulatorLayout | None:
    """The layout that an allocation spells, if any."""
    attribute = allocation.attributes.get(LAYOUT)
    if not isinstance(attribute, StringAttr) or not attribute.data.startswith("mma"):
        return None
    return parse_layout(attribute.data)

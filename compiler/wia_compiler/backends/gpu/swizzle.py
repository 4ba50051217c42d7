"""Swizzles: tiles in shared memory whose 16-byte chunks are exchanged within each row.

Shared memory has 32 banks of 4 bytes, 128 bytes a line. A unit that reads one chunk of each of
eight rows finds them in one place of the line where rows are 64, 128 … bytes long: chunk ``c`` of
row ``r`` is therefore kept at ``c xor f(r)``, so that eight rows fill a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from wia_compiler.backends.gpu.builder import Builder
from wia_compiler.backends.gpu.index import Index, of_value

SWIZZLE = "wia.swizzle"
"""Attribute of a shared buffer's allocation: which rows are read together."""
CHUNK_BYTES, LINE_BYTES = 16, 128
Rows = Literal["rows", "pairs", "quads", "halves"]


@dataclass(frozen=True)
class Swizzle:
    """How chunks of a row of ``row_bytes`` are exchanged, by the rows that are accessed together.

    ======  =======================================================================================
    rows    eight neighbours, a chunk of each (``ldmatrix`` of 16-bit rows)
    quads   four neighbours, two chunks of each (words of 32 bits; pairs of 32-bit sums)
    halves  two neighbours, four chunks of each (16 bytes of each of four lanes)
    pairs   4 t and 4 t + 1, or 4 t + 2 and 4 t + 3, of t = 0 … 3, a chunk of each (``ldmatrix`` of
            8-bit elements that are turned in registers)
    ======  =======================================================================================

    ``item_bytes`` is the size of an element. Chunks are a power of two, or a multiple of 8.
    """

    kind: Rows
    row_bytes: int
    item_bytes: int

    def __post_init__(self) -> None:
        chunks = self.chunks
        if self.row_bytes % CHUNK_BYTES or (chunks & (chunks - 1) and chunks % 8):
            raise ValueError(f"rows of {self.row_bytes} bytes are no 2^n chunks of {CHUNK_BYTES}")

    @property
    def chunks(self) -> int:
        """Chunks of a row."""
        return self.row_bytes // CHUNK_BYTES

    def mask(self, row: Index) -> Index:
        """What the chunks of a row are exchanged by."""
        chunks = min(self.chunks, LINE_BYTES // CHUNK_BYTES)
        if self.kind == "pairs":
            if chunks < LINE_BYTES // CHUNK_BYTES:
                return row.floor_divide(4).modulo(chunks)
            return row.floor_divide(4).modulo(4) * 2 + row.modulo(2)
        together = {"rows": 1, "quads": 2, "halves": 4}[self.kind]
        rows_of_line = max(1, LINE_BYTES // self.row_bytes)
        line = row.floor_divide(rows_of_line)
        return line.modulo(max(chunks // together, 1)) * together

    def place(self, builder: Builder, row: Index, column: Index) -> Index:
        """Where the element of a row and column is: another column of the same row."""
        per_chunk = CHUNK_BYTES // self.item_bytes
        chunk, rest = column.floor_divide(per_chunk), column.modulo(per_chunk)
        return exclusive_or(builder, chunk, self.mask(row), self.chunks) * per_chunk + rest


def exclusive_or(builder: Builder, value: Index, mask: Index, size: int) -> Index:
    """``value xor mask``, both below ``size`` (a power of two, or a multiple of that of ``mask``).

    Constant bits that no variable part of the value reaches are set apart: they are the same for
    every row, and places that differ in them alone share what is computed.
    """
    if mask.is_constant and mask.constant == 0:
        return value
    variable, constant = _split(value)
    whole = _xor(builder, variable, mask, size)
    if constant == 0:
        return whole
    return _xor(builder, whole, Index((), constant), size)


def _split(value: Index) -> tuple[Index, int]:
    """A variable part, and a constant whose bits that part never has."""
    reached = 0
    for atom, factor in value.terms:
        bits = ((1 << atom.high.bit_length()) - 1) * factor
        if atom.low < 0 or factor < 1 or factor & (factor - 1) or bits & reached:
            return value, 0
        reached |= bits
    apart = value.constant & ~reached
    return Index(value.terms, value.constant - apart), apart


def _xor(builder: Builder, left: Index, right: Index, size: int) -> Index:
    if left.is_constant and right.is_constant:
        return Index((), left.constant ^ right.constant)
    a, b = builder.index(left), builder.index(right)
    made = builder.once(("xor", a, b), lambda: builder.add(arith.XOrIOp(a, b)).result)
    return of_value(made, size)


def swizzle_attribute(kind: Rows) -> StringAttr:
    """The attribute ``wia.swizzle`` of an allocation."""
    return StringAttr(kind)


def swizzle_of(allocation: Operation, shape: Sequence[int], item_bytes: int) -> Swizzle | None:
    """The swizzle that an allocation of a tile of rows × columns spells, if any."""
    attribute = allocation.attributes.get(SWIZZLE)
    if not isinstance(attribute, StringAttr):
        return None
    known = {str(kind): kind for kind in get_args(Rows)}
    if attribute.data not in known:
        raise ValueError(f"no swizzle {attribute.data!r}: expected one of {', '.join(known)}")
    return Swizzle(known[attribute.data], shape[-1] * item_bytes, item_bytes)

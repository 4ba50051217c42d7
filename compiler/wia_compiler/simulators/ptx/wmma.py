"""``wmma``: how the fragments of CUDA's C++ interface lie in registers and in memory.

PTX leaves open which lane holds which element; here they lie as those of ``mma`` do, which is what
the hardware does since sm_80. Registers beyond what a fragment needs repeat those before them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.fragments import (
    Fragment,
    left_fragment,
    right_fragment,
    sum_fragment,
)
from wia_compiler.simulators.ptx.matrix_elements import BITS, SUMS, sizes_of
from wia_compiler.simulators.ptx.operands import items_of
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

SHAPES = {
    "f16": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "bf16": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "s8": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "u8": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    "s4": ("m8n8k32",),
    "u4": ("m8n8k32",),
    "b1": ("m8n8k128",),
}
"""Shapes by the type of the factors."""


@dataclass(frozen=True)
class Chunk:
    """What every lane moves at once: ``count`` elements of one register, the first being ``slot``.

    ``rows`` and ``columns`` are those of the first, by lane; ``register`` is its register.
    """

    register: int
    slot: int
    count: int
    rows: NDArray[np.intp]
    columns: NDArray[np.intp]


@dataclass(frozen=True)
class Movement:
    """A ``wmma.load`` or ``wmma.store``: elements of ``bits`` between memory and registers."""

    fragment: Fragment
    by_rows: bool
    bits: int
    register_type: PtxType
    registers: int
    default_stride: int

    @property
    def chunks(self) -> tuple[Chunk, ...]:
        """The accesses: whole registers where their elements lie side by side, else elements."""
        fragment = self.fragment
        packed = fragment.packed
        rows, columns = fragment.rows, fragment.columns
        lines, along = (rows, columns) if self.by_rows else (columns, rows)
        near = packed == 1 or bool(
            (lines[0] == lines[1]).all() and (along[1] - along[0] == 1).all()
        )
        if not near and self.bits < 8:
            raise UnknownForm("wmma of elements narrower than a byte in this layout")
        count = packed if near else 1
        return tuple(
            Chunk(slot // packed, slot % packed, count, rows[slot], columns[slot])
            for slot in range(0, len(rows), count)
        )

    @property
    def access_bytes(self) -> int:
        """Bytes that a lane moves at once."""
        return self.chunks[0].count * self.bits // 8

    def offset_scale(self, chunk: Chunk) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """For each lane, how many strides on a chunk lies, and how many elements beside that."""
        if self.by_rows:
            return chunk.rows, chunk.columns
        return chunk.columns, chunk.rows


def movement_of(form: Form) -> Movement:
    """What a ``wmma.load`` or ``wmma.store`` moves."""
    words = form.instruction.modifiers
    name = form.instruction.name
    which = form.one_of(("a", "b", "c", "d"))
    kind = words[-1]
    m, n, k = sizes_of(form)
    by_rows = "row" in form.flags
    group = form.instruction.operands[1 if form.instruction.opcode == "wmma.store" else 0]
    registers = len(items_of(group))
    if which in ("a", "b"):
        if f"m{m}n{n}k{k}" not in SHAPES.get(kind, ()):
            raise UnknownForm(name)
        bits = BITS[kind]
        packed = max(1, 32 // bits)
        holder = TYPES["b64"] if bits == 64 else TYPES["b32"]
        fragment = left_fragment(m, k, packed) if which == "a" else right_fragment(k, n, packed)
        stride = (k if by_rows else m) if which == "a" else (n if by_rows else k)
    else:
        if kind not in SUMS:
            raise UnknownForm(name)
        bits = {"f16": 16, "f64": 64}.get(kind, 32)
        holder = TYPES["b64"] if bits == 64 else TYPES["b32"]
        fragment = sum_fragment(m, n, 2 if kind == "f16" else 1)
        stride = n if by_rows else m
    if registers % fragment.registers:
        raise UnknownForm(f"{name} of {registers} registers")
    return Movement(fragment, by_rows, bits, holder, registers, stride)

"""Integers of 8 and 16 bits side by side in 32: dot products, packing, video instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Array, Form, Row, UnknownForm

U32, S32 = TYPES["u32"], TYPES["s32"]


def part(value: Array, place: int, bits: int, *, signed: bool) -> Array:
    """A part of 32 bits as an ``int32``."""
    narrow = np.dtype(f"u{bits // 8}")
    found = (value.astype(np.uint32) >> np.uint32(bits * place)).astype(narrow)
    return found.astype(np.dtype(f"i{bits // 8}") if signed else narrow).astype(np.int32)


def _dot_of_two(form: Form, a: Array, b: Array, c: Array) -> Array:
    """``dp2a``: two halves of a times the two lower or upper bytes of b, added to c."""
    signs = [type.kind == "signed" for type in form.types]
    first = 2 if "hi" in form.flags else 0
    total = c
    for place in range(2):
        left = part(a, place, 16, signed=signs[0])
        total = total + left * part(b, first + place, 8, signed=signs[1])
    return total


def _average(a: Array, b: Array) -> Array:
    return (a + b + 1) >> 1


_VIDEO: dict[str, Callable[[Array, Array], Array]] = {
    "vadd": np.add,
    "vsub": np.subtract,
    "vavrg": _average,
    "vabsdiff": lambda a, b: np.abs(a - b),
    "vmin": np.minimum,
    "vmax": np.maximum,
}
VIDEO = tuple(f"{name}{count}" for name in _VIDEO for count in (2, 4))


def _video(form: Form, a: Array, b: Array, c: Array) -> Array:
    """Operations on two or four parts; with ``.add`` the sum of all of them and c."""
    opcode = form.instruction.opcode
    count = int(opcode[-1])
    bits = 32 // count
    result, *signs = (type.kind == "signed" for type in form.types)
    total = c.astype(np.int32) if "add" in form.flags else np.uint32(0)
    for place in range(count):
        made = _VIDEO[opcode[:-1]](
            part(a, place, bits, signed=signs[0]), part(b, place, bits, signed=signs[1])
        )
        if "sat" in form.flags:
            limits = np.iinfo(f"{'i' if result else 'u'}{bits // 8}")
            made = np.clip(made, np.int32(limits.min), np.int32(limits.max))
        if "add" in form.flags:
            total = total + part(made, 0, bits, signed=result)
        else:
            kept = made.astype(np.uint32) & np.uint32((1 << bits) - 1)
            total = total | (kept << np.uint32(bits * place))
    whole: Any = total
    return whole.astype(np.uint32)


def _video_types(form: Form) -> tuple[PtxType, ...]:
    if len(form.types) != 3:
        raise UnknownForm(form.instruction.name)
    return (U32, U32, U32)


def _pack(form: Form, a: Array, b: Array, c: Array | None = None) -> Array:
    """``cvt.pack.sat``: a above b, each limited to a narrow type; c, moved up, above both."""
    type = next(
        word for word in form.instruction.modifiers if word[0] in "us" and word[1:] in _WIDTHS
    )
    limits = np.iinfo(f"{'i' if type[0] == 's' else 'u'}{int(type[1:]) // 8}")
    bits = np.uint32(int(type[1:]))
    mask = np.uint32((1 << int(bits)) - 1)
    high, low = (
        np.clip(each, np.int32(limits.min), np.int32(limits.max)).astype(np.uint32) & mask
        for each in (a, b)
    )
    made = (high << bits) | low
    return made if c is None else made | (c << (bits * np.uint32(2)))


_WIDTHS = ("8", "16")


def _pack_types(form: Form) -> tuple[PtxType, ...]:
    has_third = form.types[-1].name == "b32"
    return (S32, S32, U32) if has_third else (S32, S32)


OTHERS: dict[str, Row] = {
    "dp2a": Row(
        lambda form: (U32, U32, S32), lambda form: (S32,), _dot_of_two, "integer",
        frozenset({"lo", "hi"}),
    ),
    **{
        name: Row(_video_types, lambda form: (U32,), _video, "integer", frozenset({"sat", "add"}))
        for name in VIDEO
    },
}  # fmt: skip
PACK = Row(_pack_types, lambda form: (U32,), _pack, "convert", frozenset({"pack", "sat"}))

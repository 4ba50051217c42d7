"""Integers of fewer bits than a register: products of 24 bits, sums that saturate, masks."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Array, Form, Row, alike
from wia_compiler.simulators.ptx.values.integers import limited, shift_left

U32, S32 = TYPES["u32"], TYPES["s32"]
_MODES = frozenset({"clamp", "wrap"})
_ONES = np.uint32(0xFFFFFFFF)


def _product_24(form: Form, a: Array, b: Array) -> Array:
    """The lower 32 of the 48 bits of a product of 24-bit numbers, or (``.hi``) the upper 32."""
    wide = np.dtype(np.int64 if form.type.kind == "signed" else np.uint64)
    left, right = (
        (each << each.dtype.type(8)).astype(wide) >> wide.type(8) for each in (a, b)
    )  # fmt: skip
    product = left * right
    if "hi" in form.flags:
        product = product >> wide.type(16)
    return product.astype(form.type.value)


def _multiply_add_24(form: Form, a: Array, b: Array, c: Array) -> Array:
    product = _product_24(form, a, b)
    if "sat" in form.flags:
        return limited(product.astype(np.int64) + c.astype(np.int64))
    return product + c


def _mask(form: Form, a: Array, b: Array) -> Array:
    """``bmsk``: ``b`` ones from bit ``a`` on, as far as there are bits."""
    start, length = a & np.uint32(31), b & np.uint32(31)
    low = shift_left(np.full((), _ONES) | (a & np.uint32(0)), start, 32)
    high = shift_left(np.full((), _ONES) | (a & np.uint32(0)), start + length, 32)
    if "clamp" in form.flags:
        low = np.where(a >= 32, np.uint32(0), low)
        high = np.where((a >= 32) | (b >= 32), np.uint32(0), high)
    return low & ~high


def _extend(form: Form, a: Array, b: Array) -> Array:
    """``szext``: the lower ``b`` bits of ``a``, filled up with the highest of them or with 0."""
    length = b & np.uint32(31)
    bits = a.view(np.uint32)
    above = shift_left(np.full((), _ONES) | (b & np.uint32(0)), length, 32)
    if "clamp" in form.flags:
        above = np.where(b >= 32, np.uint32(0), above)
    kept = bits & ~above
    if form.type.kind == "signed":
        top = (bits >> ((length - np.uint32(1)) & np.uint32(31))) & np.uint32(1)
        kept = np.where((top == 1) & (length != 0), kept | above, kept)
    return kept.view(a.dtype)


def _nth_set(form: Form, mask: Array, base: Array, offset: Array) -> Array:
    """``fns``: the ``offset``-th bit set from ``base`` on, upwards or (negative) downwards."""
    found = np.full((), _ONES) | (mask & np.uint32(0))
    wanted = np.where(offset < 0, -offset, offset)
    seen = (mask & np.uint32(0)).astype(np.int32)
    downwards = offset < 0
    for step in range(32):
        place = np.where(downwards, base - np.uint32(step), base + np.uint32(step))
        inside = place < 32
        bit = (mask >> np.where(inside, place, np.uint32(0))) & np.uint32(1)
        is_set = inside & (bit == 1)
        seen = seen + is_set.astype(np.int32)
        here = is_set & (seen == wanted) & (offset != 0)
        if step == 0:
            here = here | (is_set & (offset == 0))
        found = np.where(here & (found == _ONES), place, found)
    return found.astype(np.uint32)


_NARROW = frozenset({"lo", "hi"})
BIT_FIELDS: dict[str, Row] = {
    "mul24": Row(alike(2), alike(1), _product_24, "integer", _NARROW),
    "mad24": Row(alike(3), alike(1), _multiply_add_24, "integer", _NARROW | {"sat"}),
    "bmsk": Row(lambda form: (U32, U32), lambda form: (U32,), _mask, "integer", _MODES),
    "szext": Row(lambda form: (form.type, U32), alike(1), _extend, "integer", _MODES),
    "fns": Row(lambda form: (U32, U32, S32), lambda form: (U32,), _nth_set, "integer"),
}

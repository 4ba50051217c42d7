"""Integer arithmetic and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.types import HOLDERS, TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Array, Form, Row, UnknownForm, alike, plain

U32, S32 = TYPES["u32"], TYPES["s32"]
_WIDER = {16: 32, 32: 64}


def wide(type: PtxType) -> PtxType:
    """The type of twice the width: of ``s32`` it is ``s64``."""
    if type.bits not in _WIDER:
        raise UnknownForm(f"no type is twice as wide as {type.name}")
    return TYPES[f"{type.name[0]}{_WIDER[type.bits]}"]


def product_high(a: Array, b: Array, type: PtxType) -> Array:
    """The upper half of the product of two numbers, which has twice their width."""
    if type.bits < 64:
        bits = np.dtype(f"{'int' if type.kind == 'signed' else 'uint'}64")
        return ((a.astype(bits) * b.astype(bits)) >> bits.type(type.bits)).astype(type.value)
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    low, shift = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = ua & low, ua >> shift, ub & low, ub >> shift
    carry = (a0 * b0) >> shift
    middle = a1 * b0 + carry
    other = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> shift) + (other >> shift)
    if type.kind == "signed":
        # As unsigned numbers, a negative factor counts 2^64 too much.
        zero = np.uint64(0)
        high = high - np.where(a < 0, ub, zero) - np.where(b < 0, ua, zero)
    return high.view(type.value)


def _multiply(form: Form, a: Array, b: Array) -> Array:
    if "wide" in form.flags:
        result = wide(form.type).value
        return a.astype(result) * b.astype(result)
    if "hi" in form.flags:
        return product_high(a, b, form.type)
    return a * b


def multiplied(form: Form) -> tuple[PtxType, ...]:
    """The type of a product, wide or not."""
    return (wide(form.type),) if "wide" in form.flags else (form.type,)


def _multiply_add(form: Form, a: Array, b: Array, c: Array) -> Array:
    if "sat" in form.flags:
        high = product_high(a, b, form.type)
        return limited(high.astype(np.int64) + c.astype(np.int64))
    return _multiply(form, a, b) + c


def _divide(form: Form, a: Array, b: Array) -> Array:
    """Towards zero; by 0 all bits are 1, as on the hardware (PTX leaves it open)."""
    zero = b == 0
    safe = np.where(zero, b.dtype.type(1), b)
    quotient = a // safe
    if form.type.kind == "signed":
        rest = a - quotient * safe
        quotient = quotient + ((rest != 0) & ((a < 0) != (safe < 0)))
    return np.where(zero, b.dtype.type(0) - b.dtype.type(1), quotient).astype(a.dtype)


def _remainder(form: Form, a: Array, b: Array) -> Array:
    safe = np.where(b == 0, b.dtype.type(1), b)
    return np.where(b == 0, a, a - _divide(form, a, safe) * safe).astype(a.dtype)


def shift_left(a: Array, amount: Array, bits: int) -> Array:
    """Amounts from the width on leave nothing."""
    large = amount >= bits
    moved = a << np.where(large, 0, amount).astype(a.dtype)
    return np.where(large, a.dtype.type(0), moved)


def _shift_left(form: Form, a: Array, amount: Array) -> Array:
    return shift_left(a, amount, form.type.bits)


def _shift_right(form: Form, a: Array, amount: Array) -> Array:
    bits = form.type.bits
    limit = np.minimum(amount, bits - 1).astype(a.dtype)
    if form.type.kind == "signed":
        return a >> limit
    return np.where(amount >= bits, a.dtype.type(0), a >> limit)


def _funnel(form: Form, low: Array, high: Array, amount: Array) -> Array:
    """``shf``: 64 bits moved, the upper (``.l``) or lower (``.r``) half kept."""
    amount = amount & 31 if "wrap" in form.flags else np.minimum(amount, 32)
    both = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
    count = amount.astype(np.uint64)
    if "l" in form.flags:
        # Counted from above, so that a shift by 32 stays inside of 64 bits.
        return (both >> (np.uint64(32) - count)).astype(np.uint32)
    return (both >> count).astype(np.uint32)


def _count_bits(form: Form, a: Array) -> Array:
    return np.bitwise_count(a).astype(np.uint32)


def leading_zeros(a: Array, bits: int) -> Array:
    """Zeros above the highest 1; the width where there is none."""
    rest, count = a.astype(np.uint64), np.zeros(np.shape(a), np.uint32)
    for step in (32, 16, 8, 4, 2, 1):
        above = rest >= np.uint64(1 << step)
        count += np.where(above, np.uint32(step), np.uint32(0))
        rest = np.where(above, rest >> np.uint64(step), rest)
    count += (rest != 0).astype(np.uint32)
    return (np.uint32(bits) - count).astype(np.uint32)


def _count_leading_zeros(form: Form, a: Array) -> Array:
    return leading_zeros(a, form.type.bits)


def _find_highest(form: Form, a: Array) -> Array:
    """``bfind``: the place of the highest bit that differs from the sign; all ones without one."""
    bits = form.type.bits
    if form.type.kind == "signed":
        a = np.where(a < 0, ~a, a)
    zeros = leading_zeros(a.view(HOLDERS[bits]), bits)
    found = zeros if "shiftamt" in form.flags else np.uint32(bits - 1) - zeros
    return np.where(zeros == bits, np.uint32(0xFFFFFFFF), found)


def _reverse_bits(form: Form, a: Array) -> Array:
    bits, result = form.type.bits, np.zeros_like(a)
    for place in range(bits):
        one = a.dtype.type(1)
        bit = (a >> a.dtype.type(place)) & one
        result = result | (bit << a.dtype.type(bits - 1 - place))
    return result


def _extract(form: Form, a: Array, position: Array, length: Array) -> Array:
    """``bfe``: ``length`` bits from ``position`` on, of a signed number with its sign."""
    bits = form.type.bits
    position, length = position & 255, length & 255
    unsigned = a.view(HOLDERS[bits])
    moved = np.where(position >= bits, 0, unsigned >> np.minimum(position, bits - 1))
    moved = moved.astype(unsigned.dtype)
    mask = _low_bits(np.minimum(length, bits), unsigned.dtype, bits)
    field = moved & mask
    if form.type.kind == "unsigned":
        return field
    top = np.minimum(position + length - 1, bits - 1)
    sign = (unsigned >> top.astype(unsigned.dtype)) & unsigned.dtype.type(1)
    negative = (sign == 1) & (length > 0)
    return np.where(negative, field | ~mask, field).view(a.dtype)


def _insert(form: Form, a: Array, b: Array, position: Array, length: Array) -> Array:
    """``bfi``: ``length`` bits of a put into b at ``position``."""
    bits = form.type.bits
    position, length = position & 255, np.minimum(length & 255, bits)
    mask = shift_left(_low_bits(length, b.dtype, bits), position, bits)
    return (b & ~mask) | (shift_left(a, position, bits) & mask)


def _low_bits(length: Array, dtype: np.dtype[Any], bits: int) -> Array:
    """So many ones from the lowest bit on."""
    whole = np.array(-1).astype(dtype)
    kept = np.minimum(length, bits - 1).astype(dtype)
    some = np.left_shift(np.array(1, dtype), kept) - np.array(1, dtype)
    return np.where(length >= bits, whole, some).astype(dtype)


def _permute(form: Form, a: Array, b: Array, selector: Array) -> Array:
    """``prmt``: four bytes of the eight of a and b; bit 3 of a choice repeats the byte's sign."""
    mode = form.one_of(("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"))
    both = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
    result = np.zeros_like(a)
    for place in range(4):
        if mode:
            choice = _mode_byte(mode, selector & np.uint32(3), place)
        else:
            choice = (selector >> np.uint32(4 * place)) & np.uint32(15)
        shift = ((choice & np.uint32(7)) * np.uint32(8)).astype(np.uint64)
        byte = ((both >> shift) & np.uint64(255)).astype(np.uint32)
        sign = np.where(byte & 128, np.uint32(255), np.uint32(0))
        byte = np.where(choice & 8, sign, byte)
        result = result | (byte << np.uint32(8 * place))
    return result


def _mode_byte(mode: str, selector: Array, place: int) -> Array:
    """Which byte a mode of ``prmt`` puts at a place."""
    where = np.uint32(place)
    match mode:
        case "f4e":
            return selector + where
        case "b4e":
            return (selector - where) & np.uint32(7)
        case "rc8":
            return selector
        case "ecl":
            return np.maximum(selector, where)
        case "ecr":
            return np.minimum(selector, where)
        case _:
            return (selector & np.uint32(1)) * np.uint32(2) + np.uint32(place % 2)


def _logic3(form: Form, a: Array, b: Array, c: Array, table: Array, *rest: Array) -> Any:
    """``lop3``: bit by bit, the entry of an 8-bit table that the three bits number.

    With a predicate, also whether any bit is set, combined with it.
    """
    result = np.zeros_like(a)
    for row in range(8):
        term = a if row & 4 else ~a
        term = term & (b if row & 2 else ~b) & (c if row & 1 else ~c)
        chosen = (table >> np.uint32(row)) & np.uint32(1)
        result = result | np.where(chosen == 1, term, np.uint32(0))
    if not rest:
        return result
    some = result != 0
    return result, (some | rest[0]) if "or" in form.flags else (some & rest[0])


def _logic3_sources(form: Form) -> tuple[PtxType, ...]:
    combines = not {"and", "or"}.isdisjoint(form.flags)
    return (U32, U32, U32, U32, *((TYPES["pred"],) if combines else ()))


def _absolute_difference(form: Form, a: Array, b: Array, c: Array) -> Array:
    return np.where(a > b, a - b, b - a) + c


def _dot(form: Form, a: Array, b: Array, c: Array) -> Array:
    """``dp4a``: four products of bytes, added to c."""
    total = c
    for place in range(4):
        parts: list[Array] = []
        for value, type in zip((a, b), form.types, strict=False):
            byte = ((value >> np.uint32(8 * place)) & np.uint32(255)).astype(np.uint8)
            parts.append(byte.astype(np.int8) if type.kind == "signed" else byte)
        total = total + parts[0].astype(np.int32) * parts[1].astype(np.int32)
    return total


def _is_zero(a: Array) -> Array:
    return (a == 0).astype(a.dtype)


def _binary(function: Callable[..., Array]) -> Row:
    return Row(alike(2), alike(1), plain(function), "integer")


def limited(value: Array) -> Array:
    """A number of 64 bits as the nearest of 32."""
    limits = np.iinfo(np.int32)
    return np.clip(value, np.int64(limits.min), np.int64(limits.max)).astype(np.int32)


def _saturating(function: Callable[..., Array]) -> Row:
    """A sum of 32 signed bits may stop at the largest and smallest (``.sat``)."""

    def compute(form: Form, a: Array, b: Array) -> Array:
        if "sat" not in form.flags:
            return function(a, b)
        if form.type.name != "s32":
            raise UnknownForm(f"{form.instruction.name}: .sat is of s32")
        return limited(function(a.astype(np.int64), b.astype(np.int64)))

    return Row(alike(2), alike(1), compute, "integer", frozenset({"sat"}))


def _extreme(function: Callable[..., Array]) -> Row:
    """The smaller or larger; ``.relu``: at least 0."""

    def compute(form: Form, a: Array, b: Array) -> Array:
        made = function(a, b)
        return np.maximum(made, made.dtype.type(0)) if "relu" in form.flags else made

    return Row(alike(2), alike(1), compute, "integer", frozenset({"relu"}))


def _shifted(form: Form) -> tuple[PtxType, ...]:
    return form.type, U32


def _field(form: Form) -> tuple[PtxType, ...]:
    return form.type, U32, U32


def _counted(form: Form) -> tuple[PtxType, ...]:
    return (U32,)


_PRODUCTS = frozenset({"lo", "hi", "wide"})

INTEGERS: dict[str, Row] = {
    "add": _saturating(np.add),
    "sub": _saturating(np.subtract),
    "mul": Row(alike(2), multiplied, _multiply, "integer", _PRODUCTS),
    "mad": Row(
        lambda form: (form.type, form.type, *multiplied(form)),
        multiplied,
        _multiply_add,
        "integer",
        _PRODUCTS | {"sat"},
    ),
    "div": Row(alike(2), alike(1), _divide, "integer"),
    "rem": Row(alike(2), alike(1), _remainder, "integer"),
    "abs": Row(alike(1), alike(1), plain(np.abs), "integer"),
    "neg": Row(alike(1), alike(1), plain(np.negative), "integer"),
    "min": _extreme(np.minimum),
    "max": _extreme(np.maximum),
    "sad": Row(alike(3), alike(1), _absolute_difference, "integer"),
    "and": _binary(np.bitwise_and),
    "or": _binary(np.bitwise_or),
    "xor": _binary(np.bitwise_xor),
    "not": Row(alike(1), alike(1), plain(np.invert), "integer"),
    "cnot": Row(alike(1), alike(1), plain(_is_zero), "integer"),
    "shl": Row(_shifted, alike(1), _shift_left, "integer"),
    "shr": Row(_shifted, alike(1), _shift_right, "integer"),
    "shf": Row(
        lambda form: (U32, U32, U32),
        alike(1),
        _funnel,
        "integer",
        frozenset({"l", "r", "wrap", "clamp"}),
    ),
    "popc": Row(alike(1), _counted, _count_bits, "integer"),
    "clz": Row(alike(1), _counted, _count_leading_zeros, "integer"),
    "bfind": Row(alike(1), _counted, _find_highest, "integer", frozenset({"shiftamt"})),
    "brev": Row(alike(1), alike(1), _reverse_bits, "integer"),
    "bfe": Row(_field, alike(1), _extract, "integer"),
    "bfi": Row(lambda form: (form.type, form.type, U32, U32), alike(1), _insert, "integer"),
    "prmt": Row(
        lambda form: (U32, U32, U32),
        alike(1),
        _permute,
        "integer",
        frozenset({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}),
    ),
    "lop3": Row(
        _logic3_sources,
        lambda form: (U32, TYPES["pred"]),
        _logic3,
        "integer",
        frozenset({"and", "or"}),
    ),
    "dp4a": Row(
        lambda form: (U32, U32, TYPES["s32"]), lambda form: (TYPES["s32"],), _dot, "integer"
    ),
}

"""Remainders of division by pi/2, exact enough for every float: quadrant and r with |r| <= pi/4.

The argument's fraction of a quarter turn is its whole mantissa times the bits of 2/pi that its
exponent does not shift into whole turns (Payne and Hanek): a product of integers, whose error does
not grow with the argument. For f32 it is a window of 96 bits among 8 words, chosen by selects; for
f64 one of 192 bits from a table in memory. Smaller arguments can be had cheaper by three parts of
pi/2 and fused multiply-adds (Cody and Waite).
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from xdsl.dialects import memref
from xdsl.dialects.arith import IndexCastOp
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    MemRefType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    i64,
)
from xdsl.ir import Operation

from wia_compiler.passes.expand_math.builder import Expansion, Number
from wia_compiler.passes.expand_math.exponential import whole_number, whole_part

_TWO_OVER_PI = 0.6366197723675814
# pi/2 as the sum of three f32 and of three f64, each the nearest to what those before leave.
_HALF_PI_F32 = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
_HALF_PI_F64 = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
# Up to here the three parts leave enough bits of the remainder.
_LARGE_F32 = float(1 << 15)
_LARGE_F64 = float(1 << 20)
# 2/pi in binary: a word of zeros, then its bits after the point.
_WORDS_32 = (
    0,
    0xA2F9836E,
    0x4E441529,
    0xFC2757D1,
    0xF534DDC0,
    0xDB629599,
    0x3C439041,
    0xFE5163AB,
)
_WORDS_64 = (
    0,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)
_TABLE = "wia_two_over_pi"


@dataclass(frozen=True)
class Reduced:
    """x = quadrant pi/2 + high + low (mod 2 pi); ``quadrant`` counts modulo 4, in an integer."""

    quadrant: Number
    high: Number
    low: Number | None = None


def reduced_f32(x: Number, *, branches: bool) -> Reduced:
    """The remainder of a non-negative f32.

    Without ``branches`` all arguments take the integer way; with them, those up to 2^15 the other.
    """
    if not branches:
        return _by_integers_f32(x)

    def small(inside: Expansion) -> list[Number]:
        reduced = _by_parts_f32(inside.number(x.value))
        return [reduced.quadrant, reduced.high]

    def large(inside: Expansion) -> list[Number]:
        reduced = _by_integers_f32(inside.number(x.value))
        return [reduced.quadrant, reduced.high]

    quadrant, high = x.at.branch(x.compare("olt", _LARGE_F32), small, large)
    return Reduced(quadrant, high)


def reduced_f64(x: Number, *, branches: bool) -> Reduced:
    """The remainder of a non-negative f64, in two parts; large ones take a branch of their own."""

    def small(inside: Expansion) -> list[Number]:
        return _by_parts_f64(inside.number(x.value))

    def large(inside: Expansion) -> list[Number]:
        return _by_integers_f64(inside.number(x.value))

    quadrant, high, low = x.at.branch(x.compare("olt", _LARGE_F64), small, large)
    return Reduced(quadrant, high, low)


def _by_parts_f32(x: Number) -> Reduced:
    shifted, whole = whole_part(x * _TWO_OVER_PI)
    r = x
    for part in _HALF_PI_F32:
        r = whole.fma(-part, r)
    return Reduced(whole_number(shifted), r)


def _by_parts_f64(x: Number) -> list[Number]:
    """The first product cancels exactly; the second, and what it leaves, are kept in two parts."""
    shifted, whole = whole_part(x * _TWO_OVER_PI)
    first, second, third = _HALF_PI_F64
    rest = whole.fma(-first, x)
    product = whole * second
    product_low = whole.fma(second, -product)
    high = rest - product
    # What the difference lost, whichever of the two is larger (Knuth's sum of two).
    virtual = high - rest
    low = (rest - (high - virtual)) - (product + virtual)
    return [whole_number(shifted), high, whole.fma(-third, low - product_low)]


def _by_integers_f32(x: Number) -> Reduced:
    """A quarter turn is 2^94: 96 bits of product hold the quadrant and 94 bits of fraction."""
    bits = x.bits()
    mantissa = ((bits & 0x7FFFFF) | 0x800000).zero_extend(64)
    # The window begins at bit `offset` of the words; from pi/4 on it is not negative.
    offset = bits.logical_shift(23) - 120
    word, shift = offset.logical_shift(5), offset & 31
    first = [word.compare("eq", number) for number in range(1, 5)]
    words: list[Number] = []
    for place in range(4):
        chosen = x.at.constant(_WORDS_32[place], bits.type)
        for number, is_it in enumerate(first, start=1):
            chosen = is_it.select(x.at.constant(_WORDS_32[place + number], bits.type), chosen)
        words.append(chosen)
    high, middle, low = (
        (a << shift) | b.logical_shift(1).logical_shift(31 - shift)
        for a, b in itertools.pairwise(words)
    )
    total = mantissa * low.zero_extend(64)
    total = mantissa * middle.zero_extend(64) + total.logical_shift(32)
    lower = total.truncate(32)
    upper = (mantissa * high.zero_extend(64) + total.logical_shift(32)).truncate(32)
    quadrant = (upper + (1 << 29)).logical_shift(30)
    turned = upper - (quadrant << 30)
    fraction = turned.to_f64().fma(2.0**32, lower.unsigned_to_f64())
    r = (fraction * (math.pi / 2 * 2.0**-62)).to_f32()
    near = x.compare("olt", math.pi / 4)
    return Reduced(near.select(0, quadrant), near.select(x, r))


def _by_integers_f64(x: Number) -> list[Number]:
    """A quarter turn is 2^190: 192 bits of product hold the quadrant and 190 bits of fraction."""
    bits = x.bits()
    mantissa = (bits & ((1 << 52) - 1)) | (1 << 52)
    # An infinite argument must not read past the table; its result is NaN whatever is read.
    exponent = bits.logical_shift(52)
    offset = exponent.compare("ult", 2047).select(exponent, 2046) - 1013
    word, shift = offset.logical_shift(6), offset & 63
    words = [_table_word(word + place) for place in range(4)]
    high, middle, low = (
        (a << shift) | b.logical_shift(1).logical_shift(63 - shift)
        for a, b in itertools.pairwise(words)
    )
    carry = mantissa.multiply_high(low)
    middle_low, middle_high = mantissa * middle, mantissa.multiply_high(middle)
    lower = middle_low + carry
    overflow = lower.compare("ult", carry).select(1, x.at.constant(0, bits.type))
    upper = mantissa * high + middle_high + overflow
    quadrant = (upper + (1 << 61)).logical_shift(62)
    turned = upper - (quadrant << 62)
    parts = [
        (turned >> 32).to_f64() * 2.0**96,
        (turned & 0xFFFFFFFF).to_f64() * 2.0**64,
        lower.logical_shift(32).to_f64() * 2.0**32,
        (lower & 0xFFFFFFFF).to_f64(),
    ]
    # Each part is 0 or larger than all after it, so these sums lose nothing that they do not keep.
    total, rest = _sum(parts[0], parts[1])
    total, more = _sum(total, parts[2])
    total, rest = _sum(total, rest + more + parts[3])
    scale = 2.0**-126
    first, second = _HALF_PI_F64[0] * scale, _HALF_PI_F64[1] * scale
    result = total * first
    return [quadrant, result, total.fma(first, -result) + (total * second + rest * first)]


def _sum(a: Number, b: Number) -> tuple[Number, Number]:
    """a + b and what it lost, where a is 0 or the larger."""
    total = a + b
    return total, (a - total) + b


def _table_word(index: Number) -> Number:
    """A word of 2/pi."""
    at = index.at
    _ensure_table(at.anchor)
    table = at.insert(memref.GetGlobalOp(_TABLE, MemRefType(i64, [len(_WORDS_64)])))
    place = at.insert(IndexCastOp(index.value, IndexType()))
    return at.number(at.insert(memref.LoadOp.get(table, [place])))


def _ensure_table(anchor: Operation) -> None:
    """Add the table to the anchor's module, once."""
    module: Operation = anchor
    while (parent := module.parent_op()) is not None:
        module = parent
    if not isinstance(module, ModuleOp):
        raise TypeError("math is expanded inside a builtin.module, which holds its tables")
    for op in module.body.block.ops:
        if isinstance(op, memref.GlobalOp) and op.sym_name.data == _TABLE:
            return
    signed = [word - (1 << 64) if word >> 63 else word for word in _WORDS_64]
    type_ = MemRefType(i64, [len(signed)])
    values = DenseIntOrFPElementsAttr.from_list(TensorType(i64, [len(signed)]), signed)
    table = memref.GlobalOp.get(StringAttr(_TABLE), type_, values, constant=UnitAttr())
    first = module.body.block.first_op
    assert first is not None
    module.body.block.insert_op_before(table, first)

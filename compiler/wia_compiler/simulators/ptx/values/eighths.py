"""``cvt`` to and from floats of 8 bits: ``e4m3`` and ``e5m2``, two of them in 16 bits.

Numbers are taken apart as integers, so that one text serves both engines.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Array, Form, Row, UnknownForm

_F32_MANTISSA, _F32_BIAS = 23, 127
_NAN = 0x7F


@dataclass(frozen=True)
class _Format:
    """Bits of the mantissa, the bias of the exponent, the largest number."""

    mantissa: int
    bias: int
    largest: float


FORMATS = {"e4m3x2": _Format(3, 7, 448.0), "e5m2x2": _Format(2, 15, 57344.0)}


def _shortened(value: Array, format: _Format) -> Array:
    """f32 to the bits of a format: to nearest, ties to even; what is too large is the largest."""
    bits = value.view(np.uint32)
    size = np.abs(value)
    lowest = np.uint32(_F32_BIAS + 1 - format.bias)
    exponent = np.maximum((bits >> np.uint32(_F32_MANTISSA)) & np.uint32(0xFF), lowest)
    # The distance of neighbours, a power of two; dividing by it and multiplying are exact.
    unit = ((exponent - np.uint32(format.mantissa)) << np.uint32(_F32_MANTISSA)).view(np.float32)
    near = np.minimum(np.rint(size / unit) * unit, np.float32(format.largest))
    near_bits = near.view(np.uint32)
    bias = np.uint32((_F32_BIAS - format.bias) << format.mantissa)
    normal = (near_bits >> np.uint32(_F32_MANTISSA - format.mantissa)) - bias
    smallest = np.float32(2.0 ** (1 - format.bias))
    steps = np.float32(2.0 ** (format.bias - 1 + format.mantissa))
    subnormal = (near * steps).astype(np.uint32)
    made = np.where(near < smallest, subnormal, normal)
    sign = (bits >> np.uint32(24)) & np.uint32(0x80)
    return np.where(np.isnan(value), np.uint32(_NAN), made | sign)


def _lengthened(bits: Array, format: _Format) -> Array:
    """The bits of a format (in 32) to those of an f16."""
    sign = (bits & np.uint32(0x80)) << np.uint32(8)
    size = bits & np.uint32(0x7F)
    if format.mantissa == 2:
        nan = size > np.uint32(0x7C)
        half = size << np.uint32(8)
    else:
        nan = size == np.uint32(_NAN)
        # With the larger bias of an f16, the number is 2^8 times too small.
        small = (size << np.uint32(7)).astype(np.uint16).view(np.float16).astype(np.float32)
        half = (small * np.float32(256)).astype(np.float16).view(np.uint16).astype(np.uint32)
    return np.where(nan, np.uint32(0x7FFF), half | sign)


def _halves(value: Array) -> tuple[Array, Array]:
    """The upper and the lower f16 of 32 bits, as f32."""

    def number(bits: Array) -> Array:
        return bits.astype(np.uint16).view(np.float16).astype(np.float32)

    return number(value >> np.uint32(16)), number(value & np.uint32(0xFFFF))


def _shorten(form: Form, *operands: Array) -> Array:
    format = FORMATS[form.one_of(tuple(FORMATS))]
    high, low = operands if len(operands) == 2 else _halves(operands[0])
    if "relu" in form.flags:
        high, low = (np.where(each < 0, np.float32(0), each) for each in (high, low))
    made = (_shortened(high, format) << np.uint32(8)) | _shortened(low, format)
    return made.astype(np.uint16)


def _lengthen(form: Form, packed: Array) -> Array:
    format = FORMATS[form.one_of(tuple(FORMATS))]
    bits = packed.astype(np.uint32)
    high, low = (
        _lengthened(each, format) for each in (bits >> np.uint32(8), bits & np.uint32(255))
    )
    if "relu" in form.flags:
        zero = np.uint32(0)
        high, low = (np.where(each & np.uint32(0x8000) != 0, zero, each) for each in (high, low))
    return (high << np.uint32(16)) | low


def _sources(form: Form) -> tuple[PtxType, ...]:
    f32 = TYPES["f32"]
    return (f32, f32) if form.type == f32 else (TYPES["b32"],)


_FLAGS = frozenset({"rn", "satfinite", "relu", *FORMATS})
_TO = Row(_sources, lambda form: (TYPES["b16"],), _shorten, "convert", _FLAGS)
_FROM = Row(
    lambda form: (TYPES["b16"],), lambda form: (TYPES["b32"],), _lengthen, "convert", _FLAGS
)


def eighths_row(form: Form) -> Row:
    """The row of a ``cvt`` with a float of 8 bits on one side."""
    words = form.instruction.modifiers
    place = next(number for number, word in enumerate(words) if word in FORMATS)
    if len(form.types) != 1 or form.type.name not in ("f32", "f16x2"):
        raise UnknownForm(form.instruction.name)
    if place == len(words) - 1:
        return _FROM
    if "satfinite" not in form.flags:
        raise UnknownForm(f"{form.instruction.name}: without .satfinite")
    return _TO

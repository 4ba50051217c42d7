"""``cvt``: between types, with PTX's roundings and limits."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.types import PtxType
from wia_compiler.simulators.ptx.values.floats import ROUNDINGS, flush, saturate
from wia_compiler.simulators.ptx.values.form import Array, Form, Row
from wia_compiler.simulators.ptx.values.rounding import canonical, directed

_WHOLE = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_FLAGS = frozenset({*_WHOLE, *ROUNDINGS, "rna", "ftz", "sat", "satfinite", "relu"})


def _types(form: Form) -> tuple[PtxType, PtxType]:
    """Result and source."""
    result, source = form.types[:2]
    return result, source


def _convert(form: Form, *operands: Array) -> Array:
    result, source = _types(form)
    if result.lanes == 2 and len(operands) == 2:
        return _packed(form, *operands)
    (value,) = operands
    if source.kind == "float":
        if "ftz" in form.flags and source.bits == 32:
            value = flush(value)
        if result.kind == "float":
            return _between_floats(form, value, result, source)
        return _float_to_integer(form, value, result, source)
    if result.kind == "float":
        return _integer_to_float(form, value, result)
    return _between_integers(form, value, result)


def _packed(form: Form, high: Array, low: Array) -> Array:
    """Two floats in one register, the first above the second; a row of two for each thread."""
    result = form.types[0]
    halves = [shorter(form, value, result) for value in (low, high)]
    return np.stack(np.broadcast_arrays(*halves), axis=-1)


def shorter(form: Form, value: Array, result: PtxType) -> Array:
    """A number in a shorter float type, rounded and limited as the modifiers say."""
    mode = form.one_of(ROUNDINGS, "rn")
    made = directed(value.astype(np.float64), result.value, mode)
    if "relu" in form.flags:
        made = np.where(made < 0, result.value.type(0), made)
    if "satfinite" in form.flags:
        largest = np.finfo(np.float16).max if result.value == np.float16 else 3.3895314e38
        made = np.where(np.isinf(made), np.copysign(largest, made), made).astype(result.value)
    return canonical(made)


def _between_floats(form: Form, value: Array, result: PtxType, source: PtxType) -> Array:
    if result.name == "tf32":
        return _to_tf32(form, value)
    whole = form.one_of(tuple(_WHOLE))
    if whole:
        made = _WHOLE[whole](value).astype(result.value)
    elif result.bits < source.bits or result.value != source.value:
        made = shorter(form, value, result)
    else:
        made = value.astype(result.value)
    if "ftz" in form.flags and result.bits == 32:
        made = flush(made)
    return saturate(made) if "sat" in form.flags else canonical(made)


def _to_tf32(form: Form, value: Array) -> Array:
    """10 bits of mantissa: ``rna`` rounds ties away from zero, ``rn`` to even, ``rz`` cuts."""
    bits = value.view(np.uint32)
    mode = form.one_of(("rna", "rn", "rz"), "rna")
    odd = (bits >> np.uint32(13)) & np.uint32(1)
    added = {"rna": np.uint32(0x1000), "rn": np.uint32(0xFFF) + odd, "rz": np.uint32(0)}[mode]
    made = np.where(np.isfinite(value), (bits + added) & np.uint32(0xFFFFE000), bits)
    return made.astype(np.uint32).view(np.float32)


def _float_to_integer(form: Form, value: Array, result: PtxType, source: PtxType) -> Array:
    whole = _WHOLE[form.one_of(tuple(_WHOLE), "rzi")](value.astype(np.float64))
    limits = np.iinfo(result.value)
    large, small = whole >= float(limits.max), whole <= float(limits.min)
    inside = np.where(large | small | np.isnan(whole), 0, whole).astype(result.value)
    made = np.where(large, limits.max, np.where(small, limits.min, inside))
    # NaN: 0, but the top bit where a type of 64 bits takes part (PTX ISA, cvt).
    wide = 64 in (result.bits, source.bits)
    nan = np.array(1 << (result.bits - 1) if wide else 0, np.uint64)
    return np.where(np.isnan(whole), nan.astype(result.value), made.astype(result.value))


def _integer_to_float(form: Form, value: Array, result: PtxType) -> Array:
    mode = form.one_of(ROUNDINGS, "rn")
    if mode == "rn" and result.value != np.float16:
        made = value.astype(result.value)
    else:
        made = directed(value.astype(np.float64), result.value, mode)
    return saturate(made) if "sat" in form.flags else made


def _between_integers(form: Form, value: Array, result: PtxType) -> Array:
    if "sat" not in form.flags:
        return value.astype(result.value)
    limits = np.iinfo(result.value)
    have = np.iinfo(value.dtype)
    low, high = max(limits.min, have.min), min(limits.max, have.max)
    return np.clip(value, value.dtype.type(low), value.dtype.type(high)).astype(result.value)


def _sources(form: Form) -> tuple[PtxType, ...]:
    result, source = _types(form)
    packs = result.lanes == 2 and source.lanes == 1
    return (source, source) if packs else (source,)


CONVERSIONS: dict[str, Row] = {
    "cvt": Row(_sources, lambda form: (form.types[0],), _convert, "convert", _FLAGS),
}

"""Floating-point arithmetic: IEEE 754 where PTX says so, correctly rounded where it allows less."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from wia_compiler.simulators.ptx.types import PtxType
from wia_compiler.simulators.ptx.values.form import Array, Form, Row, UnknownForm, alike
from wia_compiler.simulators.ptx.values.rounding import (
    canonical,
    directed,
    fused,
    fused_error,
    to_odd,
    two_product,
    two_sum,
)

ROUNDINGS = ("rn", "rz", "rm", "rp")
_EVERYWHERE = frozenset({"ftz", "sat", "relu", *ROUNDINGS})
Function = Callable[..., Array]


def flush(value: Array) -> Array:
    """Subnormal numbers as zeros of their sign."""
    small = np.abs(value) < np.finfo(np.float32).tiny
    return np.where(small, np.copysign(value.dtype.type(0), value), value)


def saturate(value: Array) -> Array:
    """Numbers kept in [0, 1]; NaN becomes 0."""
    kept = np.where(np.isnan(value), value.dtype.type(0), value)
    return np.clip(kept, value.dtype.type(0), value.dtype.type(1))


def _finish(form: Form, value: Array) -> Array:
    if "ftz" in form.flags and value.dtype == np.float32:
        value = flush(value)
    if "sat" in form.flags:
        return saturate(value)
    if "relu" in form.flags:
        value = np.where(value < 0, value.dtype.type(0), value)
    return canonical(value)


def _operation(function: Callable[..., Array]) -> Callable[..., Array]:
    """What surrounds every operation: flushing, saturation, the NaN of the hardware."""

    def compute(form: Form, *operands: Array) -> Array:
        if "ftz" in form.flags and operands[0].dtype == np.float32:
            operands = tuple(flush(operand) for operand in operands)
        return _finish(form, function(form, *operands))

    return compute


def _rounded(
    form: Form, plain: Function, exact: Callable[..., tuple[Array, Array]], *operands: Array
) -> Array:
    """``plain`` rounds to nearest; ``exact`` gives a sum or product as (rounded, error) in f64."""
    mode = form.one_of(ROUNDINGS, "rn")
    if mode == "rn":
        return plain(*operands)
    if operands[0].dtype == np.float64:
        total, error = exact(*operands)
        return _move(total, error, mode)
    total, error = exact(*(operand.astype(np.float64) for operand in operands))
    return directed(to_odd(total, error), operands[0].dtype, mode)


def _move(total: Array, error: Array, mode: str) -> Array:
    """A rounded f64 moved to its neighbour where a directed rounding wants that."""
    down, up = np.nextafter(total, -np.inf), np.nextafter(total, np.inf)
    lower, upper = np.where(error < 0, down, total), np.where(error > 0, up, total)
    if mode == "rz":
        return np.where(total < 0, upper, lower)
    return lower if mode == "rm" else upper


def _add(form: Form, a: Array, b: Array) -> Array:
    return _rounded(form, np.add, two_sum, a, b)


def _subtract(form: Form, a: Array, b: Array) -> Array:
    def exact(x: Array, y: Array) -> tuple[Array, Array]:
        return two_sum(x, -y)

    return _rounded(form, np.subtract, exact, a, b)


def _multiply(form: Form, a: Array, b: Array) -> Array:
    return _rounded(form, np.multiply, two_product, a, b)


def _fused(form: Form, a: Array, b: Array, c: Array) -> Array:
    def exact(x: Array, y: Array, z: Array) -> tuple[Array, Array]:
        return two_sum(x * y, z)

    mode = form.one_of(ROUNDINGS, "rn")
    if mode != "rn" and a.dtype == np.float64:
        near = fused(a, b, c)
        return _move(near, _overflown(near, fused_error(a, b, c, near), a, b, c), mode)
    return _rounded(form, fused, exact, a, b, c)


def _quotient(form: Form, a: Array, b: Array) -> Array:
    return _in_double(form, np.divide, a, b)


def _reciprocal(form: Form, a: Array) -> Array:
    return _in_double(form, np.reciprocal, a)


def _square_root(form: Form, a: Array) -> Array:
    return _in_double(form, np.sqrt, a)


def _reciprocal_root(a: Array) -> Array:
    return 1 / np.sqrt(a)


def _copy_sign(form: Form, sign: Array, value: Array) -> Array:
    return np.copysign(value, sign)


def _in_double(form: Form, function: Function, *operands: Array) -> Array:
    """A function whose result in f64 is rounded again; f64 itself rounds to nearest."""
    mode = form.one_of(ROUNDINGS, "rn")
    dtype = operands[0].dtype
    if dtype == np.float64:
        near = function(*operands)
        return near if mode == "rn" else _directed_double(function, near, mode, *operands)
    if mode == "rn":
        return function(*operands).astype(dtype)
    return directed(function(*(each.astype(np.float64) for each in operands)), dtype, mode)


def _overflown(near: Array, error: Array, *operands: Array) -> Array:
    """The error of a result; of an infinite one of finite numbers, that it is too large."""
    finite = np.isfinite(operands[0])
    for each in operands[1:]:
        finite = finite & np.isfinite(each)
    error = np.where(np.isfinite(near), error, np.float64(0))
    return np.where(np.isinf(near) & finite, -np.copysign(np.float64(1), near), error)


def _directed_double(function: Function, near: Array, mode: str, *operands: Array) -> Array:
    """A quotient, reciprocal or root of f64 moved to where its remainder says that it must go."""
    if function is np.sqrt:
        rest = fused(-near, near, operands[0])
        return _move(near, np.where(np.isfinite(near), rest, np.float64(0)), mode)
    under = operands[-1]
    over = operands[0] if len(operands) == 2 else np.abs(under) * np.float64(0) + np.float64(1)
    over = np.where(np.isfinite(under), over, np.float64(1)) if len(operands) == 1 else over
    rest = fused(-near, under, over)
    error = np.where(under < 0, -rest, rest)
    moved = _move(near, _overflown(near, error, over, under), mode)
    return np.where(under == 0, near, moved)


def _through_double(function: Function) -> Function:
    """A function correctly rounded, but for ties that f64 does not tell apart."""

    def compute(form: Form, *operands: Array) -> Array:
        wide = (operand.astype(np.float64) for operand in operands)
        return function(*wide).astype(operands[0].dtype)

    return compute


def _extreme(pick: Callable[[Array, Array], Array], nan_wins: Callable[..., Array]) -> Function:
    def compute(form: Form, a: Array, b: Array, *more: Array) -> Array:
        sign = np.signbit(a) ^ np.signbit(b)
        if "abs" in form.flags:
            a, b = np.abs(a), np.abs(b)
        made: Array = extreme(form, a, b)
        for third in more:
            each: Array = np.abs(third) if "abs" in form.flags else third
            made = extreme(form, made, each)
        if "xorsign" not in form.flags:
            return made
        one = a.dtype.type(1)
        towards = cast("Array", np.where(sign, -one, one))
        signed = np.copysign(made, towards)
        return np.where(np.isnan(made), made, signed).astype(a.dtype)

    def extreme(form: Form, a: Array, b: Array) -> Array:
        either = (np.isnan(a) | np.isnan(b)) if "NaN" in form.flags else np.False_
        chosen = nan_wins(a, b) if np.any(either) else pick(a, b)
        # -0 is smaller than +0, which a comparison does not see.
        equal = (a == b) & (a == 0)
        negative = np.signbit(a), np.signbit(b)
        smaller = pick is np.fmin
        sign = (negative[0] | negative[1]) if smaller else (negative[0] & negative[1])
        chosen = np.where(either, np.array(np.nan, a.dtype), chosen)
        if np.any(equal):
            zero = np.where(sign, np.array(-0.0, a.dtype), np.array(0.0, a.dtype))
            chosen = np.where(equal, zero, chosen)
        return chosen.astype(a.dtype)

    return compute


def test_property(form: Form, a: Array) -> Array:
    """``testp``: what kind of number a float is."""
    small = np.abs(a) < np.finfo(a.dtype).tiny
    tests = {
        "finite": np.isfinite(a),
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": np.isfinite(a) & ~small,
        "subnormal": small & (a != 0),
    }
    return tests[form.one_of(tuple(tests))]


def _extreme_row(function: Function) -> Row:
    """Of two numbers, or of three (of f32)."""

    def sources(form: Form) -> tuple[PtxType, ...]:
        count = len(form.instruction.operands) - 1
        if count == 3 and form.type.name != "f32":
            raise UnknownForm(f"{form.instruction.name} with {count} sources")
        return (form.type,) * max(2, min(count, 3))

    flags = (_EVERYWHERE - {"sat", "relu"}) | {"NaN", "noftz", "abs", "xorsign"}
    return Row(sources, alike(1), _operation(function), "float", flags, 1)


def _row(count: int, function: Function, *, flops: int = 1, special: bool = False) -> Row:
    pipe = "special" if special else "float"
    flags = _EVERYWHERE | {"approx", "full", "NaN", "noftz"}
    return Row(alike(count), alike(1), _operation(function), pipe, flags, flops)


def _sign_bit(function: Callable[[Array], Array]) -> Row:
    """Negation and absolute value keep a NaN's bits, and flush where asked to."""

    def compute(form: Form, a: Array) -> Array:
        return flush(function(a)) if "ftz" in form.flags else function(a)

    return Row(alike(1), alike(1), compute, "float", frozenset({"ftz"}))


FLOATS: dict[str, Row] = {
    "add": _row(2, _add),
    "sub": _row(2, _subtract),
    "mul": _row(2, _multiply),
    "fma": _row(3, _fused, flops=2),
    "mad": _row(3, _fused, flops=2),
    "div": _row(2, _quotient),
    "rcp": _row(1, _reciprocal, special=True),
    "sqrt": _row(1, _square_root, special=True),
    "rsqrt": _row(1, _through_double(_reciprocal_root), special=True),
    "ex2": _row(1, _through_double(np.exp2), special=True),
    "lg2": _row(1, _through_double(np.log2), special=True),
    "sin": _row(1, _through_double(np.sin), special=True),
    "cos": _row(1, _through_double(np.cos), special=True),
    "tanh": _row(1, _through_double(np.tanh), special=True),
    "min": _extreme_row(_extreme(np.fmin, np.minimum)),
    "max": _extreme_row(_extreme(np.fmax, np.maximum)),
    "abs": _sign_bit(np.abs),
    "neg": _sign_bit(np.negative),
    "copysign": Row(alike(2), alike(1), _copy_sign, "float"),
}


def _mixed(count: int, function: Function, flops: int) -> Row:
    """``add.f32.bf16``: all sources but the last are halves, exact in f32; the sum is an f32."""

    def sources(form: Form) -> tuple[PtxType, ...]:
        result, narrow = form.types
        return (*(narrow,) * (count - 1), result)

    def compute(form: Form, *operands: Array) -> Array:
        return _operation(function)(form, *(each.astype(np.float32) for each in operands))

    return Row(sources, lambda form: (form.types[0],), compute, "float", _EVERYWHERE, flops)


MIXED: dict[str, Row] = {
    "add": _mixed(2, _add, 1),
    "sub": _mixed(2, _subtract, 1),
    "fma": _mixed(3, _fused, 2),
}
"""Operations whose modifiers name two types (PTX ISA 8.6, "Mixed Precision Floating Point")."""

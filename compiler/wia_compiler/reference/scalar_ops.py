"""The scalar ops of leaf bodies (``arith``, ``math``) on numpy arrays, by op name.

A signless integer is held in numpy's signed dtype of its width; unsigned ops look at it through
the unsigned one. An ``i1`` is numpy's bool.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IndexType, IntegerAttr, IntegerType
from xdsl.ir import Attribute, Operation

from wia_compiler.dialects.types import dtype_of
from wia_compiler.reference.elementwise import largest, maximum, minimum, smallest
from wia_compiler.reference.meaning import evaluate
from wia_compiler.reference.rounding import Array, round_to

Rule = Callable[..., Array]

_PREDICATES: tuple[tuple[str, Callable[[Array, Array], Array]], ...] = (
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("slt", np.less),
    ("sle", np.less_equal),
    ("sgt", np.greater),
    ("sge", np.greater_equal),
    ("ult", np.less),
    ("ule", np.less_equal),
    ("ugt", np.greater),
    ("uge", np.greater_equal),
)
_ORDERED: dict[str, Callable[[Array, Array], Array]] = {
    "false": lambda a, b: _unordered(a, b) & False,
    "oeq": np.equal,
    "ogt": np.greater,
    "oge": np.greater_equal,
    "olt": np.less,
    "ole": np.less_equal,
    "one": lambda a, b: np.less(a, b) | np.greater(a, b),
    "ord": lambda a, b: ~_unordered(a, b),
    "ueq": lambda a, b: np.equal(a, b) | _unordered(a, b),
    "ugt": lambda a, b: ~np.less_equal(a, b),
    "uge": lambda a, b: ~np.less(a, b),
    "ult": lambda a, b: ~np.greater_equal(a, b),
    "ule": lambda a, b: ~np.greater(a, b),
    "une": np.not_equal,
    "uno": lambda a, b: _unordered(a, b),
    "true": lambda a, b: _unordered(a, b) | True,
}
_MATH = (
    "exp",
    "exp2",
    "log",
    "log2",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "atan",
    "tanh",
    "erf",
    "floor",
    "ceil",
)

FOLDS: dict[str, np.ufunc] = {
    "arith.addf": np.add,
    "arith.mulf": np.multiply,
    "arith.maximumf": np.maximum,
    "arith.minimumf": np.minimum,
    "arith.addi": np.add,
    "arith.muli": np.multiply,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": np.maximum,
    "arith.minui": np.minimum,
}
"""How the fold op of a leaf combines; the unsigned ones on unsigned dtypes."""


def fold_axes(ufunc: np.ufunc, x: Array, axes: tuple[int, ...]) -> Array:
    """``x`` folded over axes, which are kept with size 1; signed zeros as ``combine`` has them."""
    if ufunc is np.maximum and x.size:
        return largest(x, axes, True)
    if ufunc is np.minimum and x.size:
        return smallest(x, axes, True)
    return np.asarray(ufunc.reduce(x, axis=axes, keepdims=True, dtype=x.dtype))


def combine(ufunc: np.ufunc, a: Array, b: Array) -> Array:
    """Two partial folds as one; +0 is larger than -0."""
    if ufunc is np.maximum:
        return maximum(a, b)
    return minimum(a, b) if ufunc is np.minimum else np.asarray(ufunc(a, b))


def numpy_type(scalar: Attribute) -> np.dtype[Any]:
    """The numpy dtype that holds a scalar type of the mid level; an index has 64 bits."""
    return np.dtype(np.int64) if isinstance(scalar, IndexType) else dtype_of(scalar).numpy


def _unordered(a: Array, b: Array) -> Array:
    return np.isnan(a) | np.isnan(b)


def unsigned(array: Array) -> Array:
    """The bits of a signless integer array as unsigned numbers."""
    return array if array.dtype == np.bool_ else array.view(array.dtype.str.replace("i", "u"))


def signless(array: Array) -> Array:
    """Unsigned numbers back as a signless integer array."""
    return array if array.dtype == np.bool_ else array.view(array.dtype.str.replace("u", "i"))


def apply(op: Operation, operands: Sequence[Array]) -> Array:
    """The result of one scalar op on arrays; ``KeyError`` names an op that has no meaning here."""
    with np.errstate(all="ignore"):
        if isinstance(op, arith.ConstantOp):
            return _constant(op)
        if isinstance(op, arith.CmpiOp):
            return _compare_integers(op.predicate.value.data, *operands)
        if isinstance(op, arith.CmpfOp):
            name = arith.CMPF_COMPARISON_OPERATIONS[op.predicate.value.data]
            return _ORDERED[name](*operands)
        kind = op.results[0].type
        if op.name in _CONVERSIONS:
            return _CONVERSIONS[op.name](operands[0], kind)
        return np.asarray(_RULES[op.name](*operands)).astype(numpy_type(kind), copy=False)


def _constant(op: arith.ConstantOp) -> Array:
    value = cast("IntegerAttr[IntegerType] | FloatAttr[Any]", op.value)
    return np.asarray(value.value.data).astype(numpy_type(op.result.type))


def _compare_integers(predicate: int, a: Array, b: Array) -> Array:
    name, compare = _PREDICATES[predicate]
    return compare(unsigned(a), unsigned(b)) if name.startswith("u") else compare(a, b)


def _math(name: str) -> Rule:
    def apply_function(x: Array) -> Array:
        return evaluate(name, {"input": x}, {})

    return apply_function


def _power(x: Array, y: Array) -> Array:
    return evaluate("pow", {"input": x, "other": y}, {})


def _multiply_add(a: Array, b: Array, c: Array) -> Array:
    """``a * b + c`` in the next wider type: exact products of f32, one more rounding of the sum."""
    wide = np.float64 if a.dtype.itemsize < 8 else np.longdouble
    return np.asarray(a.astype(wide) * b.astype(wide) + c.astype(wide))


def _unsigned(function: Callable[[Array, Array], Array]) -> Rule:
    def apply_unsigned(a: Array, b: Array) -> Array:
        return signless(np.asarray(function(unsigned(a), unsigned(b))))

    return apply_unsigned


def _shifted(function: Callable[[Array, Array], Array]) -> Rule:
    def shift(a: Array, count: Array) -> Array:
        if np.any((count < 0) | (count >= a.dtype.itemsize * 8)):
            raise OverflowError("a shift by as many bits as a number has is undefined")
        return function(a, count)

    return shift


def _divide_signed(a: Array, b: Array) -> Array:
    if np.any(b == 0) or np.any((b == -1) & (a == np.iinfo(a.dtype).min)):
        raise ZeroDivisionError("a signed division of a leaf's body is undefined")
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) != (b < 0), -quotient, quotient)


def _remainder_signed(a: Array, b: Array) -> Array:
    return a - _divide_signed(a, b).astype(a.dtype) * b


def _divide_unsigned(a: Array, b: Array) -> Array:
    if np.any(b == 0):
        raise ZeroDivisionError("an unsigned division of a leaf's body is undefined")
    return a // b


_RULES: dict[str, Rule] = {
    "arith.addf": np.add,
    "arith.subf": np.subtract,
    "arith.mulf": np.multiply,
    "arith.divf": np.divide,
    "arith.remf": np.fmod,
    "arith.negf": np.negative,
    "arith.maximumf": maximum,
    "arith.minimumf": minimum,
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.maxsi": np.maximum,
    "arith.minsi": np.minimum,
    "arith.maxui": _unsigned(np.maximum),
    "arith.minui": _unsigned(np.minimum),
    "arith.divsi": _divide_signed,
    "arith.remsi": _remainder_signed,
    "arith.divui": _unsigned(_divide_unsigned),
    "arith.remui": _unsigned(np.remainder),
    "arith.shli": _shifted(np.left_shift),
    "arith.shrsi": _shifted(np.right_shift),
    "arith.shrui": _unsigned(np.right_shift),
    "arith.select": np.where,
    "math.fma": _multiply_add,
    "math.absf": np.abs,
    "math.absi": np.abs,
    "math.trunc": np.trunc,
    "math.copysign": np.copysign,
    "math.roundeven": np.rint,
    "math.powf": _power,
    **{f"math.{name}": _math(name) for name in _MATH},
}


def _truncate(x: Array, kind: Attribute) -> Array:
    return round_to(x, dtype_of(kind))


def _to_signed(x: Array, kind: Attribute) -> Array:
    return _to_integer(x, numpy_type(kind))


def _to_unsigned(x: Array, kind: Attribute) -> Array:
    target = np.dtype(numpy_type(kind).str.replace("i", "u"))
    return signless(_to_integer(x, target))


def _to_integer(x: Array, target: np.dtype[Any]) -> Array:
    """Truncates; refuses what LLVM leaves undefined: NaN and values outside the target's range."""
    limits = np.iinfo(target)
    truncated = np.trunc(x)
    # The limit above the largest integer is a power of two, exact in every float dtype.
    if not np.all((truncated >= limits.min) & (truncated < float(limits.max + 1))):
        raise OverflowError("a float does not fit the integer it is converted to")
    return truncated.astype(target)


_CONVERSIONS: dict[str, Callable[[Array, Attribute], Array]] = {
    "arith.extf": lambda x, kind: x.astype(numpy_type(kind)),
    "arith.truncf": _truncate,
    "arith.sitofp": lambda x, kind: x.astype(numpy_type(kind)),
    "arith.uitofp": lambda x, kind: unsigned(x).astype(numpy_type(kind)),
    "arith.fptosi": _to_signed,
    "arith.fptoui": _to_unsigned,
    "arith.extsi": lambda x, kind: x.astype(numpy_type(kind)),
    "arith.extui": lambda x, kind: unsigned(x).astype(numpy_type(kind)),
    "arith.trunci": lambda x, kind: x.astype(numpy_type(kind)),
    "arith.index_cast": lambda x, kind: x.astype(numpy_type(kind)),
    "arith.bitcast": lambda x, kind: np.ascontiguousarray(x).view(numpy_type(kind)),
}

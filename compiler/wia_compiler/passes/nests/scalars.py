"""The scalar meaning of each elementwise primitive, as ``arith`` and ``math`` ops.

f16 and bf16 are computed in f32 and rounded after every op. No op here can be undefined: an
integer divided by 0 is 0, the most negative integer divided by -1 stays itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith, math
from xdsl.ir import Operation, SSAValue

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.arith_remf import RemFOp
from wia_compiler.passes.nests.body import Body, compute_dtype

Rule = Callable[[Body, DType, Sequence[SSAValue]], SSAValue]

Unary = Callable[[SSAValue], Operation]
Binary = Callable[[SSAValue, SSAValue], Operation]

_UNARY_MATH: dict[str, Unary] = {
    "exp": math.ExpOp,
    "exp2": math.Exp2Op,
    "log": math.LogOp,
    "log2": math.Log2Op,
    "sqrt": math.SqrtOp,
    "rsqrt": math.RsqrtOp,
    "sin": math.SinOp,
    "cos": math.CosOp,
    "atan": math.AtanOp,
    "tanh": math.TanhOp,
    "erf": math.ErfOp,
    "floor": math.FloorOp,
    "ceil": math.CeilOp,
    "round": math.RoundEvenOp,
}
# name: (float op, signed op, unsigned op)
_BINARY: dict[str, tuple[Binary, Binary, Binary]] = {
    "add": (arith.AddfOp, arith.AddiOp, arith.AddiOp),
    "sub": (arith.SubfOp, arith.SubiOp, arith.SubiOp),
    "mul": (arith.MulfOp, arith.MuliOp, arith.MuliOp),
    "min": (arith.MinimumfOp, arith.MinSIOp, arith.MinUIOp),
    "max": (arith.MaximumfOp, arith.MaxSIOp, arith.MaxUIOp),
}
# name: (float, signed, unsigned or bool)
_COMPARISONS = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}
# Integers and bools alike
_BITWISE: dict[str, Binary] = {
    "logical_and": arith.AndIOp,
    "logical_or": arith.OrIOp,
    "bitwise_and": arith.AndIOp,
    "bitwise_or": arith.OrIOp,
    "bitwise_xor": arith.XOrIOp,
}


def apply_scalar(body: Body, name: str, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    """One element of an elementwise primitive other than ``cast``.

    ``dtype`` is that of the operands (for ``where`` and the logical ops it does not matter).
    """
    if name == "where":
        return body.select(*operands)
    if name in _BITWISE:
        return body.add(_BITWISE[name](operands[0], operands[1]))
    if name in ("logical_not", "bitwise_not"):
        return body.add(arith.XOrIOp(operands[0], _all_bits(body, dtype)))
    wide = [body.widen(value, dtype) for value in operands]
    if name in _COMPARISONS:
        return body.compare(_COMPARISONS[name][_column(dtype)], *wide)
    return body.narrow(_arithmetic(body, name, compute_dtype(dtype), wide), dtype)


def _column(dtype: DType) -> int:
    """Which column of the tables serves a dtype: float, signed, or unsigned and bool."""
    return 0 if dtype.is_float else 1 if dtype.kind == "int" else 2


def _arithmetic(body: Body, name: str, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    if name in _BINARY:
        return body.add(_BINARY[name][_column(dtype)](operands[0], operands[1]))
    if name in _UNARY_MATH:
        return body.add(_UNARY_MATH[name](operands[0]))
    return _RULES[name](body, dtype, operands)


def _divide(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    return body.add(arith.DivfOp(operands[0], operands[1]))


def _power(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    return body.add(math.PowFOp(operands[0], operands[1]))


def _negate(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    if dtype.is_float:
        return body.add(arith.NegfOp(operands[0]))
    return body.add(arith.SubiOp(body.constant(0, dtype), operands[0]))


def _absolute(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    (value,) = operands
    if dtype.is_float:
        return body.add(math.AbsFOp(value))
    if dtype.kind == "uint":
        return value
    negative = body.compare("slt", value, body.constant(0, dtype))
    return body.select(negative, _negate(body, dtype, operands), value)


def _all_bits(body: Body, dtype: DType) -> SSAValue:
    """The value whose bits are all set."""
    if dtype.kind == "bool":
        return body.constant(True, dtype)
    return body.constant(-1 if dtype.kind == "int" else (1 << dtype.bits) - 1, dtype)


def _shift_left(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    value, amount = operands
    inside, safe = _shift_amount(body, dtype, amount)
    return body.select(inside, body.add(arith.ShLIOp(value, safe)), body.constant(0, dtype))


def _shift_right(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    """Beyond the last bit a number shifts to what its sign repeats."""
    value, amount = operands
    inside, safe = _shift_amount(body, dtype, amount)
    if dtype.kind == "uint":
        shifted = body.add(arith.ShRUIOp(value, safe))
        return body.select(inside, shifted, body.constant(0, dtype))
    furthest = body.constant(dtype.bits - 1, dtype)
    return body.add(arith.ShRSIOp(value, body.select(inside, safe, furthest)))


def _shift_amount(body: Body, dtype: DType, amount: SSAValue) -> tuple[SSAValue, SSAValue]:
    """Whether an amount is 0 to bits - 1, and one that always is, as MLIR's shifts ask for."""
    inside = body.compare("ult", amount, body.constant(dtype.bits, dtype))
    return inside, body.select(inside, amount, body.constant(0, dtype))


def _floor_divide(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    if dtype.is_float:
        return _float_division(body, dtype, *operands)[0]
    return _integer_division(body, dtype, *operands)[0]


def _modulo(body: Body, dtype: DType, operands: Sequence[SSAValue]) -> SSAValue:
    if dtype.is_float:
        return _float_division(body, dtype, *operands)[1]
    return _integer_division(body, dtype, *operands)[1]


def _integer_division(
    body: Body, dtype: DType, a: SSAValue, b: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Quotient rounded down and its remainder; both 0 where the divisor is 0."""
    zero, one = body.constant(0, dtype), body.constant(1, dtype)
    by_zero = body.compare("eq", b, zero)
    if dtype.kind == "uint":
        safe = body.select(by_zero, one, b)
        quotient = body.add(arith.DivUIOp(a, safe))
        remainder = body.add(arith.RemUIOp(a, safe))
        return body.select(by_zero, zero, quotient), body.select(by_zero, zero, remainder)
    smallest = body.constant(-(1 << (dtype.bits - 1)), dtype)
    is_smallest = body.compare("eq", a, smallest)
    by_minus_one = body.compare("eq", b, body.constant(-1, dtype))
    overflows = body.add(arith.AndIOp(is_smallest, by_minus_one))
    # Divided by 1 instead, the most negative integer stays itself, with remainder 0.
    safe = body.select(body.add(arith.OrIOp(by_zero, overflows)), one, b)
    quotient = body.add(arith.DivSIOp(a, safe))
    remainder = body.add(arith.RemSIOp(a, safe))
    inexact = body.compare("ne", remainder, zero)
    signs = body.compare("slt", body.add(arith.XOrIOp(remainder, safe)), zero)
    adjust = body.add(arith.AndIOp(inexact, signs))
    floored = body.select(adjust, body.add(arith.SubiOp(quotient, one)), quotient)
    modulo = body.select(adjust, body.add(arith.AddiOp(remainder, safe)), remainder)
    return body.select(by_zero, zero, floored), body.select(by_zero, zero, modulo)


def _float_division(
    body: Body, dtype: DType, a: SSAValue, b: SSAValue
) -> tuple[SSAValue, SSAValue]:
    """Floored quotient and remainder, step by step as numpy's ``npy_divmod`` takes them."""
    zero, one = body.constant(0.0, dtype), body.constant(1.0, dtype)
    remainder = body.add(RemFOp(a, b))
    exact = body.add(arith.DivfOp(a, b))
    quotient = body.add(arith.DivfOp(body.add(arith.SubfOp(a, remainder)), b))
    inexact = body.compare("une", remainder, zero)
    b_negative = body.compare("olt", b, zero)
    signs = body.add(arith.XOrIOp(b_negative, body.compare("olt", remainder, zero)))
    adjust = body.add(arith.AndIOp(inexact, signs))
    shifted = body.select(adjust, body.add(arith.AddfOp(remainder, b)), remainder)
    modulo = body.select(inexact, shifted, body.add(math.CopySignOp(zero, b)))
    quotient = body.select(adjust, body.add(arith.SubfOp(quotient, one)), quotient)
    # The quotient is within rounding of a whole number: snap to the nearest.
    floor = body.add(math.FloorOp(quotient))
    excess = body.add(arith.SubfOp(quotient, floor))
    rounds_up = body.compare("ogt", excess, body.constant(0.5, dtype))
    snapped = body.select(rounds_up, body.add(arith.AddfOp(floor, one)), floor)
    is_zero = body.compare("oeq", quotient, zero)
    snapped = body.select(is_zero, body.add(math.CopySignOp(zero, exact)), snapped)
    by_zero = body.compare("oeq", b, zero)
    return body.select(by_zero, exact, snapped), body.select(by_zero, remainder, modulo)


_RULES: dict[str, Rule] = {
    "div": _divide,
    "pow": _power,
    "neg": _negate,
    "abs": _absolute,
    "bitwise_left_shift": _shift_left,
    "bitwise_right_shift": _shift_right,
    "floordiv": _floor_divide,
    "mod": _modulo,
}

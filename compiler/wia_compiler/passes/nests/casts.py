"""Scalar conversions between the element types, without undefined results."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import BOOL, F32, F64, DType
from wia_compiler.passes.nests.body import (
    Body,
    compute_dtype,
    float_type,
    integer_type,
    scalar_type,
)


def cast_scalar(body: Body, value: SSAValue, source: DType, target: DType) -> SSAValue:
    """``value`` in another dtype, by the rules of ``wia.cast``."""
    if source == target:
        return value
    if target == BOOL:
        return _to_bool(body, value, source)
    if source.is_float:
        return _from_float(body, value, source, target)
    if target.is_float:
        return _integer_to_float(body, value, source, target)
    return _integer_to_integer(body, value, source, target)


def _to_bool(body: Body, value: SSAValue, source: DType) -> SSAValue:
    """``x != 0``; NaN is not 0."""
    wide = body.widen(value, source)
    predicate = "une" if source.is_float else "ne"
    return body.compare(predicate, wide, body.constant(0, compute_dtype(source)))


def _from_float(body: Body, value: SSAValue, source: DType, target: DType) -> SSAValue:
    if target.is_float:
        return _float_to_float(body, value, source, target)
    return _float_to_integer(body, body.widen(value, source), compute_dtype(source), target)


def _float_to_float(body: Body, value: SSAValue, source: DType, target: DType) -> SSAValue:
    if source.bits == target.bits:
        return body.narrow(body.widen(value, source), target)
    if source.bits < target.bits:
        return body.add(arith.ExtFOp(value, scalar_type(target)))
    return body.add(arith.TruncFOp(value, scalar_type(target)))


def _integer_to_float(body: Body, value: SSAValue, source: DType, target: DType) -> SSAValue:
    """Exact or rounded once to f64 or f32; f16 and bf16 are rounded from f32."""
    wide = F64 if target == F64 else F32
    op = arith.SIToFPOp if source.kind == "int" else arith.UIToFPOp
    return body.narrow(body.add(op(value, float_type(wide))), target)


def _integer_to_integer(body: Body, value: SSAValue, source: DType, target: DType) -> SSAValue:
    kind = integer_type(target)
    if source.bits == target.bits:
        return value
    if source.bits > target.bits:
        return body.add(arith.TruncIOp(value, kind))
    op = arith.ExtSIOp if source.kind == "int" else arith.ExtUIOp
    return body.add(op(value, kind))


def _float_to_integer(body: Body, value: SSAValue, source: DType, target: DType) -> SSAValue:
    """Truncated; saturated beyond the target's range; NaN is 0.

    The conversion sees only values that fit, so that LLVM's is never undefined. The limits are
    powers of two, exact in every float type.
    """
    unsigned = target.kind == "uint"
    low = 0 if unsigned else -(1 << (target.bits - 1))
    high = 1 << (target.bits if unsigned else target.bits - 1)
    upper = body.constant(high, source)
    # Truncation is towards 0, so an unsigned target also takes what lies between -1 and 0.
    above_low = (
        body.compare("ogt", value, body.constant(-1, source))
        if unsigned
        else body.compare("oge", value, body.constant(low, source))
    )
    below_high = body.compare("olt", value, upper)
    fits = body.add(arith.AndIOp(above_low, below_high))
    safe = body.select(fits, value, body.constant(0, source))
    op = arith.FPToUIOp if unsigned else arith.FPToSIOp
    converted = body.add(op(safe, integer_type(target)))
    too_large = body.compare("oge", value, upper)
    largest = body.select(too_large, body.constant(high - 1, target), converted)
    if unsigned:
        return largest
    too_small = body.compare("olt", value, body.constant(low, source))
    return body.select(too_small, body.constant(low, target), largest)

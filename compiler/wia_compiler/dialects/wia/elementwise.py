"""Arithmetic, comparisons, logic, choice and conversion, element by element."""

from __future__ import annotations

from typing import Any

from wia_compiler.base.dtypes import BOOL, DTYPES
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.dialects.wia.pointwise import binary, comparison, logical, per_element, unary
from wia_compiler.dialects.wia.rules import (
    broadcast_shapes,
    describe,
    require_float,
    require_number,
    same_dtype,
)


def _infer_where(operands: Operands, attributes: Attributes) -> TensorSpec:
    condition, first, second = operands.all
    if condition.dtype != BOOL:
        raise InferenceError(
            f"where chooses by a bool, found {describe(condition)}", "compare it first, e.g. x > 0"
        )
    return TensorSpec(broadcast_shapes(operands.all), same_dtype((first, second)))


def _infer_clamp(operands: Operands, attributes: Attributes) -> TensorSpec:
    require_number(operands["input"], "clamp")
    if operands.get("min") is None and operands.get("max") is None:
        raise InferenceError("clamp needs min or max", "write clamp(x, min=0.0)")
    specs = operands.all
    return TensorSpec(broadcast_shapes(specs), same_dtype(specs))


def _infer_cast(operands: Operands, attributes: Attributes) -> TensorSpec:
    dtype = DTYPES.get(str(attributes["dtype"]))
    if dtype is None:
        raise InferenceError(f"no dtype {attributes['dtype']!r}", f"there are {', '.join(DTYPES)}")
    return TensorSpec(operands["input"].shape, dtype)


def _infer_lerp(operands: Operands, attributes: Attributes) -> TensorSpec:
    specs = operands.all
    for spec in specs:
        require_float(spec, "lerp")
    return TensorSpec(broadcast_shapes(specs), same_dtype(specs))


def _lerp(call: Call[Any], a: Algebra[Any]) -> Any:
    """From the nearer end, as PyTorch does, so that weight 1 gives the end exactly."""
    start, end, weight = (a.widened(call[name]) for name in ("input", "end", "weight"))
    distance = a.op("sub", end, start)
    from_start = a.op("add", start, a.op("mul", weight, distance))
    left = a.op("sub", a.constant(1, weight), weight)
    from_end = a.op("sub", end, a.op("mul", distance, left))
    near = a.op("lt", a.op("abs", weight), a.constant(0.5, weight))
    return a.cast(a.op("where", near, from_start, from_end), call.result.dtype)


def _integer_power(call: Call[Any], a: Algebra[Any]) -> Any:
    """x^y by squaring, one bit of y after another; x^-y is the whole part of 1 / x^y."""
    x, y = call["input"], call["other"]
    one, zero = a.constant(1, x), a.constant(0, x)
    result, square, rest = one, x, y
    bits = call.result.dtype.bits - (call.result.dtype.kind == "int")
    for bit in range(bits):
        odd = a.op("ne", a.op("bitwise_and", rest, one), zero)
        result = a.op("where", odd, a.op("mul", result, square), result)
        if bit + 1 < bits:
            square = a.op("mul", square, square)
            rest = a.op("bitwise_right_shift", rest, one)
    if call.result.dtype.kind == "uint":
        return result
    minus = a.constant(-1, x)
    parity = a.op("ne", a.op("bitwise_and", y, one), zero)
    of_minus_one = a.op("where", a.op("logical_and", a.op("eq", x, minus), parity), minus, one)
    unit = a.op("logical_or", a.op("eq", x, one), a.op("eq", x, minus))
    inverse = a.op("where", unit, of_minus_one, zero)
    return a.op("where", a.op("lt", y, zero), inverse, result)


def _of_integers(operands: Operands, attributes: Attributes) -> bool:
    return operands["input"].dtype.is_integer


def _power() -> OpDeclaration:
    row = binary("pow", "Power; of integers by repeated multiplication, which wraps.", "**")
    return OpDeclaration(
        row.name,
        row.family,
        row.parameters,
        row.infer,
        row.flops,
        row.doc,
        row.operator,
        row.literal_operands,
        composite_when=_of_integers,
        formula=_integer_power,
        rule=row.rule,
        numerics="Floats within 2 units in the last place, squares correctly rounded. An integer "
        "to a negative power is 0, but for 1 and -1; 0 ** 0 is 1.",
    )


ELEMENTWISE: tuple[OpDeclaration, ...] = (
    binary("add", "Sum; integers wrap.", "+").with_example("x + y", x=[1.0, 2.5], y=[0.5, -1.0]),
    binary("sub", "Difference; integers wrap.", "-").with_example(
        "x - y", x=[1.0, 2.5], y=[0.5, -1.0]
    ),
    binary("mul", "Product; integers wrap.", "*").with_example(
        "x * y", x=("i8", [100, 7]), y=("i8", [2, 3])
    ),
    binary("div", "Quotient of floats, IEEE 754.", "/", kind="floats").with_example(
        "x / y", x=[1.0, -1.0, 0.0], y=[4.0, 0.0, 0.0]
    ),
    binary(
        "floordiv",
        "Quotient rounded towards minus infinity; an integer divided by 0 is 0.",
        "//",
    ).with_example("x // y", x=[7, -7, 7], y=[2, 2, 0]),
    binary("mod", "Remainder with the divisor's sign; an integer modulo 0 is 0.", "%").with_example(
        "x % y", x=[7, -7, 7], y=[3, 3, 0]
    ),
    _power().with_example("x ** 3", x=[-2, 3, 5]),
    binary("min", "The smaller of two; NaN if either is NaN.").with_example(
        "min(x, y)", x=[1.0, 5.0], y=[2.0, 3.0]
    ),
    binary("max", "The larger of two; NaN if either is NaN.").with_example(
        "max(x, 0.0)", x=[1.0, -5.0]
    ),
    comparison("eq", "Equal; NaN is equal to nothing.", "==").with_example(
        "x == y", x=[1, 2], y=[1, 3]
    ),
    comparison("ne", "Not equal.", "!=").with_example("x != y", x=[1, 2], y=[1, 3]),
    comparison("lt", "Less than.", "<").with_example("x < 2.0", x=[1.0, 2.0, 3.0]),
    comparison("le", "Less than or equal.", "<=").with_example("x <= 2.0", x=[1.0, 2.0, 3.0]),
    comparison("gt", "Greater than.", ">").with_example("x > 2.0", x=[1.0, 2.0, 3.0]),
    comparison("ge", "Greater than or equal.", ">=").with_example("x >= 2.0", x=[1.0, 2.0, 3.0]),
    logical("logical_and", "Both.", "&&").with_example("x && y", x=[True, True], y=[True, False]),
    logical("logical_or", "Either.", "||").with_example(
        "x || y", x=[True, False], y=[False, False]
    ),
    logical("logical_not", "Not.", "!").with_example("!x", x=[True, False]),
    unary("neg", "Negation; the most negative integer stays itself.", kind="numbers").with_example(
        "-x", x=[1.0, -2.0]
    ),
    unary(
        "abs", "Absolute value; the most negative integer stays itself.", kind="numbers"
    ).with_example("abs(x)", x=("i8", [-128, -1, 3])),
    OpDeclaration(
        "lerp",
        "elementwise",
        (Parameter("input"), Parameter("end"), Parameter("weight")),
        _infer_lerp,
        per_element(1),
        "input + weight * (end - input), taken from the nearer end.",
        literal_operands=("end", "weight"),
        primitive=False,
        formula=_lerp,
        rule="floats of one dtype, which is the result's; shapes broadcast",
    ).with_example("lerp(x, y, 0.25)", x=[0.0, 10.0], y=[4.0, 20.0]),
    OpDeclaration(
        "where",
        "elementwise",
        (Parameter("condition"), Parameter("input"), Parameter("other")),
        _infer_where,
        per_element(0),
        "input where the condition holds, other elsewhere.",
        "? :",
        literal_operands=("input", "other"),
        rule="condition is bool, input and other of one dtype; shapes broadcast",
        numerics="Both sides are computed; what is not chosen has no influence, NaN included.",
    ).with_example("where(x > 0.0, x, 0.0)", x=[1.0, -2.0]),
    OpDeclaration(
        "clamp",
        "elementwise",
        (
            Parameter("input"),
            Parameter("min", "optional_tensor", None),
            Parameter("max", "optional_tensor", None),
        ),
        _infer_clamp,
        per_element(1),
        "min(max(x, min), max); NaN stays.",
        literal_operands=("min", "max"),
        primitive=False,
        rule="numbers of one dtype, which is the result's; shapes broadcast",
    ).with_example("clamp(x, min=-1.0, max=1.0)", x=[-3.0, 0.5, 2.0]),
    OpDeclaration(
        "cast",
        "elementwise",
        (Parameter("input"), Parameter("dtype", "attribute")),
        _infer_cast,
        per_element(0),
        "The value in another dtype: to a float rounds to nearest even; a float to an integer "
        "truncates and saturates, NaN becomes 0; integers wrap; to bool is x != 0.",
        rule="any dtype; shape of input, the dtype named",
    ).with_example("cast(x, i8)", x=[1.9, -1.9, 300.0]),
)

"""Ops that compute each element of the result from the elements at the same place.

FLOP convention: one per result element for arithmetic and comparisons, and also one for a
transcendental (as Nsight Compute's and PyTorch's counters see source-level operations); data
selection and casts count nothing.
"""

from __future__ import annotations

from wia_compiler.base.dtypes import BOOL, DTYPES
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    Infer,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.rules import (
    broadcast_shapes,
    describe,
    require_float,
    require_number,
    same_dtype,
)


def _one_per_element(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return result.num_elements


def _none(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return 0


def _unary(name: str, doc: str, *, floats: bool = True, primitive: bool = True) -> OpDeclaration:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        (operand,) = operands.all
        require_float(operand, name) if floats else require_number(operand, name)
        return TensorSpec(operand.shape, operand.dtype)

    parameters = (Parameter("input"),)
    return OpDeclaration(
        name, "elementwise", parameters, infer, _one_per_element, doc, primitive=primitive
    )


def _of_two(name: str, doc: str, operator: str | None, infer: Infer) -> OpDeclaration:
    """An op of two operands, either of which may be a literal."""
    return OpDeclaration(
        name,
        "elementwise",
        (Parameter("input"), Parameter("other")),
        infer,
        _one_per_element,
        doc,
        operator,
        literal_operands=("input", "other"),
    )


def _binary(
    name: str, doc: str, operator: str | None = None, *, floats: bool = False
) -> OpDeclaration:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        specs = operands.all
        for spec in specs:
            require_float(spec, name) if floats else require_number(spec, name)
        return TensorSpec(broadcast_shapes(specs), same_dtype(specs))

    return _of_two(name, doc, operator, infer)


def _comparison(name: str, doc: str, operator: str) -> OpDeclaration:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        specs = operands.all
        if name not in ("eq", "ne"):
            for spec in specs:
                require_number(spec, name)
        same_dtype(specs)
        return TensorSpec(broadcast_shapes(specs), BOOL)

    return _of_two(name, doc, operator, infer)


def _logical(name: str, doc: str, operator: str) -> OpDeclaration:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        for spec in operands.all:
            if spec.dtype != BOOL:
                raise InferenceError(
                    f"{name} needs bool, found {describe(spec)}", "compare it first, e.g. x != 0"
                )
        return TensorSpec(broadcast_shapes(operands.all), BOOL)

    names = ("input",) if name == "logical_not" else ("input", "other")
    parameters = tuple(Parameter(each) for each in names)
    return OpDeclaration(name, "elementwise", parameters, infer, _none, doc, operator)


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


def _infer_gelu(operands: Operands, attributes: Attributes) -> TensorSpec:
    require_float(operands["input"], "gelu")
    if attributes["approximate"] not in ("none", "tanh"):
        raise InferenceError(
            f"gelu has no approximate={attributes['approximate']!r}", "expected 'none' or 'tanh'"
        )
    return TensorSpec(operands["input"].shape, operands["input"].dtype)


ELEMENTWISE: tuple[OpDeclaration, ...] = (
    _binary("add", "Sum; integers wrap.", "+"),
    _binary("sub", "Difference; integers wrap.", "-"),
    _binary("mul", "Product; integers wrap.", "*"),
    _binary("div", "Quotient of floats, IEEE 754.", "/", floats=True),
    _binary(
        "floordiv",
        "Quotient rounded towards minus infinity; an integer divided by 0 is 0.",
        "//",
    ),
    _binary("mod", "Remainder with the divisor's sign; an integer modulo 0 is 0.", "%"),
    _binary("pow", "Power of floats.", "**", floats=True),
    _binary("min", "The smaller of two; NaN if either is NaN."),
    _binary("max", "The larger of two; NaN if either is NaN."),
    _comparison("eq", "Equal; NaN is equal to nothing.", "=="),
    _comparison("ne", "Not equal.", "!="),
    _comparison("lt", "Less than.", "<"),
    _comparison("le", "Less than or equal.", "<="),
    _comparison("gt", "Greater than.", ">"),
    _comparison("ge", "Greater than or equal.", ">="),
    _logical("logical_and", "Both.", "&&"),
    _logical("logical_or", "Either.", "||"),
    _logical("logical_not", "Not.", "!"),
    _unary("neg", "Negation; the most negative integer stays itself.", floats=False),
    _unary("abs", "Absolute value; the most negative integer stays itself.", floats=False),
    _unary("exp", "e to the power of x."),
    _unary("log", "Natural logarithm; NaN below 0, -inf at 0."),
    _unary("sqrt", "Square root; NaN below 0."),
    _unary("rsqrt", "1 / sqrt(x)."),
    _unary("sin", "Sine of x in radians."),
    _unary("cos", "Cosine of x in radians."),
    _unary("tanh", "Hyperbolic tangent."),
    _unary("erf", "Error function."),
    _unary("floor", "Largest whole number not above x."),
    _unary("ceil", "Smallest whole number not below x."),
    _unary("round", "Nearest whole number, halves to even."),
    _unary("relu", "max(x, 0); keeps NaN.", floats=False, primitive=False),
    _unary("sigmoid", "1 / (1 + exp(-x)).", primitive=False),
    _unary("silu", "x * sigmoid(x).", primitive=False),
    OpDeclaration(
        "gelu",
        "elementwise",
        (Parameter("input"), Parameter("approximate", "attribute", "none")),
        _infer_gelu,
        _one_per_element,
        "0.5 x (1 + erf(x / sqrt 2)), or its tanh approximation (Hendrycks and Gimpel, 2016).",
        primitive=False,
    ),
    OpDeclaration(
        "where",
        "elementwise",
        (Parameter("condition"), Parameter("input"), Parameter("other")),
        _infer_where,
        _none,
        "input where the condition holds, other elsewhere.",
        "? :",
        literal_operands=("input", "other"),
    ),
    OpDeclaration(
        "clamp",
        "elementwise",
        (
            Parameter("input"),
            Parameter("min", "optional_tensor", None),
            Parameter("max", "optional_tensor", None),
        ),
        _infer_clamp,
        _one_per_element,
        "min(max(x, min), max); NaN stays.",
        literal_operands=("min", "max"),
        primitive=False,
    ),
    OpDeclaration(
        "cast",
        "elementwise",
        (Parameter("input"), Parameter("dtype", "attribute")),
        _infer_cast,
        _none,
        "The value in another dtype: to a float rounds to nearest even; a float to an integer "
        "truncates and saturates, NaN becomes 0; integers wrap; to bool is x != 0.",
    ),
)

"""Activation functions. Each is a few steps in f32 (f64 for f64), rounded once."""

from __future__ import annotations

from typing import Any

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call, in_accumulator
from wia_compiler.dialects.wia.pointwise import per_element, unary
from wia_compiler.dialects.wia.rules import describe, normalize_axis, require_float, same_dtype


def _infer_gelu(operands: Operands, attributes: Attributes) -> TensorSpec:
    require_float(operands["input"], "gelu")
    if attributes["approximate"] not in ("none", "tanh"):
        raise InferenceError(
            f"gelu has no approximate={attributes['approximate']!r}", "expected 'none' or 'tanh'"
        )
    return TensorSpec(operands["input"].shape, operands["input"].dtype)


def _between(x: Any, low: float, high: float, a: Algebra[Any]) -> Any:
    return a.op("min", a.op("max", x, a.constant(low, x)), a.constant(high, x))


def _relu6(call: Call[Any], a: Algebra[Any]) -> Any:
    x = call["input"]
    return a.op("min", a.op("max", x, a.constant(0, x)), a.constant(6, x))


def _hardtanh(call: Call[Any], a: Algebra[Any]) -> Any:
    return _between(call["input"], call.number("min_val"), call.number("max_val"), a)


def _check_hardtanh(attributes: Attributes) -> None:
    low, high = attributes["min_val"], attributes["max_val"]
    if not (isinstance(low, int | float) and isinstance(high, int | float) and low <= high):
        raise InferenceError(
            f"hardtanh's min_val={low!r} and max_val={high!r} are not a range",
            "give two numbers, the smaller first",
        )


def _leaky_relu(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    scaled = a.op("mul", x, a.constant(call.number("negative_slope"), x))
    return a.op("where", a.op("gt", x, a.constant(0, x)), x, scaled)


def _elu(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    below = a.op("mul", a.constant(call.number("alpha"), x), a.op("expm1", x))
    return a.op("where", a.op("gt", x, a.constant(0, x)), x, below)


SELU_ALPHA = 1.6732632423543772848170429916717
SELU_SCALE = 1.0507009873554804934193349852946
"""Klambauer et al., Self-Normalizing Neural Networks, 2017; as PyTorch and ONNX have them."""


def _selu(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    below = a.op("mul", a.constant(SELU_ALPHA, x), a.op("expm1", x))
    chosen = a.op("where", a.op("gt", x, a.constant(0, x)), x, below)
    return a.op("mul", a.constant(SELU_SCALE, x), chosen)


def softplus(x: Any, beta: float, threshold: float, a: Algebra[Any]) -> Any:
    """log(1 + exp(beta x)) / beta; x itself where beta x is above the threshold."""
    scaled = a.op("mul", x, a.constant(beta, x)) if beta != 1 else x
    bent = a.op("log1p", a.op("exp", scaled))
    if beta != 1:
        bent = a.op("div", bent, a.constant(beta, x))
    return a.op("where", a.op("gt", scaled, a.constant(threshold, x)), x, bent)


def _softplus(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    return softplus(x, call.number("beta"), call.number("threshold"), a)


def _mish(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    return a.op("mul", x, a.op("tanh", softplus(x, 1.0, 20.0, a)))


def _logsigmoid(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    """min(x, 0) - log(1 + exp(-\\|x\\|)), which never overflows."""
    small = a.op("exp", a.op("neg", a.op("abs", x)))
    return a.op("sub", a.op("min", x, a.constant(0, x)), a.op("log1p", small))


def _sixth(x: Any, a: Algebra[Any]) -> Any:
    """min(max(x + 3, 0), 6) / 6."""
    shifted = _between(a.op("add", x, a.constant(3, x)), 0, 6, a)
    return a.op("div", shifted, a.constant(6, x))


def _hardsigmoid(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    return _sixth(x, a)


def _hardswish(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    return a.op("mul", x, _sixth(x, a))


def _softsign(x: Any, a: Algebra[Any], call: Call[Any]) -> Any:
    return a.op("div", x, a.op("add", a.constant(1, x), a.op("abs", x)))


def _infer_glu(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    require_float(operand, "glu")
    axis = normalize_axis(attributes["dim"], operand)
    size = operand.shape[axis]
    if size % 2:
        raise InferenceError(
            f"glu halves axis {axis} of {describe(operand)}, which has {size} elements",
            "the size must be even",
        )
    return TensorSpec((*operand.shape[:axis], size // 2, *operand.shape[axis + 1 :]), operand.dtype)


def _glu(call: Call[Any], a: Algebra[Any]) -> Any:
    x = call["input"]
    axis = normalize_axis(call.attributes["dim"], a.spec(x))
    values = a.widened(a.op("chunk", x, chunks=2, index=0, dim=axis))
    gates = a.widened(a.op("chunk", x, chunks=2, index=1, dim=axis))
    return a.cast(a.op("mul", values, a.op("sigmoid", gates)), call.result.dtype)


def _infer_prelu(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand, weight = operands["input"], operands["weight"]
    require_float(operand, "prelu")
    channels = operand.shape[1] if operand.rank > 1 else 1
    if weight.rank > 1 or weight.num_elements not in (1, channels):
        raise InferenceError(
            f"prelu takes one slope or one for each of the {channels} channels of "
            f"{describe(operand)}, found {describe(weight)}",
            "channels are axis 1 of the input",
        )
    return TensorSpec(operand.shape, same_dtype(operands.all))


def _prelu(call: Call[Any], a: Algebra[Any]) -> Any:
    x, weight = a.widened(call["input"]), a.widened(call["weight"])
    rank, count = a.spec(x).rank, a.spec(weight).num_elements
    shape = (count, *(1,) * (rank - 2)) if count > 1 else ()
    scaled = a.op("mul", x, a.reshape(weight, shape))
    chosen = a.op("where", a.op("gt", x, a.constant(0, x)), x, scaled)
    return a.cast(chosen, call.result.dtype)


def _activation(
    name: str, doc: str, steps: Any, *parameters: Parameter, numerics: str = ""
) -> OpDeclaration:
    formula = in_accumulator(steps)
    return unary(name, doc, *parameters, formula=formula, numerics=numerics)


def _attribute(name: str, default: float) -> Parameter:
    return Parameter(name, "attribute", default)


def _in_primitives(name: str, doc: str, *, numbers: bool = False) -> OpDeclaration:
    """An op whose meaning and decomposition have rows of their own."""
    row = unary(name, doc, kind="numbers" if numbers else "floats")
    return OpDeclaration(
        row.name,
        row.family,
        row.parameters,
        row.infer,
        row.flops,
        row.doc,
        primitive=False,
        rule=row.rule,
    )


_X = [-2.0, 0.0, 3.0]

ACTIVATIONS: tuple[OpDeclaration, ...] = (
    _in_primitives("relu", "max(x, 0); keeps NaN.", numbers=True).with_example("relu(x)", x=_X),
    unary("relu6", "min(max(x, 0), 6); keeps NaN.", kind="numbers", formula=_relu6).with_example(
        "relu6(x)", x=[-2.0, 3.0, 8.0]
    ),
    _in_primitives("sigmoid", "1 / (1 + exp(-x)).").with_example("sigmoid(x)", x=_X),
    _in_primitives("silu", "x * sigmoid(x).").with_example("silu(x)", x=_X),
    OpDeclaration(
        "gelu",
        "elementwise",
        (Parameter("input"), Parameter("approximate", "attribute", "none")),
        _infer_gelu,
        per_element(1),
        "0.5 x (1 + erf(x / sqrt 2)), or its tanh approximation (Hendrycks and Gimpel, 2016).",
        primitive=False,
        rule="floats; shape of input, its dtype",
    ).with_example('gelu(x, approximate="tanh")', x=_X),
    _activation(
        "leaky_relu",
        "x above 0, negative_slope * x elsewhere.",
        _leaky_relu,
        _attribute("negative_slope", 0.01),
    ).with_example("leaky_relu(x, 0.1)", x=_X),
    OpDeclaration(
        "prelu",
        "elementwise",
        (Parameter("input"), Parameter("weight")),
        _infer_prelu,
        per_element(1),
        "x above 0, weight * x elsewhere; weight is one slope, or one for each channel (axis 1).",
        primitive=False,
        formula=_prelu,
        rule="floats of one dtype; weight has one element, or one for each channel; shape of input",
    ).with_example("prelu(x, w)", x=[[-2.0, -2.0]], w=[0.5, 0.1]),
    _activation(
        "elu",
        "x above 0, alpha * (exp(x) - 1) elsewhere (Clevert et al., 2016).",
        _elu,
        _attribute("alpha", 1.0),
    ).with_example("elu(x)", x=_X),
    _activation(
        "selu",
        "elu with alpha 1.6733, times 1.0507 (Klambauer et al., 2017).",
        _selu,
    ).with_example("selu(x)", x=_X),
    _activation(
        "softplus",
        "log(1 + exp(beta x)) / beta; x where beta x is above threshold.",
        _softplus,
        _attribute("beta", 1.0),
        _attribute("threshold", 20.0),
    ).with_example("softplus(x)", x=_X),
    _activation("mish", "x * tanh(softplus(x)) (Misra, 2020).", _mish).with_example(
        "mish(x)", x=_X
    ),
    _activation("logsigmoid", "log(sigmoid(x)), without overflow.", _logsigmoid).with_example(
        "logsigmoid(x)", x=_X
    ),
    _activation("hardsigmoid", "min(max(x + 3, 0), 6) / 6.", _hardsigmoid).with_example(
        "hardsigmoid(x)", x=_X
    ),
    _activation("hardswish", "x * hardsigmoid(x) (Howard et al., 2019).", _hardswish).with_example(
        "hardswish(x)", x=_X
    ),
    unary(
        "hardtanh",
        "x cut to the range from min_val to max_val; NaN stays.",
        _attribute("min_val", -1.0),
        _attribute("max_val", 1.0),
        formula=_hardtanh,
        check=_check_hardtanh,
    ).with_example("hardtanh(x)", x=_X),
    _activation("softsign", "x / (1 + |x|).", _softsign).with_example("softsign(x)", x=_X),
    OpDeclaration(
        "glu",
        "elementwise",
        (Parameter("input"), Parameter("dim", "attribute", -1, aliases=("axis",))),
        _infer_glu,
        per_element(1),
        "The first half along an axis times sigmoid of the second (Dauphin et al., 2017).",
        primitive=False,
        formula=_glu,
        access="free",
        rule="floats; dim is halved",
    ).with_example("glu(x)", x=[1.0, 2.0, 0.0, 3.0]),
)

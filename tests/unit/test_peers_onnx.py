"""The reference beside ONNX's own reference evaluator, for every op that ONNX defines.

docs/numerics.md lists where the two differ.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator
from peer_cases import Array, Input, x
from wia_compiler.dialects.wia.declarations import DECLARATIONS
from wia_compiler.reference.meaning import evaluate

OPSET = 23


@dataclass(frozen=True)
class Row:
    """One of our calls and the ONNX node that means the same.

    ``inputs`` are ours by parameter name and are the node's in order; ``constants`` follow them as
    more inputs of the node. ``attributes`` are ours, ``node`` the node's.
    """

    op: str
    onnx: str
    inputs: dict[str, Input]
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    node: dict[str, Any] = field(default_factory=dict[str, Any])
    constants: tuple[Array | None, ...] = ()
    tolerance: float = 2e-6


def one(op: str, onnx: str, operand: Input, **more: Any) -> Row:
    """An op of one input."""
    return Row(op, onnx, {"input": operand}, **more)


def two(op: str, onnx: str, left: Input, right: Input, **more: Any) -> Row:
    """An op of two inputs."""
    return Row(op, onnx, {"input": left, "other": right}, **more)


def whole(*values: int) -> Array:
    """A list of i64."""
    return np.array(values, np.int64)


SPECIAL, POSITIVE = x(40, special=True), x(40, low=0.1, high=5.0)
WHOLE, SMALL = x(60, low=-50, high=50, dtype="i32"), x(60, low=1, high=9, dtype="i32")
BYTES = x(60, low=0, high=255, dtype="u8")
BOOLS = x(40, dtype="bool")
MATRIX, WIDE, IMAGE = x(5, 7), x(4, 9, low=-90.0, high=90.0), x(2, 3, 9, 11)
COUNTED = x(2, 3, 4, low=-99, high=99, dtype="i32")

POINTWISE = (
    *(
        one(name, onnx, SPECIAL)
        for name, onnx in (
            ("abs", "Abs"),
            ("neg", "Neg"),
            ("exp", "Exp"),
            ("floor", "Floor"),
            ("ceil", "Ceil"),
            ("sigmoid", "Sigmoid"),
            ("tanh", "Tanh"),
            ("erf", "Erf"),
            ("relu", "Relu"),
            ("selu", "Selu"),
            ("softsign", "Softsign"),
            ("isnan", "IsNaN"),
            ("isinf", "IsInf"),
            ("sinh", "Sinh"),
            ("cosh", "Cosh"),
        )
    ),
    *(
        one(name, onnx, x(40))
        for name, onnx in (
            ("round", "Round"),
            ("sin", "Sin"),
            ("cos", "Cos"),
            ("sign", "Sign"),
            ("softplus", "Softplus"),
            ("mish", "Mish"),
            ("hardswish", "HardSwish"),
            ("gelu", "Gelu"),
            ("tan", "Tan"),
        )
    ),
    *(
        one(name, onnx, POSITIVE)
        for name, onnx in (("log", "Log"), ("sqrt", "Sqrt"), ("reciprocal", "Reciprocal"))
    ),
    one("gelu", "Gelu", x(40), attributes={"approximate": "tanh"}, node={"approximate": "tanh"}),
    one("leaky_relu", "LeakyRelu", x(40), attributes={"negative_slope": 0.3}, node={"alpha": 0.3}),
    one("elu", "Elu", x(40), attributes={"alpha": 1.5}, node={"alpha": 1.5}),
    one("hardsigmoid", "HardSigmoid", x(40, low=-5.0, high=5.0), node={"alpha": 1 / 6}),
    one("logical_not", "Not", BOOLS),
    one("bitwise_not", "BitwiseNot", WHOLE),
    *(
        two(name, onnx, x(40), x(40, low=0.5, high=3.0))
        for name, onnx in (
            ("add", "Add"),
            ("sub", "Sub"),
            ("mul", "Mul"),
            ("div", "Div"),
            ("min", "Min"),
            ("max", "Max"),
            ("lt", "Less"),
            ("le", "LessOrEqual"),
            ("gt", "Greater"),
            ("ge", "GreaterOrEqual"),
            ("eq", "Equal"),
        )
    ),
    two("pow", "Pow", POSITIVE, x(40)),
    *(
        two(name, onnx, WHOLE, SMALL)
        for name, onnx in (
            ("mod", "Mod"),
            ("pow", "Pow"),
            ("bitwise_and", "BitwiseAnd"),
            ("bitwise_or", "BitwiseOr"),
            ("bitwise_xor", "BitwiseXor"),
        )
    ),
    two(
        "bitwise_left_shift",
        "BitShift",
        BYTES,
        x(60, low=0, high=7, dtype="u8"),
        node={"direction": "LEFT"},
    ),
    two(
        "bitwise_right_shift",
        "BitShift",
        BYTES,
        x(60, low=0, high=7, dtype="u8"),
        node={"direction": "RIGHT"},
    ),
    two("logical_and", "And", BOOLS, x(40, low=-1.0, dtype="bool")),
    two("logical_or", "Or", BOOLS, x(40, low=-1.0, dtype="bool")),
    Row("where", "Where", {"condition": BOOLS, "input": x(40), "other": x(40, low=5.0, high=9.0)}),
    Row(
        "clamp",
        "Clip",
        {"input": x(40), "min": x(low=-1.0, high=-0.5), "max": x(low=0.5, high=1.0)},
    ),
    Row("prelu", "PRelu", {"input": x(2, 3), "weight": x(3)}),
    one(
        "cast",
        "Cast",
        x(40, low=-99.0, high=99.0),
        attributes={"dtype": "i32"},
        node={"to": TensorProto.INT32},
    ),
)

FOLDS = (
    *(
        one(name, onnx, MATRIX, attributes={"dim": 1, "keepdim": True}, constants=(whole(1),))
        for name, onnx in (
            ("reduce_sum", "ReduceSum"),
            ("reduce_mean", "ReduceMean"),
            ("reduce_prod", "ReduceProd"),
            ("reduce_max", "ReduceMax"),
            ("reduce_min", "ReduceMin"),
            ("logsumexp", "ReduceLogSumExp"),
        )
    ),
    one("softmax", "Softmax", WIDE, attributes={"dim": 0}, node={"axis": 0}),
    one(
        "log_softmax", "LogSoftmax", MATRIX, attributes={"dim": 1}, node={"axis": 1}, tolerance=1e-5
    ),
    one("argmax", "ArgMax", MATRIX, attributes={"dim": 1, "keepdim": True}, node={"axis": 1}),
    one("argmin", "ArgMin", COUNTED, attributes={"dim": 1}, node={"axis": 1, "keepdims": 0}),
    one("cumsum", "CumSum", MATRIX, attributes={"dim": 1}, constants=(whole(1)[0],)),
    Row(
        "layer_norm",
        "LayerNormalization",
        {"input": x(3, 4, 6), "weight": x(4, 6), "bias": x(4, 6)},
        {"normalized_shape": (4, 6), "eps": 1e-3},
        {"axis": 1, "epsilon": 1e-3},
        tolerance=1e-5,
    ),
    Row(
        "rms_norm",
        "RMSNormalization",
        {"input": x(3, 6), "weight": x(6)},
        {"eps": 1e-3},
        {"epsilon": 1e-3},
        tolerance=1e-5,
    ),
    Row(
        "instance_norm",
        "InstanceNormalization",
        {"input": x(2, 3, 11), "weight": x(3), "bias": x(3)},
        {"eps": 1e-3},
        {"epsilon": 1e-3},
        tolerance=1e-5,
    ),
    Row(
        "group_norm",
        "GroupNormalization",
        {"input": x(2, 6, 3, 3), "weight": x(6), "bias": x(6)},
        {"num_groups": 3, "eps": 1e-3},
        {"num_groups": 3, "epsilon": 1e-3},
        tolerance=1e-5,
    ),
)

WINDOWS = (
    one(
        "max_pool",
        "MaxPool",
        IMAGE,
        attributes={"kernel_size": (3, 2), "stride": 2, "padding": 1},
        node={"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    one(
        "avg_pool",
        "AveragePool",
        IMAGE,
        attributes={"kernel_size": 3, "stride": 2, "padding": 1},
        node={
            "kernel_shape": [3, 3],
            "strides": [2, 2],
            "pads": [1, 1, 1, 1],
            "count_include_pad": 1,
        },
    ),
    one(
        "avg_pool",
        "AveragePool",
        IMAGE,
        attributes={"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
        node={"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    ),
    one("global_avg_pool", "GlobalAveragePool", IMAGE),
    one("global_max_pool", "GlobalMaxPool", IMAGE),
)

PRODUCTS = (
    two("matmul", "MatMul", x(2, 1, 3, 5), x(4, 5, 2), tolerance=1e-5),
    Row(
        "matmul_integer",
        "MatMulInteger",
        {
            "input": x(3, 5, low=0, high=255, dtype="u8"),
            "other": x(5, 4, low=-99, high=99, dtype="i8"),
            "input_zero_point": x(low=7, high=8, dtype="u8"),
            "other_zero_point": x(low=-3, high=-2, dtype="i8"),
        },
    ),
    Row(
        "conv2d",
        "Conv",
        {"input": x(2, 4, 8, 9), "weight": x(6, 2, 3, 2), "bias": x(6)},
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2},
        {"strides": [2, 1], "pads": [1, 2, 1, 2], "dilations": [1, 2], "group": 2},
        tolerance=1e-5,
    ),
    Row(
        "conv1d",
        "Conv",
        {"input": x(2, 4, 15), "weight": x(6, 4, 3), "bias": x(6)},
        {"stride": 2, "padding": 1},
        {"strides": [2], "pads": [1, 1]},
        tolerance=1e-5,
    ),
    Row(
        "conv_transpose2d",
        "ConvTranspose",
        {"input": x(1, 2, 4, 4), "weight": x(2, 3, 3, 3), "bias": x(3)},
        {"stride": 2, "padding": 1, "output_padding": 1},
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
        tolerance=1e-5,
    ),
    Row(
        "linear",
        "Gemm",
        {"input": x(3, 5), "weight": x(4, 5), "bias": x(4)},
        node={"transB": 1},
        tolerance=1e-5,
    ),
    Row(
        "attention",
        "Attention",
        {"query": x(2, 3, 5, 8), "key": x(2, 3, 7, 8), "value": x(2, 3, 7, 4)},
        tolerance=1e-5,
    ),
    Row(
        "attention",
        "Attention",
        {"query": x(2, 3, 5, 8), "key": x(2, 3, 5, 8), "value": x(2, 3, 5, 4)},
        {"causal": True},
        {"is_causal": 1},
        tolerance=1e-5,
    ),
)

MOVES = (
    one(
        "pad",
        "Pad",
        MATRIX,
        attributes={"pad": (1, 2, 0, 3), "value": 1.5},
        constants=(whole(0, 1, 3, 2), np.float32(1.5)),
    ),
    one(
        "pad",
        "Pad",
        MATRIX,
        attributes={"pad": (1, 2), "mode": "reflect"},
        node={"mode": "reflect"},
        constants=(whole(0, 1, 0, 2),),
    ),
    one(
        "slice",
        "Slice",
        COUNTED,
        attributes={"starts": (0, -1), "stops": (2, 0), "steps": (1, -1)},
        constants=(whole(0, -1), whole(2, 0), whole(0, 1), whole(1, -1)),
    ),
    one("permute", "Transpose", COUNTED, attributes={"dims": (2, 0, 1)}, node={"perm": [2, 0, 1]}),
    one("reshape", "Reshape", COUNTED, attributes={"shape": (4, -1)}, constants=(whole(4, -1),)),
    one("squeeze", "Squeeze", x(1, 3, 1), attributes={"dim": 0}, constants=(whole(0),)),
    one("unsqueeze", "Unsqueeze", COUNTED, attributes={"dim": 1}, constants=(whole(1),)),
    one(
        "broadcast", "Expand", x(3, 1), attributes={"shape": (2, 3, 4)}, constants=(whole(2, 3, 4),)
    ),
    one("tile", "Tile", COUNTED, attributes={"dims": (2, 1, 3)}, constants=(whole(2, 1, 3),)),
    one(
        "tril",
        "Trilu",
        x(2, 4, 5),
        attributes={"diagonal": 1},
        node={"upper": 0},
        constants=(whole(1)[0],),
    ),
    one("triu", "Trilu", x(2, 4, 5), node={"upper": 1}),
    one(
        "pixel_shuffle",
        "DepthToSpace",
        x(2, 8, 3, 2),
        attributes={"upscale_factor": 2},
        node={"blocksize": 2, "mode": "CRD"},
    ),
    Row("concat", "Concat", {"tensors.0": x(2, 3), "tensors.1": x(2, 5)}, {"dim": 1}, {"axis": 1}),
    Row(
        "index_select",
        "Gather",
        {"input": COUNTED, "index": Input((5,), 0, 3, "i64")},
        {"dim": 1},
        {"axis": 1},
    ),
    Row(
        "gather",
        "GatherElements",
        {"input": COUNTED, "index": Input((2, 5, 4), 0, 3, "i64")},
        {"dim": 1},
        {"axis": 1},
    ),
    one(
        "one_hot",
        "OneHot",
        Input((2, 3), 0, 6, "i64"),
        attributes={"num_classes": 6},
        constants=(whole(6)[0], whole(0, 1)),
    ),
)

SCORES = {"input": x(6, 5), "target": Input((6,), 0, 5, "i64"), "weight": x(5, low=0.1)}

LOSSES = (
    *(
        Row(
            name,
            onnx,
            SCORES,
            {"reduction": each, "ignore_index": 2},
            {"reduction": each, "ignore_index": 2},
            tolerance=1e-5,
        )
        for name, onnx in (
            ("nll_loss", "NegativeLogLikelihoodLoss"),
            ("cross_entropy", "SoftmaxCrossEntropyLoss"),
        )
        for each in ("mean", "sum", "none")
    ),
    Row(
        "quantize",
        "QuantizeLinear",
        {
            "input": x(40, low=-90.0, high=90.0),
            "scale": x(low=0.5, high=0.6),
            "zero_point": x(low=3, high=4, dtype="i8"),
        },
    ),
    Row(
        "quantize",
        "QuantizeLinear",
        {
            "input": x(4, 3, low=-9.0, high=9.0),
            "scale": x(3, low=0.05, high=0.3),
            "zero_point": x(3, low=0, high=9, dtype="u8"),
        },
        {"axis": 1, "dtype": "u8"},
        {"axis": 1},
    ),
    Row(
        "dequantize",
        "DequantizeLinear",
        {
            "input": x(4, 3, low=-90, high=90, dtype="i8"),
            "scale": x(3, low=0.05, high=0.3),
            "zero_point": x(3, low=-9, high=9, dtype="i8"),
        },
        {"axis": 1},
        {"axis": 1},
    ),
)

ROWS = (*POINTWISE, *FOLDS, *WINDOWS, *PRODUCTS, *MOVES, *LOSSES)


def onnx_result(row: Row, arrays: list[Array]) -> Array:
    """What ONNX's reference evaluator computes for the node."""
    feeds = {f"i{n}": array for n, array in enumerate([*arrays, *row.constants])}
    values = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in feeds.items()
    ]
    node = helper.make_node(row.onnx, list(feeds), ["out"], **row.node)
    out = helper.make_empty_tensor_value_info("out")
    graph = helper.make_graph([node], "one", values, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    with np.errstate(all="ignore"):
        return np.asarray(ReferenceEvaluator(model).run(None, feeds)[0])  # pyright: ignore


@pytest.mark.parametrize("row", ROWS, ids=[f"{n}-{row.op}" for n, row in enumerate(ROWS)])
def test_reference_agrees_with_onnx(row: Row) -> None:
    arrays = {name: each.array(n) for n, (name, each) in enumerate(row.inputs.items())}
    defaults = {p.name: p.default for p in DECLARATIONS[row.op].attribute_parameters}
    found = evaluate(row.op, arrays, {**defaults, **row.attributes})
    expected = onnx_result(row, list(arrays.values()))
    assert found.shape == expected.shape
    assert found.dtype.kind == expected.dtype.kind
    wide = [each.astype(np.float64) for each in (found, expected)]
    np.testing.assert_allclose(*wide, rtol=row.tolerance, atol=row.tolerance)

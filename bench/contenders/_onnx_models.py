"""The families as ONNX models, weights as initialisers, for onnxruntime and TVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from workloads import Array, Inputs, Workload

_OPSET = 18
_IR_VERSION = 9
f32 = np.float32


class _Graph:
    """An ONNX graph that grows by ops; every value is its name."""

    def __init__(self, arrays: Inputs):
        self.arrays = arrays
        self.fed: dict[str, Array] = {}
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []

    def op(self, kind: str, *arguments: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(arguments), [name], **attributes))
        return name

    def constant(self, value: Any, name: str | None = None) -> str:
        from onnx import numpy_helper

        name = name or f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def feed(self, name: str) -> str:
        from onnx import helper

        array = self.arrays[name]
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind, array.shape))
        self.fed[name] = array
        return name

    def weight(self, name: str) -> str:
        return self.constant(self.arrays[name], name)


def _elementwise(g: _Graph) -> str:
    x, z = g.feed("x"), g.feed("z")
    t = g.op("Relu", g.op("Add", g.op("Mul", x, g.constant(f32(1.7))), g.constant(f32(-0.3))))
    t = g.op("Min", g.op("Add", g.op("Mul", t, z), g.constant(f32(0.5))), g.constant(f32(6)))
    return g.op("Mul", g.op("Sub", t, x), g.constant(f32(0.25)))


def _transcendental(g: _Graph) -> str:
    x = g.feed("x")
    cube = g.op("Mul", x, g.op("Mul", x, x))
    inner = g.op("Add", x, g.op("Mul", cube, g.constant(f32(0.044715))))
    t = g.op("Tanh", g.op("Mul", inner, g.constant(f32(0.7978845608028654))))
    half = g.op("Mul", x, g.constant(f32(0.5)))
    gelu = g.op("Mul", half, g.op("Add", t, g.constant(f32(1))))
    square = g.op("Exp", g.op("Neg", g.op("Mul", x, x)))
    return g.op("Add", g.op("Mul", gelu, g.op("Sigmoid", x)), square)


def _convolution(g: _Graph, options: Any) -> str:
    size, stride, padding = g.arrays["w"].shape[2], options["stride"], options["padding"]
    made = g.op(
        "Conv",
        g.feed("x"),
        g.weight("w"),
        g.weight("b"),
        kernel_shape=[size, size],
        strides=[stride, stride],
        pads=[padding] * 4,
    )
    return g.op("Relu", made)


def _batch_norm_relu(g: _Graph, x: str, suffix: str = "") -> str:
    weights = [g.weight(f"{name}{suffix}") for name in "gbmv"]
    return g.op("Relu", g.op("BatchNormalization", x, *weights, epsilon=1e-5))


def _small_cnn(g: _Graph) -> str:
    def layer(x: str, suffix: str) -> str:
        weight = g.weight(f"w{suffix}")
        made = g.op("Conv", x, weight, kernel_shape=[3, 3], pads=[1] * 4)
        return _batch_norm_relu(g, made, suffix)

    a = g.op("MaxPool", layer(g.feed("x"), "1"), kernel_shape=[2, 2], strides=[2, 2])
    flat = g.op("Flatten", layer(a, "2"), axis=1)
    product = g.op("MatMul", flat, g.weight("fw"))
    return g.op("Softmax", g.op("Add", product, g.weight("fb")), axis=1)


def _attention(g: _Graph) -> str:
    q, k, v = g.feed("q"), g.feed("k"), g.feed("v")
    scores = g.op("MatMul", q, g.op("Transpose", k, perm=[0, 2, 1]))
    scale = g.constant(f32(g.arrays["q"].shape[-1] ** -0.5))
    return g.op("MatMul", g.op("Softmax", g.op("Mul", scores, scale), axis=-1), v)


def _half(g: _Graph) -> str:
    from onnx import TensorProto

    return g.op("MatMul", g.feed("a"), g.op("Cast", g.feed("b"), to=TensorProto.FLOAT))


_FAMILIES: dict[str, Callable[[_Graph, Any], str]] = {
    "elementwise": lambda g, _: _elementwise(g),
    "transcendental": lambda g, _: _transcendental(g),
    "softmax": lambda g, _: g.op("Softmax", g.feed("x"), axis=1),
    "layer_norm": lambda g, _: g.op(
        "LayerNormalization", g.feed("x"), g.weight("g"), g.weight("b"), axis=-1, epsilon=1e-5
    ),
    "matmul": lambda g, _: g.op("MatMul", g.feed("a"), g.feed("b")),
    "matmul_bias_relu": lambda g, _: g.op(
        "Relu", g.op("Gemm", g.feed("a"), g.weight("b"), g.weight("c"))
    ),
    "conv_bias_relu": _convolution,
    "batch_norm_relu": lambda g, _: _batch_norm_relu(g, g.feed("x")),
    "max_pool": lambda g, _: g.op(
        "MaxPool", g.feed("x"), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4
    ),
    "small_cnn": lambda g, _: _small_cnn(g),
    "attention": lambda g, _: _attention(g),
    "sum": lambda g, _: g.op("ReduceSum", g.feed("x"), keepdims=0),
    "int8_matmul": lambda g, _: g.op("MatMulInteger", g.feed("a"), g.weight("b")),
    "f16_weights": lambda g, _: _half(g),
}


def onnx_model(workload: Workload, inputs: Inputs) -> tuple[Any, dict[str, Array]] | None:
    """The model and what is fed to it; ``None`` for a family that is not written here."""
    import onnx
    from onnx import TensorProto, helper

    build = _FAMILIES.get(workload.family)
    if build is None:
        return None
    graph = _Graph(inputs)
    result = build(graph, workload.options)
    kind = TensorProto.INT32 if workload.family == "int8_matmul" else TensorProto.FLOAT
    output = helper.make_tensor_value_info(result, kind, None)
    made = helper.make_graph(graph.nodes, workload.family, graph.inputs, [output], graph.constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)])
    model.ir_version = _IR_VERSION
    return onnx.shape_inference.infer_shapes(model), graph.fed

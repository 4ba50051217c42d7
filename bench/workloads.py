"""What is timed: inputs, a float64 reference, the kernel in our language, and the goal.

Contenders spell a *family* (``softmax``); a workload is a family at one size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from references import (
    attention_reference,
    batch_norm_reference,
    convolution_reference,
    elementwise_reference,
    layer_norm_reference,
    matmul_reference,
    max_pool_reference,
    small_cnn_reference,
    softmax_reference,
    transcendental_reference,
)

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]
Generator = np.random.Generator


@dataclass(frozen=True)
class Workload:
    """One computation at one size.

    ``text`` is a kernel in the language whose parameters are the names of ``make``'s arrays;
    ``options`` are what contenders need beside arrays (``stride``). ``size_bytes`` must move at
    least; ``tolerance`` is relative to the largest magnitude of the reference, 0 means exact.
    ``goal`` is the time of the best peer over ours that is to be reached. ``grown(n)`` is the same
    family with n times the work.
    """

    family: str
    size: str
    text: str
    make: Callable[[Generator], dict[str, Array]]
    reference: Callable[..., Array]
    flops: int
    size_bytes: int
    goal: float
    grown: Callable[[int], Workload]
    tolerance: float = 2e-5
    options: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def name(self) -> str:
        """Family and size: ``matmul 256x256x256``."""
        return f"{self.family} {self.size}"


def _normal(generator: Generator, *shape: int) -> Array:
    return generator.standard_normal(shape, dtype=np.float32)


def elementwise(count: int, goal: float) -> Workload:
    """Eight cheap ops on two arrays, one result."""
    return Workload(
        "elementwise",
        f"{count}",
        """kernel elementwise(input x: tensor, input z: tensor, output y: tensor) {
          y = (min(relu(1.7 * x - 0.3) * z + 0.5, 6.0) - x) * 0.25;
        }""",
        lambda g: {"x": _normal(g, count), "z": _normal(g, count)},
        elementwise_reference,
        8 * count,
        12 * count,
        goal,
        lambda factor: elementwise(count * factor, goal),
    )


def transcendental(count: int, goal: float) -> Workload:
    """gelu(x) * sigmoid(x) + exp(-x * x): three transcendentals an element."""
    return Workload(
        "transcendental",
        f"{count}",
        """kernel transcendental(input x: tensor, output y: tensor) {
          y = gelu(x, approximate="tanh") * sigmoid(x) + exp(-x * x);
        }""",
        lambda g: {"x": 2 * _normal(g, count)},
        transcendental_reference,
        60 * count,
        8 * count,
        goal,
        lambda factor: transcendental(count * factor, goal),
    )


def softmax(rows: int, columns: int, goal: float) -> Workload:
    """Softmax of each row."""
    return Workload(
        "softmax",
        f"{rows}x{columns}",
        "kernel softmax_rows(input x: tensor, output y: tensor) { y = softmax(x, dim=1); }",
        lambda g: {"x": 3 * _normal(g, rows, columns)},
        softmax_reference,
        25 * rows * columns,
        8 * rows * columns,
        goal,
        lambda factor: softmax(rows * factor, columns, goal),
        1e-4,
    )


def layer_norm(rows: int, columns: int, goal: float) -> Workload:
    """layer_norm of each row with weight and bias."""
    return Workload(
        "layer_norm",
        f"{rows}x{columns}",
        """kernel norm(input x: tensor, input g: tensor, input b: tensor, output y: tensor) {
          y = layer_norm(x, weight=g, bias=b);
        }""",
        lambda r: {
            "x": _normal(r, rows, columns),
            "g": _normal(r, columns),
            "b": _normal(r, columns),
        },
        layer_norm_reference,
        9 * rows * columns,
        8 * rows * columns,
        goal,
        lambda factor: layer_norm(rows * factor, columns, goal),
        1e-4,
    )


def matmul(m: int, k: int, n: int, goal: float) -> Workload:
    """A matrix product in f32."""
    return Workload(
        "matmul",
        f"{m}x{k}x{n}",
        "kernel mm(input a: tensor, input b: tensor, output y: tensor) { y = a @ b; }",
        lambda g: {"a": _normal(g, m, k), "b": _normal(g, k, n)},
        matmul_reference,
        2 * m * k * n,
        4 * (m * k + k * n + m * n),
        goal,
        lambda factor: matmul(m * factor, k, n, goal),
        1e-4,
    )


def matmul_bias_relu(m: int, k: int, n: int, goal: float) -> Workload:
    """A matrix product with a fused bias and relu."""
    return Workload(
        "matmul_bias_relu",
        f"{m}x{k}x{n}",
        """kernel mbr(input a: tensor, input b: tensor, input c: tensor, output y: tensor) {
          y = relu(a @ b + c);
        }""",
        lambda g: {"a": _normal(g, m, k), "b": _normal(g, k, n), "c": _normal(g, n)},
        lambda a, b, c: np.maximum(matmul_reference(a, b) + c, 0),
        2 * m * k * n + 2 * m * n,
        4 * (m * k + k * n + n + m * n),
        goal,
        lambda factor: matmul_bias_relu(m * factor, k, n, goal),
        1e-4,
    )


def convolution(
    channels: int, size: int, filters: int, window: int, stride: int, goal: float, batch: int = 1
) -> Workload:
    """conv2d with a fused bias and relu, padded to keep ``size / stride``."""
    padding = window // 2
    out = (size + 2 * padding - window) // stride + 1
    points = batch * filters * out * out
    arrays = batch * channels * size * size + filters * channels * window**2 + points
    return Workload(
        "conv_bias_relu",
        f"{window}x{window} s{stride} {batch}x{channels}x{size}x{size} to {filters}",
        f"""kernel cbr(input x: tensor, input w: tensor, input b: tensor, output y: tensor) {{
          y = relu(conv2d(x, w, b, stride={stride}, padding={padding}));
        }}""",
        lambda g: {
            "x": _normal(g, batch, channels, size, size),
            "w": _normal(g, filters, channels, window, window),
            "b": _normal(g, filters),
        },
        lambda x, w, b: np.maximum(
            convolution_reference(x, w, stride, padding) + b[:, None, None], 0
        ),
        2 * points * channels * window**2,
        4 * arrays,
        goal,
        lambda factor: convolution(channels, size, filters, window, stride, goal, batch * factor),
        1e-4,
        {"stride": stride, "padding": padding},
    )


def batch_norm_relu(batch: int, channels: int, size: int, goal: float) -> Workload:
    """batch_norm by running statistics, and relu."""
    count = batch * channels * size * size
    return Workload(
        "batch_norm_relu",
        f"{batch}x{channels}x{size}x{size}",
        """kernel bn(input x: tensor, input m: tensor, input v: tensor, input g: tensor,
                     input b: tensor, output y: tensor) {
          y = relu(batch_norm(x, m, v, g, b));
        }""",
        lambda r: {"x": _normal(r, batch, channels, size, size), **_statistics(r, channels, "")},
        lambda x, m, v, g, b: np.maximum(batch_norm_reference(x, m, v, g, b), 0),
        3 * count,
        8 * count,
        goal,
        lambda factor: batch_norm_relu(batch * factor, channels, size, goal),
    )


def _statistics(generator: Generator, channels: int, suffix: str) -> dict[str, Array]:
    return {
        f"m{suffix}": _normal(generator, channels),
        f"v{suffix}": np.abs(_normal(generator, channels)) + np.float32(0.5),
        f"g{suffix}": _normal(generator, channels),
        f"b{suffix}": _normal(generator, channels),
    }


def max_pool(batch: int, channels: int, size: int, goal: float) -> Workload:
    """Windows of 3 × 3, stride 2, padding 1."""
    out = (size - 1) // 2 + 1
    return Workload(
        "max_pool",
        f"{batch}x{channels}x{size}x{size}",
        """kernel pool(input x: tensor, output y: tensor) {
          y = max_pool(x, kernel_size=3, stride=2, padding=1);
        }""",
        lambda g: {"x": _normal(g, batch, channels, size, size)},
        lambda x: max_pool_reference(x, 3, 2, 1),
        9 * batch * channels * out * out,
        4 * batch * channels * (size * size + out * out),
        goal,
        lambda factor: max_pool(batch * factor, channels, size, goal),
    )


def small_cnn(batch: int, goal: float) -> Workload:
    """Two convolutions with batch_norm and relu, a pool, a linear layer, a softmax."""

    def make(generator: Generator) -> dict[str, Array]:
        return {
            "x": _normal(generator, batch, 3, 32, 32),
            "w1": _normal(generator, 16, 3, 3, 3) * np.float32(0.2),
            **_statistics(generator, 16, "1"),
            "w2": _normal(generator, 32, 16, 3, 3) * np.float32(0.1),
            **_statistics(generator, 32, "2"),
            "fw": _normal(generator, 8192, 10) * np.float32(0.02),
            "fb": _normal(generator, 10),
        }

    return Workload(
        "small_cnn",
        f"{batch}x3x32x32",
        """kernel cnn(input x: tensor, input w1: tensor, input m1: tensor, input v1: tensor,
                      input g1: tensor, input b1: tensor, input w2: tensor, input m2: tensor,
                      input v2: tensor, input g2: tensor, input b2: tensor, input fw: tensor,
                      input fb: tensor, output y: tensor) {
          a = relu(batch_norm(conv2d(x, w1, padding=1), m1, v1, g1, b1));
          p = max_pool(a, kernel_size=2, stride=2);
          c = relu(batch_norm(conv2d(p, w2, padding=1), m2, v2, g2, b2));
          y = softmax(flatten(c, start_dim=1) @ fw + fb, dim=1);
        }""",
        make,
        small_cnn_reference,
        batch * (2 * 16 * 27 * 1024 + 2 * 32 * 144 * 256 + 2 * 8192 * 10),
        4 * (batch * 3 * 1024 + 8192 * 10 + 16 * 27 + 32 * 144 + 80),
        goal,
        lambda factor: small_cnn(batch * factor, goal),
        1e-4,
    )


def attention(heads: int, length: int, width: int, goal: float) -> Workload:
    """softmax(q kᵀ / √width) v for each head."""
    shape = (heads, length, width)
    return Workload(
        "attention",
        f"{heads}x{length}x{width}",
        """kernel attend(input q: tensor, input k: tensor, input v: tensor, output y: tensor) {
          y = attention(q, k, v);
        }""",
        lambda g: {name: _normal(g, *shape) for name in "qkv"},
        attention_reference,
        heads * (4 * length * length * width + 25 * length * length),
        16 * heads * length * width,
        goal,
        lambda factor: attention(heads * factor, length, width, goal),
        1e-4,
    )


def total(count: int, goal: float) -> Workload:
    """The sum of all elements."""
    return Workload(
        "sum",
        f"{count}",
        "kernel total(input x: tensor, output y: tensor) { y = reduce_sum(x); }",
        lambda g: {"x": _normal(g, count)},
        lambda x: np.asarray(x.astype(np.float64).sum()),
        count,
        4 * count,
        goal,
        lambda factor: total(count * factor, goal),
        1e-3,
    )


def int8_matmul(size: int, goal: float) -> Workload:
    """int8 × int8 → int32, exact."""
    shape = (size, size)
    return Workload(
        "int8_matmul",
        f"{size}x{size}x{size}",
        """kernel mm8(input a: tensor, input b: tensor, output y: tensor) {
          y = cast(a, i32) @ cast(b, i32);
        }""",
        lambda g: {name: g.integers(-127, 128, shape, dtype=np.int8) for name in "ab"},
        matmul_reference,
        2 * size**3,
        6 * size**2,
        goal,
        lambda factor: int8_matmul(round(size * factor ** (1 / 3)), goal),
        0.0,
    )


def f16_weights(m: int, goal: float, size: int = 4096) -> Workload:
    """f32 activations times a square matrix of f16 weights, summed in f32."""
    return Workload(
        "f16_weights",
        f"{m}x{size}x{size}",
        """kernel half(input a: tensor, input b: tensor, output y: tensor) {
          y = a @ cast(b, f32);
        }""",
        lambda g: {"a": _normal(g, m, size), "b": _normal(g, size, size).astype(np.float16)},
        matmul_reference,
        2 * m * size**2,
        2 * size**2 + 8 * m * size,
        goal,
        lambda factor: f16_weights(m * factor, goal, size),
        2e-3,
    )


WORKLOADS: tuple[Workload, ...] = (
    elementwise(16, 5.0),
    elementwise(10_000, 1.2),
    elementwise(1_000_000, 1.0),
    elementwise(16_000_000, 1.1),
    transcendental(10_000, 1.1),
    transcendental(1_000_000, 1.1),
    transcendental(16_000_000, 1.1),
    softmax(4096, 1024, 1.4),
    softmax(128, 32768, 1.4),
    layer_norm(4096, 1024, 1.1),
    matmul(256, 256, 256, 1.0),
    matmul(512, 512, 512, 1.0),
    matmul(1024, 1024, 1024, 1.0),
    matmul(2048, 2048, 2048, 0.97),
    matmul(1, 4096, 4096, 1.0),
    matmul(32, 4096, 4096, 1.0),
    matmul_bias_relu(17, 127, 33, 1.0),
    matmul_bias_relu(1024, 1024, 1024, 1.05),
    convolution(64, 56, 64, 3, 1, 1.0),
    convolution(64, 56, 64, 1, 1, 1.2),
    convolution(3, 224, 64, 7, 2, 1.2),
    batch_norm_relu(8, 64, 56, 1.0),
    max_pool(4, 64, 112, 1.5),
    small_cnn(8, 1.2),
    attention(8, 512, 64, 1.2),
    total(16_000_000, 1.0),
    int8_matmul(1024, 1.1),
    f16_weights(1, 4.0),
    f16_weights(32, 1.5),
)


def chosen(only: str, factor: int = 1) -> Iterator[Workload]:
    """The workloads whose name holds one of the comma-separated words, grown by ``factor``."""
    words = [word for word in only.split(",") if word]
    for workload in WORKLOADS:
        if not words or any(word in workload.name for word in words):
            yield workload if factor == 1 else workload.grown(factor)


def named(name: str) -> Workload:
    """The workload of that name, of any size that ``chosen`` gives; ``KeyError`` otherwise."""
    for factor in (1, 4, 16):
        for workload in chosen("", factor):
            if workload.name == name:
                return workload
    raise KeyError(name)

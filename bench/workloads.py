"""What is timed: inputs, a float64 reference, and how each contender spells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Array]


@dataclass(frozen=True)
class Workload:
    """One computation at one size.

    ``text`` is a kernel in the language whose parameters are the names of ``make``'s arrays;
    ``tolerance`` is relative to the largest magnitude of the reference.
    """

    name: str
    text: str
    make: Callable[[np.random.Generator], dict[str, Array]]
    reference: Callable[[Inputs], Array]
    flops: int
    size_bytes: int
    tolerance: float = 2e-5


def _normal(generator: np.random.Generator, *shape: int) -> Array:
    return generator.standard_normal(shape, dtype=np.float32)


def _wide(inputs: Inputs) -> dict[str, Array]:
    return {name: array.astype(np.float64) for name, array in inputs.items()}


def _elementwise(count: int) -> Workload:
    def reference(inputs: Inputs) -> Array:
        x, z = _wide(inputs).values()
        return (np.minimum(np.maximum(1.7 * x - 0.3, 0) * z + 0.5, 6) - x) * 0.25

    text = """kernel elementwise(input x: tensor, input z: tensor, output y: tensor) {
        y = (min(relu(1.7 * x - 0.3) * z + 0.5, 6.0) - x) * 0.25;
    }"""
    return Workload(
        f"elementwise {count}",
        text,
        lambda g: {"x": _normal(g, count), "z": _normal(g, count)},
        reference,
        8 * count,
        12 * count,
    )


def _softmax(rows: int, columns: int) -> Workload:
    def reference(inputs: Inputs) -> Array:
        x = inputs["x"].astype(np.float64)
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    return Workload(
        f"softmax {rows}x{columns}",
        "kernel softmax_rows(input x: tensor, output y: tensor) { y = softmax(x, dim=1); }",
        lambda g: {"x": 3 * _normal(g, rows, columns)},
        reference,
        5 * rows * columns,
        8 * rows * columns,
        1e-4,
    )


def _layer_norm(rows: int, columns: int) -> Workload:
    def reference(inputs: Inputs) -> Array:
        x, g, b = _wide(inputs).values()
        centred = x - x.mean(1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5) * g + b

    text = """kernel norm(input x: tensor, input g: tensor, input b: tensor, output y: tensor) {
        y = layer_norm(x, weight=g, bias=b);
    }"""
    return Workload(
        f"layer_norm {rows}x{columns}",
        text,
        lambda r: {
            "x": _normal(r, rows, columns),
            "g": _normal(r, columns),
            "b": _normal(r, columns),
        },
        reference,
        8 * rows * columns,
        8 * rows * columns,
        1e-4,
    )


def _matmul(m: int, k: int, n: int) -> Workload:
    def reference(inputs: Inputs) -> Array:
        a, b, c = _wide(inputs).values()
        return np.maximum(a @ b + c, 0)

    text = """kernel mbr(input a: tensor, input b: tensor, input c: tensor, output y: tensor) {
        y = relu(a @ b + c);
    }"""
    return Workload(
        f"matmul_bias_relu {m}x{k}x{n}",
        text,
        lambda g: {"a": _normal(g, m, k), "b": _normal(g, k, n), "c": _normal(g, n)},
        reference,
        2 * m * k * n + 2 * m * n,
        4 * (m * k + k * n + n + m * n),
        1e-4,
    )


def _convolution(channels: int, size: int, filters: int) -> Workload:
    def reference(inputs: Inputs) -> Array:
        x, w, b = _wide(inputs).values()
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
        return np.maximum(np.einsum("nchwij,ocij->nohw", windows, w, optimize=True) + b, 0)

    text = """kernel cbr(input x: tensor, input w: tensor, input b: tensor, output y: tensor) {
        y = relu(conv2d(x, w, padding=1) + b);
    }"""
    return Workload(
        f"conv_bias_relu {channels}x{size}x{size} to {filters}",
        text,
        lambda g: {
            "x": _normal(g, 1, channels, size, size),
            "w": _normal(g, filters, channels, 3, 3),
            "b": _normal(g, filters, 1, 1),
        },
        reference,
        2 * filters * channels * 9 * size * size,
        4 * (channels * size * size + filters * channels * 9 + filters * size * size),
        1e-4,
    )


WORKLOADS: tuple[Workload, ...] = (
    _elementwise(16),
    _elementwise(10_000),
    _elementwise(1_000_000),
    _softmax(4096, 1024),
    _layer_norm(4096, 1024),
    _matmul(17, 127, 33),
    _matmul(256, 256, 256),
    _matmul(512, 512, 512),
    _convolution(64, 56, 64),
)

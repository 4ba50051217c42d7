"""Loops that a user writes by hand, compiled by numba with fastmath, into buffers made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from contenders import Contender

REQUIRES = ("numba", "numpy")


def cache_environment(folder: str) -> dict[str, str]:
    return {"NUMBA_CACHE_DIR": folder}


def _into(function: Callable[..., Any], shape: Callable[..., Any], dtype: Any = np.float32) -> Any:
    """A formula that writes to one buffer again and again."""
    buffers: dict[int, Any] = {}

    def call(*arrays: Any, **options: int) -> Any:
        key = id(arrays[0])
        if key not in buffers:
            buffers[key] = np.empty(shape(*arrays, **options), dtype)
        function(*arrays, *options.values(), buffers[key])
        return buffers[key]

    return call


def _like(x: Any, *others: Any) -> Any:
    return x.shape


def _product(a: Any, b: Any, *others: Any) -> Any:
    return a.shape[0], b.shape[1]


def _convolved(x: Any, w: Any, b: Any, stride: int, padding: int) -> Any:
    sizes = [(size + 2 * padding - w.shape[2]) // stride + 1 for size in x.shape[2:]]
    return x.shape[0], w.shape[0], *sizes


def make(threads: int) -> Contender:
    import numba

    numba.set_num_threads(threads)
    from contenders import _numba_kernels as kernels

    def batch_norm_relu(x: Any, m: Any, v: Any, g: Any, b: Any, y: Any) -> Any:
        scale = (g / np.sqrt(v + np.float32(1e-5))).astype(np.float32)
        kernels.scale_shift_relu(x, scale, (b - m * scale).astype(np.float32), y)

    formulas = {
        "elementwise": _into(kernels.elementwise, _like),
        "transcendental": _into(kernels.transcendental, _like),
        "softmax": _into(kernels.softmax, _like),
        "layer_norm": _into(kernels.layer_norm, _like),
        "matmul": _into(kernels.matmul, _product),
        "matmul_bias_relu": _into(kernels.matmul_bias_relu, _product),
        "conv_bias_relu": _into(kernels.conv_bias_relu, _convolved),
        "batch_norm_relu": _into(batch_norm_relu, _like),
        "max_pool": _into(
            kernels.max_pool, lambda x: (*x.shape[:2], *(s // 2 for s in x.shape[2:]))
        ),
        "sum": kernels.total,
        "int8_matmul": _into(kernels.int8_matmul, _product, np.int32),
    }
    return Contender(numba.__version__, formulas)

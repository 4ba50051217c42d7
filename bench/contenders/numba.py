"""Loops that a user writes by hand, compiled by numba with fastmath, into buffers made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from workloads import Inputs, Workload

from contenders import Call, Contender

# numba's matrix product is scipy's OpenBLAS.
REQUIRES = ("numba", "numpy", "scipy")


def cache_environment(folder: str) -> dict[str, str]:
    return {"NUMBA_CACHE_DIR": folder}


@dataclass(frozen=True)
class Loop:
    """A compiled function that takes arrays, options, and a buffer of this shape to write to."""

    function: Callable[..., Any]
    shape: Callable[..., tuple[int, ...]] = lambda x, *others: x.shape
    dtype: Any = np.float32


@dataclass(frozen=True)
class Numba(Contender):
    """Each family as a loop."""

    loops: Mapping[str, Loop] = field(default_factory=dict[str, Loop])

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        loop = self.loops.get(workload.family)
        if loop is None:
            return super().prepare(workload, inputs)
        arrays, options = list(inputs.values()), workload.options
        result = np.empty(loop.shape(*arrays, **options), loop.dtype)
        function, arguments = loop.function, (*arrays, *options.values(), result)

        def call() -> Any:
            function(*arguments)
            return result

        return call


def _product(a: Any, b: Any, *others: Any) -> tuple[int, ...]:
    return a.shape[0], b.shape[1]


def _convolved(x: Any, w: Any, b: Any, stride: int, padding: int) -> tuple[int, ...]:
    sizes = [(size + 2 * padding - w.shape[2]) // stride + 1 for size in x.shape[2:]]
    return x.shape[0], w.shape[0], *sizes


def _halved(x: Any) -> tuple[int, ...]:
    return *x.shape[:2], *((size - 1) // 2 + 1 for size in x.shape[2:])


def make(threads: int) -> Contender:
    import numba

    numba.set_num_threads(threads)
    from contenders import _numba_kernels as kernels

    def batch_norm_relu(x: Any, m: Any, v: Any, g: Any, b: Any, y: Any) -> Any:
        scale = (g / np.sqrt(v + np.float32(1e-5))).astype(np.float32)
        kernels.scale_shift_relu(x, scale, (b - m * scale).astype(np.float32), y)

    loops = {
        "elementwise": Loop(kernels.elementwise),
        "transcendental": Loop(kernels.transcendental),
        "softmax": Loop(kernels.softmax),
        "layer_norm": Loop(kernels.layer_norm),
        "matmul": Loop(kernels.matmul, _product),
        "matmul_bias_relu": Loop(kernels.matmul_bias_relu, _product),
        "conv_bias_relu": Loop(kernels.conv_bias_relu, _convolved),
        "batch_norm_relu": Loop(batch_norm_relu),
        "max_pool": Loop(kernels.max_pool, _halved),
        "int8_matmul": Loop(kernels.int8_matmul, _product, np.int32),
    }
    return Numba(numba.__version__, {"sum": kernels.total}, loops=loops)

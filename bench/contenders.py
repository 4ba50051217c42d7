"""Who is timed: each contender turns a workload and its inputs into a callable, if it can."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from workloads import Array, Inputs, Workload

Call = Callable[[], Any]


class Contender(Protocol):
    """A library under test; building and checking are not timed."""

    name: str

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        """A callable that computes the workload once, or ``None``."""
        ...

    def to_numpy(self, result: Any) -> Array:
        """The result as an array."""
        ...


class Wia:
    """This project, on the CPU."""

    name = "wia"

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        import wia_compiler as wia

        (kernel,) = wia.compile(workload.text).values()
        arrays = list(inputs.values())
        return lambda: kernel(*arrays)

    def to_numpy(self, result: Any) -> Array:
        return np.asarray(result)


class Numpy:
    """Plain numpy, as a careful user writes it."""

    name = "numpy"

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        formula = NUMPY_FORMULAS.get(workload.name.split()[0])
        arrays = list(inputs.values())
        return None if formula is None else lambda: formula(*arrays)

    def to_numpy(self, result: Any) -> Array:
        return np.asarray(result)


class Torch:
    """PyTorch, eager, one thread."""

    name = "torch"

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")
        self.torch.set_num_threads(1)

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        torch = self.torch
        functional = torch.nn.functional
        tensors = [torch.from_numpy(array) for array in inputs.values()]
        formulas: dict[str, Callable[..., Any]] = {
            "elementwise": lambda x, z: (
                (((1.7 * x - 0.3).relu() * z + 0.5).clamp(max=6) - x) * 0.25
            ),
            "softmax": lambda x: torch.softmax(x, 1),
            "layer_norm": lambda x, g, b: functional.layer_norm(x, x.shape[1:], g, b),
            "matmul_bias_relu": lambda a, b, c: torch.addmm(c, a, b).relu_(),
            "conv_bias_relu": lambda x, w, b: functional.conv2d(x, w, b.ravel(), padding=1).relu_(),
        }
        formula = formulas.get(workload.name.split()[0])
        return None if formula is None else lambda: formula(*tensors)

    def to_numpy(self, result: Any) -> Array:
        return result.numpy()


class Numba:
    """Numba's njit with fastmath, one thread: loops a user would write by hand."""

    name = "numba"

    def __init__(self) -> None:
        numba = importlib.import_module("numba")

        @numba.njit(fastmath=True)
        def elementwise(x: Array, z: Array) -> Array:
            y = np.empty_like(x)
            for i in range(x.size):
                t = max(np.float32(1.7) * x[i] - np.float32(0.3), np.float32(0)) * z[i]
                y[i] = (min(t + np.float32(0.5), np.float32(6)) - x[i]) * np.float32(0.25)
            return y

        @numba.njit(fastmath=True)
        def layer_norm(x: Array, g: Array, b: Array) -> Array:
            y = np.empty_like(x)
            rows, columns = x.shape
            for i in range(rows):
                total = np.float32(0)
                for j in range(columns):
                    total += x[i, j]
                mean = total / np.float32(columns)
                squares = np.float32(0)
                for j in range(columns):
                    squares += (x[i, j] - mean) ** 2
                scale = np.float32(1) / np.sqrt(squares / np.float32(columns) + np.float32(1e-5))
                for j in range(columns):
                    y[i, j] = (x[i, j] - mean) * scale * g[j] + b[j]
            return y

        self.formulas = {"elementwise": elementwise, "layer_norm": layer_norm}

    def prepare(self, workload: Workload, inputs: Inputs) -> Call | None:
        formula = self.formulas.get(workload.name.split()[0])
        arrays = list(inputs.values())
        return None if formula is None else lambda: formula(*arrays)

    def to_numpy(self, result: Any) -> Array:
        return np.asarray(result)


def _numpy_elementwise(x: Array, z: Array) -> Array:
    t = np.maximum(np.float32(1.7) * x - np.float32(0.3), 0)
    t *= z
    t += np.float32(0.5)
    np.minimum(t, np.float32(6), out=t)
    t -= x
    t *= np.float32(0.25)
    return t


def _numpy_softmax(x: Array) -> Array:
    e = np.exp(x - x.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    return e


def _numpy_layer_norm(x: Array, g: Array, b: Array) -> Array:
    y = x - x.mean(1, keepdims=True)
    variance = np.einsum("ij,ij->i", y, y)[:, None] / np.float32(x.shape[1])
    y *= 1 / np.sqrt(variance + np.float32(1e-5))
    y *= g
    y += b
    return y


def _numpy_matmul(a: Array, b: Array, c: Array) -> Array:
    y = a @ b
    y += c
    return np.maximum(y, 0, out=y)


def _numpy_convolution(x: Array, w: Array, b: Array) -> Array:
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    n, _, rows, columns = x.shape
    table = windows.transpose(0, 1, 4, 5, 2, 3).reshape(n, w[0].size, rows * columns)
    y = (w.reshape(len(w), -1) @ table).reshape(n, len(w), rows, columns)
    y += b
    return np.maximum(y, 0, out=y)


NUMPY_FORMULAS: dict[str, Callable[..., Array]] = {
    "elementwise": _numpy_elementwise,
    "softmax": _numpy_softmax,
    "layer_norm": _numpy_layer_norm,
    "matmul_bias_relu": _numpy_matmul,
    "conv_bias_relu": _numpy_convolution,
}


def contenders() -> list[Contender]:
    """Ours, numpy, and each peer that can be imported here."""
    found: list[Contender] = [Wia(), Numpy()]
    for make in (Numba, Torch):
        try:
            found.append(make())
        except ImportError:
            continue
    return found

"""Kernels for the device, compiled by other processes while this one runs what is ready.

A process that compiles never touches the GPU: one context on it is enough, and none is forked.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from unit.gpu_programs import compile_text
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.passes.target import Artifact

DTYPES: dict[str, Any] = {
    **{"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16},
    **{"i64": np.int64, "i32": np.int32, "i16": np.int16, "i8": np.int8, "u8": np.uint8},
}
VIEWS: dict[str, Any] = {
    "": lambda x: x,
    "every second row": lambda x: x[::2],
    "rows backwards": lambda x: x[::-1],
    "columns backwards": lambda x: x[:, ::-1],
    "turned": lambda x: x.T,
    "a part, backwards": lambda x: x[::-1, 3:40],
}


@dataclass(frozen=True)
class Operand:
    """An input: shape and dtype of an array, and which view of it is passed."""

    shape: tuple[int, ...]
    dtype: str
    view: str = ""

    def of(self, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The view."""
        return VIEWS[self.view](array)


@dataclass(frozen=True)
class Request:
    """The last kernel of a text, for such operands."""

    text: str
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class Built:
    """What a process that compiles gives back: code, and shape and dtype of each output."""

    artifact: Artifact
    outputs: tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]
    flops: int
    bytes: int


def compile_request(request: Request, architecture: str) -> Built:
    """Compile it; arrays are only looked at, never filled."""
    arrays = [each.of(np.empty(each.shape, DTYPES[each.dtype])) for each in request.operands]
    target = GpuTarget(ARCHITECTURES[architecture], with_sass=False)
    made = compile_text(request.text, arrays, target)
    outputs = tuple((each.spec.shape, np.dtype(each.spec.dtype.numpy)) for each in made.outputs)
    return Built(made.artifact, outputs, made.flops, made.bytes)


class Builds:
    """Builds in order of their requests, each compiled once.

    ``workers`` is how many processes compile, all cores unless it is given; 0: this one does.
    """

    def __init__(self, architecture: str, *, workers: int | None = None):
        self.architecture = architecture
        self._made: dict[Request, Future[Built]] = {}
        self._pool = None
        if workers != 0:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(workers or os.cpu_count(), mp_context=context)

    def request(self, requests: Sequence[Request]) -> None:
        """Begin with these, where nothing has begun with them."""
        for each in requests:
            if each not in self._made and self._pool is not None:
                made = self._pool.submit(compile_request, each, self.architecture)
                self._made[each] = made

    def get(self, request: Request, timeout_s: float | None = None) -> Built:
        """The build, waited for; ``TimeoutError`` after so many seconds; what compiling raised."""
        if self._pool is None:
            return compile_request(request, self.architecture)
        self.request([request])
        return self._made[request].result(timeout_s)

    def is_there(self, request: Request, timeout_s: float) -> bool:
        """Whether a build is ready, in so many seconds; what went wrong is told by ``get``."""
        if self._pool is None:
            return True
        return bool(wait([self._made[request]], max(timeout_s, 0.0)).done)

    def close(self) -> None:
        """Begin no more; those that have begun end first."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

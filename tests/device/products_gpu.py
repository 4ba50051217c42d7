"""Large products, row kernels and attention on a GPU, beside cuBLAS and a copy of the same run.

Arrays are bits on the device: cupy needs to know nothing of bf16, and cuBLAS is told what they are.
Every product is compared with cuBLAS's before it is timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from unit.gpu_programs import compile_text
from wia_compiler.backends.gpu.target import GpuTarget
from wia_compiler.backends.gpu.timing import sample_launches

BUDGET_S = 0.7
"""Of samples for each row of a table."""
PRODUCT = "kernel product(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
ATTENTION = """kernel heads(input Q: tensor, input K: tensor, input V: tensor, output O: tensor) {
    O = attention(Q, K, V);
}"""
ROWS = {
    "copy and scale": "y = x * 2.0;",
    "softmax": "y = softmax(x, dim=1);",
    "layer_norm": "y = layer_norm(x);",
}
PRODUCTS = (("bf16", 8192), ("bf16", 4096), ("f16", 4096), ("f16", 1024), ("f32", 4096))
NUMPY = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
CUDA_TYPES = {"f32": 0, "f16": 2, "bf16": 14}
"""``cudaDataType``: CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF."""
COMPUTE_32F, ALGORITHM_DEFAULT = 68, -1
"""``cublasComputeType_t`` in f32 (for f32 operands without TF32), ``cublasGemmAlgo_t``."""
SHARE = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
"""How far two products may lie apart, of the largest result: a rounding of the result or two."""


@dataclass(frozen=True)
class Row:
    """One line of a table: what ran, microseconds and their spread, what it makes, beside what."""

    name: str
    microseconds: float
    spread: float
    rate: str
    beside: str

    def __str__(self) -> str:
        times = f"{self.microseconds:.1f} | {self.spread:.2f}"
        return f"| {self.name} | {times} | {self.rate} | {self.beside} |"


def timed(cupy: Any, launch: Callable[[], object], *, flush: bool = True) -> tuple[float, float]:
    """Median seconds of a launch, and the 90th percentile over the 10th."""
    samples = sample_launches(cupy, lambda: (launch(), None)[1], budget_s=BUDGET_S, flush=flush)
    deciles = statistics.quantiles(samples.nanoseconds, n=10)
    return statistics.median(samples.nanoseconds) / 1e9, deciles[-1] / deciles[0]


def on_device(cupy: Any, shape: Sequence[int], dtype: str, seed: int) -> tuple[Any, Any]:
    """A random array here, and its bits there."""
    rng = np.random.default_rng(seed)
    host = rng.standard_normal(shape, np.float32).astype(NUMPY[dtype])
    bits = host.view(np.uint16) if host.itemsize == 2 else host
    return host, cupy.asarray(bits)


def launcher(target: GpuTarget, text: str, hosts: Sequence[Any], inputs: Sequence[Any], cupy: Any):
    """What launches a kernel on arrays of the device, and where its result is."""
    compiled = compile_text(text, hosts, target)
    run = target.load(compiled.artifact)
    (spec,) = (each.spec for each in compiled.outputs)
    output = cupy.zeros(spec.shape, np.uint16 if spec.dtype.numpy.itemsize == 2 else np.float32)
    placed = run.place(inputs, [output])
    return (lambda: run.launch(placed)), output, compiled


def cublas(cupy: Any, a: Any, b: Any, c: Any, dtype: str) -> Callable[[], None]:
    """``C = A B`` by ``cublasGemmEx``, which knows columns first: ``C' = B' A'``."""
    library = cupy.cuda.cublas
    handle = cupy.cuda.device.get_cublas_handle()
    library.setPointerMode(handle, library.CUBLAS_POINTER_MODE_HOST)
    (m, k), n = a.shape, b.shape[1]
    one, zero = np.ones(1, np.float32), np.zeros(1, np.float32)
    kind = CUDA_TYPES[dtype]

    def launch() -> None:
        library.gemmEx(
            handle, 0, 0, n, m, k, one.ctypes.data, b.data.ptr, kind, n, a.data.ptr, kind, k,
            zero.ctypes.data, c.data.ptr, kind, n, COMPUTE_32F, ALGORITHM_DEFAULT,
        )  # fmt: skip

    return launch


def values(cupy: Any, bits: Any, dtype: str) -> np.ndarray[Any, Any]:
    """Numbers of an array of the device, in f32."""
    return cupy.asnumpy(bits).view(NUMPY[dtype]).astype(np.float32)


def product_rows(cupy: Any, target: GpuTarget) -> list[Row]:
    """Square products beside cuBLAS, warm L2 for both: an operand is read many times over."""
    found: list[Row] = []
    for dtype, size in PRODUCTS:
        (a, a_bits), (b, b_bits) = (on_device(cupy, (size, size), dtype, seed) for seed in (0, 1))
        ours, result, _ = launcher(target, PRODUCT, [a, b], [a_bits, b_bits], cupy)
        other = cupy.zeros_like(result)
        theirs = cublas(cupy, a_bits, b_bits, other, dtype)
        ours()
        theirs()
        expected = values(cupy, other, dtype)
        apart = np.abs(values(cupy, result, dtype) - expected).max() / np.abs(expected).max()
        if not apart <= SHARE[dtype]:
            raise AssertionError(f"{dtype} product of {size}: {apart:.2e} apart from cuBLAS")
        seconds, spread = timed(cupy, ours, flush=False)
        their_seconds, _ = timed(cupy, theirs, flush=False)
        flops = 2 * size**3
        rate = f"{flops / seconds / 1e12:.1f} TFLOP/s"
        share = f"{100 * their_seconds / seconds:.0f} % of cuBLAS"
        beside = f"{share} ({flops / their_seconds / 1e12:.1f})"
        found.append(Row(f"{dtype} product {size}³", seconds * 1e6, spread, rate, beside))
    return found


def memory_rows(cupy: Any, target: GpuTarget, copy_rate: float) -> list[Row]:
    """Kernels that read and write an array once, beside the copy."""
    found: list[Row] = []
    for name, body in ROWS.items():
        for dtype in ("f32", "bf16"):
            host, bits = on_device(cupy, (16384, 4096), dtype, 2)
            text = f"kernel rows(input x: tensor, output y: tensor) {{ {body} }}"
            launch, _, _ = launcher(target, text, [host], [bits], cupy)
            seconds, spread = timed(cupy, launch)
            rate = 2 * bits.nbytes / seconds
            beside = f"{100 * rate / copy_rate:.0f} % of the copy"
            shown = f"{rate / 1e9:.0f} GB/s"
            found.append(Row(f"{name} 16384×4096 {dtype}", seconds * 1e6, spread, shown, beside))
    return found


def attention_rows(cupy: Any, target: GpuTarget) -> list[Row]:
    """Attention of 64 heads, 4096 queries and keys of 128 elements."""
    found: list[Row] = []
    for dtype in ("bf16", "f16"):
        shape = (64, 4096, 128)
        pairs = [on_device(cupy, shape, dtype, seed) for seed in range(3)]
        hosts, inputs = [each[0] for each in pairs], [each[1] for each in pairs]
        launch, _, _ = launcher(target, ATTENTION, hosts, inputs, cupy)
        seconds, spread = timed(cupy, launch, flush=False)
        heads, length, width = shape
        rate = 4 * heads * length**2 * width / seconds
        shown = f"{rate / 1e12:.1f} TFLOP/s"
        name = f"attention 64×4096×128 {dtype}"
        found.append(Row(name, seconds * 1e6, spread, shown, ""))
    return found

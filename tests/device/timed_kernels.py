"""What is timed on a GPU: large products beside cuBLAS, row kernels beside a copy, attention, the
library.

Arrays are bits on the device: cupy needs to know nothing of bf16, and cuBLAS is told what they are.
Every product is compared with cuBLAS's before it is timed.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import wia_kernels
from device.builds import DTYPES, Builds, Operand, Request
from wia_compiler.backends.gpu.execute import load_on_gpu
from wia_compiler.backends.gpu.timing import sample_launches

SAMPLING_S = 0.7
"""Of samples for each row of a table."""
BUILD_S = 60.0
"""That a row waits for its kernel, at most."""
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


@dataclass(frozen=True)
class Session:
    """What measurements share: the device, the builds, how fast it copies, how long each takes."""

    cupy: Any
    builds: Builds
    copy_rate: float
    budget_s: float


@dataclass(frozen=True)
class Measurement:
    """One row to be measured, of the table of that title, and the kernel that it runs."""

    title: str
    name: str
    request: Request
    run: Callable[[Session, Measurement], Row]


def timed(
    cupy: Any, launch: Callable[[], object], *, budget_s: float, flush: bool = True
) -> tuple[float, float]:
    """Median seconds of a launch, and the 90th percentile over the 10th."""
    samples = sample_launches(cupy, lambda: (launch(), None)[1], budget_s=budget_s, flush=flush)
    deciles = statistics.quantiles(samples.nanoseconds, n=10)
    return statistics.median(samples.nanoseconds) / 1e9, deciles[-1] / deciles[0]


def measurements(*, rehearse: bool) -> list[Measurement]:
    """All rows in order; a rehearsal has one of each table, of a small size."""
    products = (("f16", 64),) if rehearse else PRODUCTS
    rows, columns = (16, 64) if rehearse else (16384, 4096)
    heads = (1, 32, 64) if rehearse else (64, 4096, 128)
    found = [
        Measurement("Products", f"{dtype} product {size}³", _square(dtype, size), product_row)
        for dtype, size in products
    ]
    for name, body in list(ROWS.items())[: 1 if rehearse else None]:
        text = f"kernel rows(input x: tensor, output y: tensor) {{ {body} }}"
        for dtype in ("bf16",) if rehearse else ("f32", "bf16"):
            request = Request(text, (Operand((rows, columns), dtype),))
            shown = f"{name} {rows}×{columns} {dtype}"
            found.append(Measurement("Rows", shown, request, memory_row))
    for dtype in ("f16",) if rehearse else ("bf16", "f16"):
        request = Request(ATTENTION, (Operand(heads, dtype),) * 3)
        shown = f"attention {'×'.join(map(str, heads))} {dtype}"
        found.append(Measurement("Attention", shown, request, attention_row))
    for name in ("gelu",) if rehearse else wia_kernels.names():
        kernel = wia_kernels.get(name)
        if "f32" in kernel.dtypes:
            shapes = kernel.shapes[1 if rehearse else 0]
            request = Request(kernel.text, tuple(Operand(shape, "f32") for shape in shapes))
            shown = ", ".join("×".join(map(str, shape)) or "scalar" for shape in shapes)
            found.append(Measurement("The library", f"{name} {shown}", request, library_row))
    return found


def _square(dtype: str, size: int) -> Request:
    return Request(PRODUCT, (Operand((size, size), dtype),) * 2)


def on_device(cupy: Any, operand: Operand, seed: int) -> Any:
    """The bits of a random array."""
    rng = np.random.default_rng(seed)
    host = rng.standard_normal(operand.shape, np.float32).astype(DTYPES[operand.dtype])
    return cupy.asarray(host.view(np.uint16) if host.itemsize == 2 else host)


def launcher(session: Session, request: Request, inputs: Sequence[Any]):
    """What launches a kernel on arrays of the device, its first result, and the build."""
    built = session.builds.get(request, BUILD_S)
    run = load_on_gpu(built.artifact)
    outputs = [
        session.cupy.zeros(shape, np.uint16 if dtype.itemsize == 2 else dtype)
        for shape, dtype in built.outputs
    ]
    placed = run.place(inputs, outputs)
    return (lambda: run.launch(placed)), outputs[0], built


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
    return cupy.asnumpy(bits).view(DTYPES[dtype]).astype(np.float32)


def product_row(session: Session, what: Measurement) -> Row:
    """A square product beside cuBLAS, warm L2 for both: an operand is read many times over."""
    cupy, operands = session.cupy, what.request.operands
    dtype, size = operands[0].dtype, operands[0].shape[0]
    a, b = (on_device(cupy, operand, seed) for seed, operand in enumerate(operands))
    ours, result, _ = launcher(session, what.request, [a, b])
    other = cupy.zeros_like(result)
    theirs = cublas(cupy, a, b, other, dtype)
    ours()
    theirs()
    expected = values(cupy, other, dtype)
    apart = np.abs(values(cupy, result, dtype) - expected).max() / np.abs(expected).max()
    if not apart <= SHARE[dtype]:
        raise AssertionError(f"{apart:.2e} apart from cuBLAS")
    seconds, spread = timed(cupy, ours, budget_s=session.budget_s, flush=False)
    their_seconds, _ = timed(cupy, theirs, budget_s=session.budget_s, flush=False)
    flops = 2 * size**3
    rate = f"{flops / seconds / 1e12:.1f} TFLOP/s"
    share = f"{100 * their_seconds / seconds:.0f} % of cuBLAS"
    beside = f"{share} ({flops / their_seconds / 1e12:.1f})"
    return Row(what.name, seconds * 1e6, spread, rate, beside)


def memory_row(session: Session, what: Measurement) -> Row:
    """A kernel that reads and writes an array once, beside the copy."""
    bits = on_device(session.cupy, what.request.operands[0], 2)
    launch, _, _ = launcher(session, what.request, [bits])
    seconds, spread = timed(session.cupy, launch, budget_s=session.budget_s)
    rate = 2 * bits.nbytes / seconds
    beside = f"{100 * rate / session.copy_rate:.0f} % of the copy"
    return Row(what.name, seconds * 1e6, spread, f"{rate / 1e9:.0f} GB/s", beside)


def attention_row(session: Session, what: Measurement) -> Row:
    """Heads of as many queries as keys."""
    operands = what.request.operands
    inputs = [on_device(session.cupy, operand, seed) for seed, operand in enumerate(operands)]
    launch, _, _ = launcher(session, what.request, inputs)
    seconds, spread = timed(session.cupy, launch, budget_s=session.budget_s, flush=False)
    heads, length, width = operands[0].shape
    rate = 4 * heads * length**2 * width / seconds
    return Row(what.name, seconds * 1e6, spread, f"{rate / 1e12:.1f} TFLOP/s", "")


def library_row(session: Session, what: Measurement) -> Row:
    """A kernel of the library at its working size, in f32, L2 cold."""
    operands = what.request.operands
    inputs = [on_device(session.cupy, operand, seed) for seed, operand in enumerate(operands)]
    launch, _, built = launcher(session, what.request, inputs)
    seconds, spread = timed(session.cupy, launch, budget_s=session.budget_s)
    rate = built.bytes / seconds
    made = f"{rate / 1e9:.0f} GB/s, {built.flops / seconds / 1e9:.0f} GFLOP/s"
    beside = f"{100 * rate / session.copy_rate:.0f} % of the copy"
    return Row(what.name, seconds * 1e6, spread, made, beside)

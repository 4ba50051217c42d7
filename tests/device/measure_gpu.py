"""Times kernels on this machine's GPU, for the last section of docs/measurements.md.

Arrays are on the device before the first run. Each figure is the median of samples between two
CUDA events, after runs to warm up; L2 is overwritten before each sample but for products, whose
operands stay there while they run. The copy on top is of 256 MiB, in the same run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("compiler", "kernels", "tests")]

import wia_kernels  # noqa: E402
from device.products_gpu import (  # noqa: E402
    Row,
    attention_rows,
    memory_rows,
    product_rows,
    timed,
)
from device.test_device_gpu import arguments, device_target  # noqa: E402
from unit.gpu_programs import compile_text  # noqa: E402
from wia_compiler.backends.gpu.target import GpuTarget  # noqa: E402
from wia_compiler.backends.gpu.timing import sm_clock_mhz  # noqa: E402

GPU_HEADING = "## On a GPU"
"""The last section of the page; what stands before it is left as it is."""


def library_rows(cupy: Any, target: GpuTarget, copy_rate: float) -> list[Row]:
    """Each kernel of the library at its working size, in f32."""
    found: list[Row] = []
    for name in wia_kernels.names():
        kernel = wia_kernels.get(name)
        if "f32" not in kernel.dtypes:
            continue
        arrays = arguments(kernel.shapes[0], "f32")
        compiled = compile_text(kernel.text, arrays, target)
        run = target.load(compiled.artifact)
        inputs = [cupy.asarray(array) for array in arrays]
        outputs = [cupy.zeros(each.spec.shape, each.spec.dtype.numpy) for each in compiled.outputs]
        placed = run.place(inputs, outputs)
        seconds, spread = timed(cupy, lambda r=run, p=placed: r.launch(p))
        rate = compiled.bytes / seconds
        shapes = ", ".join("×".join(map(str, shape)) or "scalar" for shape in kernel.shapes[0])
        made = f"{rate / 1e9:.0f} GB/s, {compiled.flops / seconds / 1e9:.0f} GFLOP/s"
        beside = f"{100 * rate / copy_rate:.0f} % of the copy"
        found.append(Row(f"{name} {shapes}", seconds * 1e6, spread, made, beside))
    return found


def copied(cupy: Any) -> tuple[float, float]:
    """Bytes a second that a copy of 256 MiB reads and writes, and the spread of its times."""
    source = cupy.zeros(256 << 20, cupy.uint8)
    sink = cupy.zeros_like(source)
    seconds, spread = timed(cupy, lambda: cupy.copyto(sink, source))
    return 2 * source.nbytes / seconds, spread


def main() -> None:
    target = device_target()
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    copy_rate, copy_spread = copied(cupy)
    tables: list[str] = []
    failures: list[str] = []
    for title, rows in (
        ("Products", lambda: product_rows(cupy, target)),
        ("Rows", lambda: memory_rows(cupy, target, copy_rate)),
        ("Attention", lambda: attention_rows(cupy, target)),
        ("The library", lambda: library_rows(cupy, target, copy_rate)),
    ):
        tables += [
            "",
            f"| {title} | µs | spread | makes | beside |",
            "| --- | --- | --- | --- | --- |",
        ]
        try:
            tables += map(str, rows())
        except Exception as error:
            # The other tables are worth their time on the device; the exit status tells.
            failures.append(f"{title}: {type(error).__name__}: {error}")
            tables.append(f"| not measured: {error} | | | | |".replace("\n", " "))
    clocks = sm_clock_mhz()
    clock = f"SM clock {clocks[0]} MHz of {clocks[1]} after it" if clocks else "clocks not known"
    lines = [
        GPU_HEADING,
        "",
        "Written by `tests/device/run.sh`: medians of samples by events of the GPU, data on the",
        "device; spread is the 90th percentile over the 10th.",
        "",
        f"- GPU: {properties['name'].decode()}, built for {target.name}, {clock}",
        f"- copy of 256 MiB: {copy_rate / 1e9:.0f} GB/s (spread {copy_spread:.2f})",
        *tables,
    ]
    path = ROOT / "docs" / "measurements.md"
    others = path.read_text(encoding="utf-8").partition(GPU_HEADING)[0]
    path.write_text(others + "\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    np.seterr(all="ignore")
    try:
        main()
    except pytest.skip.Exception as reason:
        print(f"nothing measured: {reason}")

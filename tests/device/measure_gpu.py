"""Times the library's kernels on this machine's GPU, for the last section of docs/measurements.md.

Each kernel runs at its working size in f32, on arrays that are on the device already: median of 50
launches after 5, each between two CUDA events. Bandwidth is compulsory bytes over time; the line on
top is what a copy of 256 MiB reaches in the same run.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("compiler", "kernels", "tests")]

import wia_kernels  # noqa: E402
from device.test_device_gpu import arguments, device_target  # noqa: E402
from unit.gpu_programs import compile_text  # noqa: E402

WARM_RUNS, RUNS = 5, 50
GPU_HEADING = "## On a GPU"
"""The last section of the page; what stands before it is left as it is."""


def time_s(cupy: Any, run: Callable[[], object]) -> tuple[float, float]:
    """Median and spread (90th percentile over 10th) of one call, in seconds."""
    times: list[float] = []
    for number in range(WARM_RUNS + RUNS):
        start, end = cupy.cuda.Event(), cupy.cuda.Event()
        start.record()
        run()
        end.record()
        end.synchronize()
        if number >= WARM_RUNS:
            times.append(cupy.cuda.get_elapsed_time(start, end) / 1e3)
    deciles = statistics.quantiles(times, n=10)
    return statistics.median(times), deciles[-1] / deciles[0]


def main() -> None:
    target = device_target()
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    source = cupy.zeros(256 << 20, cupy.uint8)
    sink = cupy.zeros_like(source)
    copy_s, _ = time_s(cupy, lambda: cupy.copyto(sink, source))
    copy_rate = 2 * source.nbytes / copy_s
    lines = [
        GPU_HEADING,
        "",
        "Written by `tests/device/run.sh`; median of 50 launches, data on the device.",
        "",
        f"- GPU: {properties['name'].decode()}, built for {target.name}",
        f"- copy of 256 MiB: {copy_rate / 1e9:.0f} GB/s",
        "",
        "| kernel | shapes | time (µs) | spread | GB/s | % of copy | GFLOP/s |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name in wia_kernels.names():
        kernel = wia_kernels.get(name)
        if "f32" not in kernel.dtypes:
            continue
        arrays = arguments(kernel.shapes[0], "f32")
        compiled = compile_text(kernel.text, arrays, target)
        run = target.load(compiled.artifact)
        inputs = [cupy.asarray(array) for array in arrays]
        outputs = [cupy.zeros(each.spec.shape, each.spec.dtype.numpy) for each in compiled.outputs]
        seconds, spread = time_s(cupy, lambda r=run, i=inputs, o=outputs: r(i, o))
        rate = compiled.bytes / seconds
        shapes = ", ".join("×".join(map(str, shape)) or "scalar" for shape in kernel.shapes[0])
        lines.append(
            f"| {name} | {shapes} | {seconds * 1e6:.1f} | {spread:.2f} | {rate / 1e9:.0f} "
            f"| {100 * rate / copy_rate:.0f} | {compiled.flops / seconds / 1e9:.0f} |"
        )
    path = ROOT / "docs" / "measurements.md"
    others = path.read_text(encoding="utf-8").partition(GPU_HEADING)[0]
    path.write_text(others + "\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    np.seterr(all="ignore")
    try:
        main()
    except pytest.skip.Exception as reason:
        print(f"nothing measured: {reason}")

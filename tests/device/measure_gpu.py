"""Times kernels on this machine's GPU: ``python tests/device/measure_gpu.py``.

Arrays are on the device before the first run. Each figure is the median of samples between two
CUDA events, after runs to warm up; L2 is overwritten before each sample but for products and
attention, whose operands stay there while they run. The copy on top is of 256 MiB, in the same run.

Figures are in docs/measurements.md as soon as they are known. ``--rehearse`` measures a small
kernel of each table on the simulator, and leaves the page as it is.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("compiler", "kernels", "tests")]

import numpy as np  # noqa: E402
from device.builds import Builds  # noqa: E402
from device.machine import device_of, is_lost  # noqa: E402
from device.progress import REHEARSAL_S, Progress  # noqa: E402
from device.timed_kernels import SAMPLING_S, Measurement, Session, measurements, timed  # noqa: E402
from wia_compiler.backends.gpu.timing import sm_clock_mhz  # noqa: E402

BUDGET_S = 200.0
GPU_HEADING = "## On a GPU"
"""The last section of the page; what stands before it is left as it is."""
PAGE = ROOT / "docs" / "measurements.md"


class Page:
    """The section, written anew after each figure."""

    def __init__(self, path: Path, head: Sequence[str]):
        self._path, self._head = path, head
        self._tables: dict[str, list[str]] = {}

    def add(self, title: str, line: str) -> None:
        """One more line of a table."""
        self._tables.setdefault(title, []).append(line)
        self.write()

    def write(self) -> None:
        clocks = sm_clock_mhz()
        clock = f"SM clock {clocks[0]} MHz of {clocks[1]} after it" if clocks else "not known"
        lines = [GPU_HEADING, "", *self._head, f"- clock: {clock}"]
        for title, rows in self._tables.items():
            heads = ["", f"| {title} | µs | spread | makes | beside |"]
            lines += [*heads, "| --- | --- | --- | --- | --- |", *rows]
        others = self._path.read_text(encoding="utf-8").partition(GPU_HEADING)[0]
        new = self._path.with_suffix(".new")
        new.write_text(others + "\n".join(lines) + "\n", encoding="utf-8")
        new.replace(self._path)


def copied(cupy: Any, budget_s: float, size: int) -> tuple[float, float]:
    """Bytes a second that a copy reads and writes, and the spread of its times."""
    source = cupy.zeros(size, cupy.uint8)
    sink = cupy.zeros_like(source)
    seconds, spread = timed(cupy, lambda: cupy.copyto(sink, source), budget_s=budget_s)
    return 2 * source.nbytes / seconds, spread


def measure(session: Session, what: Measurement, page: Page, progress: Progress) -> None:
    """One row, or why there is none."""
    try:
        row = str(what.run(session, what))
        progress.say(row)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".replace("\n", " ").replace("|", "/")
        row = f"| {what.name} | not measured: {reason} | | | |"
        progress.fail(f"{what.name}: {reason}")
    page.add(what.title, row)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="on the simulator, small sizes")
    rehearse = parser.parse_args(arguments).rehearse
    progress = Progress(REHEARSAL_S if rehearse else BUDGET_S)
    try:
        cupy, architecture = device_of(rehearse=rehearse)
    except LookupError as reason:
        progress.say(f"nothing measured: {reason}")
        return
    rows = measurements(rehearse=rehearse)
    builds = Builds(architecture, workers=0 if rehearse else None)
    builds.request([row.request for row in rows])
    with tempfile.TemporaryDirectory() as folder:
        path = PAGE
        if rehearse:
            path = Path(shutil.copy(PAGE, folder))
        try:
            done = _measure_all(cupy, builds, rows, path, progress, rehearse=rehearse)
        finally:
            builds.close()
        if rehearse:
            print(path.read_text(encoding="utf-8").partition(GPU_HEADING)[2])
    progress.end(done, len(rows))


def _measure_all(
    cupy: Any,
    builds: Builds,
    rows: Sequence[Measurement],
    path: Path,
    progress: Progress,
    *,
    rehearse: bool,
) -> int:
    """Measure what there is time for; how many rows that were."""
    # Nothing is compiled while a clock runs, unless it takes more than half of the time.
    built = [builds.is_there(row.request, progress.left_s - BUDGET_S / 2) for row in rows]
    progress.say(f"{sum(built)} of {len(rows)} kernels built for {builds.architecture}")
    budget_s, size = (0.0, 1 << 20) if rehearse else (SAMPLING_S, 256 << 20)
    copy_rate, spread = copied(cupy, budget_s, size)
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    head = [
        "Written by `tests/device/run.sh`: medians of samples by events of the GPU, data on the",
        "device; spread is the 90th percentile over the 10th.",
        "",
        f"- GPU: {name}, built for gpu:{builds.architecture}",
        f"- copy of {size >> 20} MiB: {copy_rate / 1e9:.0f} GB/s (spread {spread:.2f})",
    ]
    progress.say(head[-1])
    page = Page(path, head)
    page.write()
    session = Session(cupy, builds, copy_rate, budget_s)
    for done, row in enumerate(rows):
        if progress.left_s <= 0:
            progress.say("out of time")
            return done
        measure(session, row, page, progress)
        if is_lost(cupy):
            progress.say("the kernel ended the device's context: nothing more runs here")
            return done + 1
    return len(rows)


if __name__ == "__main__":
    np.seterr(all="ignore")
    main()

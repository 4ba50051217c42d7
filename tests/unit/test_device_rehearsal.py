"""The scripts for a GPU, rehearsed on the simulator: what runs there once must not rot here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device.builds import Request
from device.measure_gpu import Page, measure
from device.progress import Progress
from device.timed_kernels import Measurement, Row, Session

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rehearsal() -> subprocess.CompletedProcess[str]:
    page = ROOT / "docs" / "measurements.md"
    before = page.read_bytes()
    done = subprocess.run(
        ["sh", "tests/device/run.sh", "--rehearse", sys.executable],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert page.read_bytes() == before, "a rehearsal leaves the page as it is"
    return done


def test_every_case_is_right(rehearsal: subprocess.CompletedProcess[str]) -> None:
    assert rehearsal.returncode == 0, rehearsal.stdout + rehearsal.stderr
    lines = rehearsal.stdout.splitlines()
    # A product by tensor maps, strided arrays, arrays on the device from any element on, rows.
    cases = [line.split("] right ", 1)[1] for line in lines if "] right " in line]
    for part in ("relu(A @ B + bias) f16", "turned", "device", "shifted", "softmax f32"):
        assert sum(part in each for each in cases) == 1, cases
    assert lines[0].endswith(f"{len(cases)} cases for sm_90a")
    assert any(line.endswith(f"{len(cases)} of {len(cases)} done, 0 failed") for line in lines)


def test_every_table_has_a_figure(rehearsal: subprocess.CompletedProcess[str]) -> None:
    text = rehearsal.stdout
    for title in ("Products", "Rows", "Attention", "The library"):
        table = text.split(f"| {title} | µs |", 1)[1].splitlines()[2:3]
        assert table and table[0].count("|") == 6 and "not measured" not in table[0], title
    # A launch of the stand-in takes a millisecond, and cuBLAS's as long.
    assert "| f16 product 64³ | 1000.0 | 1.00 | 0.0 TFLOP/s | 100 % of cuBLAS (0.0) |" in text


def test_a_row_that_fails_is_noted_and_the_rest_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "page.md"
    path.write_text("# Before\n\n## On a GPU\n\nold\n", encoding="utf-8")
    progress, page = Progress(60.0), Page(path, ["- GPU: none"])
    session: Any = None
    request = Request("", ())

    def fails(session: Session, what: Measurement) -> Row:
        raise RuntimeError("out of | memory\nhere")

    def works(session: Session, what: Measurement) -> Row:
        return Row(what.name, 2.5, 1.0, "5 GB/s", "")

    for name, run in (("large", fails), ("small", works)):
        measure(session, Measurement("Rows", name, request, run), page, progress)
        assert f"| {name} |" in path.read_text(encoding="utf-8"), "as soon as it is known"
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# Before\n\n## On a GPU\n\n- GPU: none\n") and "old" not in text
    assert "| large | not measured: RuntimeError: out of / memory here | | | |" in text
    assert "| small | 2.5 | 1.00 | 5 GB/s |  |" in text
    with pytest.raises(SystemExit):
        progress.end(2, 2)
    said = capsys.readouterr()
    assert "FAILED large" in said.out and "large: RuntimeError" in said.err


@pytest.mark.parametrize(("done", "of", "fails"), [(3, 3, False), (2, 3, True)])
def test_what_was_not_reached_fails(done: int, of: int, fails: bool) -> None:
    progress = Progress(0.0)
    assert progress.left_s <= 0
    try:
        progress.end(done, of)
    except SystemExit as ended:
        assert fails and ended.code == 1
    else:
        assert not fails

"""Processes that build, evict and clear the same entries at once."""

import contextlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from runtime_fakes import FakeCompiler, fake_program, fake_session
from wia_compiler.runtime import session

PROCESSES = 8
ROOT = Path(__file__).parents[2]

# Every process announces itself, waits for the others, then builds and runs the same kernels.
WORKER = """
import sys
sys.path[:0] = [{compiler!r}, {tests!r}]
import numpy as np
from wia_compiler.runtime import session
session.versions = lambda: ("one state of the compiler",)
from runtime_fakes import FakeCompiler, fake_program, fake_session

TEXT = "kernel add(input A: tensor, input B: tensor, output C: tensor) {{ C = A + B; }}"
print("ready", flush=True)
sys.stdin.readline()
hits = []
for round in range({rounds}):
    kernel = fake_program(TEXT, fake_session(FakeCompiler())).add
    for size in range(1, 4):
        array = np.arange(size, dtype=np.float32)
        build = kernel.build(array, array)
        assert (build(array, array) == array * 2).all()
        assert build.trace.kernel == "add" and build.stage("machine").text == "ret"
        hits.append(build.cache.hit)
print(" ".join(hits), flush=True)
"""


def run_together(rounds: int) -> list[list[str]]:
    script = WORKER.format(
        compiler=str(ROOT / "compiler"), tests=str(ROOT / "tests"), rounds=rounds
    )
    command = [sys.executable, "-c", script]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    answers = []
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(subprocess.Popen(command, text=True, **pipes))
            for _ in range(PROCESSES)
        ]
        for process in processes:
            assert process.stdout.readline() == "ready\n", process.stderr.read()
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        for process in processes:
            said, complaints = process.communicate(timeout=120)
            assert process.returncode == 0, complaints
            assert "damaged" not in complaints and "Traceback" not in complaints, complaints
            answers.append(said.split())
    return answers


def test_eight_processes_race_on_the_same_keys(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    answers = run_together(rounds=6)
    # Whoever lost a race in the first round finds the winner's entry in the second.
    assert all(hits[3:] == ["disk"] * 15 for hits in answers)
    entries = list((tmp_path / "kernels" / "entries").iterdir())
    assert len(entries) == 3 and not any((tmp_path / "kernels" / "staging").iterdir())
    monkeypatch.setattr(session, "versions", lambda: ("one state of the compiler",))
    array = np.arange(2, dtype=np.float32)
    compiler = FakeCompiler()
    text = "kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }"
    build = fake_program(text, fake_session(compiler)).add.build(array, array)
    assert build.cache.hit == "disk" and compiler.calls == []


@pytest.mark.parametrize("size", ["0", "6K"])
def test_eight_processes_evict_what_others_read(tmp_path, monkeypatch, size):
    """A folder that holds no entry, or two of the three: everyone still computes right."""
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("WIA_CACHE_SIZE", size)
    for hits in run_together(rounds=4):
        assert len(hits) == 12
    assert not any((tmp_path / "kernels" / "staging").iterdir())

"""Contenders side by side: processes, interleaved samples, and what to make of them."""

from __future__ import annotations

import json
import os
import random
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contenders import contender_module
from worker import SEED
from workloads import Workload

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parent / ".bench"
"""Where `make bench-peers` puts one environment for each peer."""
PATIENCE_SECONDS = 300
CLEAN_WAITING = 0.04
FEWEST_SAMPLES = 5
_SLOW = 12
"""A contender so many times slower than the fastest is sampled rarely once it is known."""


class Process:
    """A contender's worker; ``fault`` says why there is none."""

    def __init__(self, name: str, threads: int, cache_folder: str | None = None):
        self.name = name
        module = contender_module(name)
        environment = {**os.environ, **_thread_limits(threads), "PYTHONPATH": _path()}
        for variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
            environment.pop(variable, None)  # either slows a current numpy
        if hasattr(module, "environment"):
            environment |= module.environment(threads)
        if cache_folder is not None and hasattr(module, "cache_environment"):
            environment |= module.cache_environment(cache_folder)
        command = [interpreter(name), str(HERE / "worker.py"), name, str(threads)]
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment,
            text=True,
        )
        self.greeting = self._read()
        self.fault: str = self.greeting.get("missing") or self.greeting.get("failed") or ""

    def ask(self, do: str, **arguments: Any) -> dict[str, Any]:
        """The worker's answer to a request; ``failed`` in it where it gave none."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except OSError:
            return {"failed": self._last_words()}
        return self._read()

    def _read(self) -> dict[str, Any]:
        stream = self._process.stdout
        assert stream is not None
        if not select.select([stream], [], [], PATIENCE_SECONDS)[0]:
            self._process.kill()
            return {"failed": f"no answer for {PATIENCE_SECONDS} s"}
        line = stream.readline()
        return json.loads(line) if line else {"failed": self._last_words()}

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().splitlines()
        return f"its process ended: {lines[-1] if lines else 'without a word'}"

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            self._process.wait(5)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()


def interpreter(name: str) -> str:
    """The Python that runs a contender: ``BENCH_PY_<NAME>``, its own environment, or this one."""
    module = contender_module(name)
    shared = getattr(module, "SHARES", name)
    named = os.environ.get(f"BENCH_PY_{shared.upper()}")
    own = ENVIRONMENTS / shared / "bin" / "python"
    return named or (str(own) if own.exists() and module.REQUIRES else sys.executable)


def _thread_limits(threads: int) -> dict[str, str]:
    libraries = ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR")
    return {f"{library}_NUM_THREADS": str(threads) for library in libraries}


def _path() -> str:
    """Where a worker finds this folder's modules."""
    return str(HERE)


@dataclass(frozen=True)
class Timing:
    """Seconds of one call: ``best``, ``median``, quartiles, and how many samples there were.

    ``soft`` says that fewer than five of them had their cores to themselves: ``median`` is then
    the lower quartile of all.
    """

    best: float
    median: float
    lower: float
    upper: float
    samples: int
    soft: bool

    @staticmethod
    def of(samples: Sequence[Mapping[str, float]], threads: int) -> Timing:
        """CPU time at one thread, which other work on the machine does not count into; else wall
        time, of the samples in which no thread had to wait for a core."""
        if threads == 1:
            times, soft = [sample["cpu"] for sample in samples], False
        else:
            clean = [each["wall"] for each in samples if each["waiting"] < CLEAN_WAITING]
            soft = len(clean) < FEWEST_SAMPLES
            times = [each["wall"] for each in samples] if soft else clean
        if len(times) == 1:
            times = times * 2
        lower, median, upper = statistics.quantiles(times, n=4, method="inclusive")
        return Timing(min(times), lower if soft else median, lower, upper, len(samples), soft)


@dataclass(frozen=True)
class Row:
    """One workload: a timing for each contender that did it, a reason for each that did not."""

    workload: Workload
    timings: Mapping[str, Timing]
    faults: Mapping[str, str]

    @property
    def best_peer(self) -> str | None:
        """The fastest contender but ours."""
        peers = {name: each.median for name, each in self.timings.items() if name != "wia"}
        return min(peers, key=peers.__getitem__, default=None)

    @property
    def ratio(self) -> float | None:
        """Time of the best peer over ours."""
        peer, ours = self.best_peer, self.timings.get("wia")
        if peer is None or ours is None:
            return None
        return self.timings[peer].median / ours.median


def measure(
    workloads: Sequence[Workload], processes: Sequence[Process], threads: int, seconds: float
) -> Iterator[Row]:
    """Check and time every workload, all contenders interleaved in random order."""
    with tempfile.TemporaryDirectory(prefix="wia-bench-") as folder:
        for workload in workloads:
            yield _row(workload, processes, threads, seconds, Path(folder) / "reference.npy")


def wait_until_idle(share: float = 0.9, at_most_seconds: float = 0.5) -> None:
    """Wait while threads of whoever was sampled last still spin on cores that are now another's.

    OpenMP's do so for 0.2 s, unless told otherwise, and would take a core from the next sample.
    """
    end = time.monotonic() + at_most_seconds
    while time.monotonic() < end:
        idle, total = _processor_times()
        time.sleep(0.02)
        later_idle, later_total = _processor_times()
        if later_idle - idle >= share * (later_total - total):
            return


def _processor_times() -> tuple[int, int]:
    """Ticks that all processors were idle, and all ticks, since the machine started."""
    numbers = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return numbers[3] + numbers[4], sum(numbers)


def _row(
    workload: Workload, processes: Sequence[Process], threads: int, seconds: float, place: Path
) -> Row:
    inputs = workload.make(np.random.default_rng(SEED))
    np.save(place, workload.reference(*inputs.values()))
    faults: dict[str, str] = {}
    live: list[Process] = []
    for process in processes:
        answer = process.ask("prepare", workload=workload.name, reference=str(place))
        if "failed" in answer:
            faults[process.name] = answer["failed"]
        elif answer.get("wrong"):
            faults[process.name] = f"WRONG by {answer['error']:.1e}"
        elif "absent" not in answer:
            live.append(process)
    samples = _samples(live, seconds, faults, quiet=threads > 1)
    for process in processes:
        process.ask("drop")
    timings = {name: Timing.of(taken, threads) for name, taken in samples.items() if taken}
    return Row(workload, timings, faults)


def _samples(
    live: Sequence[Process], seconds: float, faults: dict[str, str], *, quiet: bool
) -> dict[str, list[Mapping[str, float]]]:
    samples: dict[str, list[Mapping[str, float]]] = {process.name: [] for process in live}
    last = {process.name: 0.0 for process in live}
    end, turn = time.monotonic() + seconds, 0
    while live and (time.monotonic() < end or turn < FEWEST_SAMPLES):
        turn += 1
        fastest = min(last.values())
        for process in random.sample(list(live), len(live)):
            slow = last[process.name] > max(0.03, _SLOW * fastest)
            if slow and turn > 2 and turn % 8:
                continue
            if quiet:
                wait_until_idle()
            answer = process.ask("sample")
            if "failed" in answer:
                faults[process.name] = answer["failed"]
                live = [each for each in live if each is not process]
                continue
            samples[process.name].append(answer)
            last[process.name] = answer["wall"]
    return samples

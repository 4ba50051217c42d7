"""Measure a machine's limits: the best of many short samples of each loop, in turns."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from wia_compiler.profiler.ceilings import Ceiling, Ceilings
from wia_compiler.profiler.machine import Machine
from wia_compiler.profiler.micro_kernels import FMA_SUMS, Kernel, compile_micro_kernels

_SAMPLE_BYTES = 2 << 20
_FMA_ROUNDS = 4000
_ROUNDS = 3
_SECONDS_PER_TURN = 0.03
# Far more than the last cache, so that what was read a turn ago is gone; but not all of memory.
_LARGEST_BUFFER = 1 << 30
_GRANULE = 4096
_STEP = 128
"""Elements that one turn of the longest loop takes: 8 vectors of 16."""

# Other work on a shared core makes samples slower, never faster: the best one is the limit. In DRAM
# a few samples find their lines still in the last cache, so the fastest twentieth does not count.
_BEST = 0.0
_FASTEST_TWENTIETH = 0.05


@dataclass
class Probe:
    """One loop: ``run(core)`` does ``work`` (FLOPs or bytes); ``rates`` gathers its samples."""

    name: str
    work: float
    run: Callable[[int], None]
    quantile: float = _BEST
    samples: list[list[float]] = field(default_factory=list[list[float]])

    def rate(self) -> float:
        """The limit that the samples show, all cores together."""
        total = 0.0
        for seconds in self.samples:
            ordered = sorted(seconds)
            total += self.work / ordered[int(self.quantile * (len(ordered) - 1))]
        return total


def measure_ceilings(machine: Machine, *, threads: int = 1) -> Ceilings:
    """Arithmetic rates and bandwidth of each memory, ``threads`` cores working at once."""
    code = compile_micro_kernels(machine)
    loops = code.kernels
    buffers = [_Buffer(_buffer_bytes(machine, threads)) for _ in range(threads)]
    probes = {
        "f32": _fma(loops["fma_f32"], buffers, machine.vector_bytes // 4),
        "f64": _fma(loops["fma_f64"], buffers, machine.vector_bytes // 8),
    }
    levels = _levels(machine)
    for name, _, size in levels:
        probes[f"{name} read"] = _read(loops["read"], buffers, size)
        probes[f"{name} triad"] = _triad(loops["triad"], buffers, size)
    probes["DRAM read"] = _sweep(loops["read"], buffers, 1)
    probes["DRAM triad"] = _sweep(loops["triad"], buffers, 3)
    probes["DRAM stream"] = _sweep(loops["stream"], buffers, 3)
    _take_samples(list(probes.values()), threads)
    source = f"measured on this machine, {threads} thread{'s' if threads > 1 else ''}"
    rows = [
        Ceiling("f32 FMA", "compute", probes["f32"].rate(), source, None, ("f32", "f16", "bf16")),
        Ceiling("f64 FMA", "compute", probes["f64"].rate(), source, None, ("f64",)),
    ]
    for name, capacity, _ in [*levels, ("DRAM", None, 0)]:
        found = [probe.rate() for key, probe in probes.items() if key.startswith(name + " ")]
        rows.append(Ceiling(name, "memory", max(found), source, capacity))
    return Ceilings(machine.model or machine.cpu, tuple(rows))


def _levels(machine: Machine) -> list[tuple[str, int, int]]:
    """Name, capacity and a working set for each cache, too large for the cache before it."""
    levels: list[tuple[str, int, int]] = []
    before = None
    for level, size in machine.caches:
        working_set = size // 2 if before is None else int(math.sqrt(before * size))
        levels.append((f"L{level}", size, working_set))
        before = size
    return levels


class _Buffer:
    """Memory of one core, aligned for vectors, with a place that sweeps over it."""

    def __init__(self, size_bytes: int):
        self._array = np.empty(size_bytes // 4 + 1024, np.float32)
        self._array.fill(0.5)
        self.address = -(-self._array.ctypes.data // _GRANULE) * _GRANULE
        self.size_bytes = size_bytes // _GRANULE * _GRANULE
        self.place = 0

    def next(self, size_bytes: int) -> int:
        """The address of the next ``size_bytes``, from the start again at the end."""
        if self.place + size_bytes > self.size_bytes:
            self.place = 0
        address = self.address + self.place
        self.place += size_bytes
        return address


def _buffer_bytes(machine: Machine, threads: int) -> int:
    wanted = max(8 * machine.caches[-1][1], 64 << 20)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(32 << 20, min(wanted, _LARGEST_BUFFER, free // 4) // threads)


def _fma(loop: Kernel, buffers: Sequence[_Buffer], lanes: int) -> Probe:
    def run(core: int) -> None:
        loop(buffers[core].address, _FMA_ROUNDS, 0)

    return Probe("fma", 2.0 * lanes * FMA_SUMS * _FMA_ROUNDS, run)


def _read(loop: Kernel, buffers: Sequence[_Buffer], working_set: int) -> Probe:
    elements = max(1024, working_set // _GRANULE * 1024)
    repeats = max(1, _SAMPLE_BYTES // (4 * elements))

    def run(core: int) -> None:
        loop(buffers[core].address, elements, repeats)

    return Probe("read", 4.0 * elements * repeats, run)


def _triad(loop: Kernel, buffers: Sequence[_Buffer], working_set: int) -> Probe:
    third = _third(working_set)
    repeats = max(1, _SAMPLE_BYTES // (12 * third))

    def run(core: int) -> None:
        loop(buffers[core].address, third, repeats)

    return Probe("triad", 12.0 * third * repeats, run)


def _sweep(loop: Kernel, buffers: Sequence[_Buffer], arrays: int) -> Probe:
    elements = _third(3 * _SAMPLE_BYTES // 2)
    size = 4 * arrays * elements

    def run(core: int) -> None:
        loop(buffers[core].next(size), elements, 1)

    return Probe("sweep", float(size), run, _FASTEST_TWENTIETH)


def _third(working_set: int) -> int:
    """Elements of each of three arrays; an odd number of steps apart.

    Arrays a multiple of 4096 bytes apart share their low address bits, which makes a load look as
    if it needed the store before it.
    """
    return max(1, working_set // 12 // _STEP - 1 | 1) * _STEP


def _take_samples(probes: Sequence[Probe], threads: int) -> None:
    for probe in probes:
        probe.samples = [[] for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(_ROUNDS):
            for probe in probes:
                start = threading.Barrier(threads)
                turns = [pool.submit(_turn, probe, core, start) for core in range(threads)]
                for turn in turns:
                    turn.result()


def _turn(probe: Probe, core: int, start: threading.Barrier) -> None:
    start.wait()
    probe.run(core)  # what the loop before left in the caches is gone after this
    deadline = time.perf_counter() + _SECONDS_PER_TURN
    while (begin := time.perf_counter()) < deadline:
        probe.run(core)
        probe.samples[core].append(time.perf_counter() - begin)

"""``run``: a launch of a PTX entry on numpy arrays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.copies import Copies
from wia_compiler.simulators.ptx.counters import LineCounts, line_counts, totals_of, with_ratios
from wia_compiler.simulators.ptx.decode import Decoded, decode
from wia_compiler.simulators.ptx.graph import BasicBlock, blocks_of
from wia_compiler.simulators.ptx.limits import (
    MAX_BLOCK,
    MAX_GRID,
    MAX_THREADS,
    STATIC_SHARED_BYTES,
    max_shared_bytes,
)
from wia_compiler.simulators.ptx.machine import Machine, Traffic
from wia_compiler.simulators.ptx.memory import DeviceMemory
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.parameters import parameter_bytes
from wia_compiler.simulators.ptx.parse import parse_ptx
from wia_compiler.simulators.ptx.regions import DeviceArrays
from wia_compiler.simulators.ptx.schedule import Executed, Scheduler
from wia_compiler.simulators.ptx.syntax import Entry, Module, Variable
from wia_compiler.simulators.ptx.threads import WARP, Size, Threads

_THREADS_AT_A_TIME = 8192
"""Threads in one chunk: enough that numpy's own cost vanishes, few enough to stay in the caches."""


@dataclass(frozen=True)
class Launch:
    """What a launch counted: ``totals`` by name, ``lines`` by line of the PTX (from 1)."""

    totals: Mapping[str, int]
    lines: Mapping[int, LineCounts]

    @property
    def counters(self) -> Mapping[str, int | float]:
        """The totals, and the ratios that are made of them."""
        return with_ratios(self.totals)

    def __add__(self, other: Launch) -> Launch:
        """What two launches of entries of one PTX text did."""
        names = [*self.totals, *(name for name in other.totals if name not in self.totals)]
        lines = dict(self.lines)
        for number, row in other.lines.items():
            lines[number] = lines[number] + row if number in lines else row
        return Launch(
            {name: self.totals.get(name, 0) + other.totals.get(name, 0) for name in names}, lines
        )


def run(
    text: str,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    shared_bytes: int = 0,
    counters: bool = True,
    budget: int | None = 10**9,
    name: str = "<ptx>",
) -> Launch:
    """Run ``entry`` of a PTX text on this machine, thread by thread, and count what it does.

    ``grid`` and ``block`` have one to three sizes. In ``args``, numpy arrays are device memory,
    written in place (any strides: the pointer is that of the first element, and arrays that share
    memory share it there); numpy scalars and Python numbers are passed by value. ``shared_bytes``
    is the dynamic shared memory. ``counters`` leaves out those of memory where it is false.
    ``budget`` bounds the warp instructions, so that a kernel that never ends is an error.

    Raises ``CompileError`` for a text that is wrong, ``TargetError`` for an instruction that is not
    simulated, ``ArgumentError`` for a launch that does not fit the entry or the machine, and
    ``PtxFault`` where the run leaves its memory, misses an alignment, or cannot go on.

    >>> from wia_compiler.simulators.ptx.launch import run
    """
    module = _module(text, name)
    kernel = _entry(module, entry)
    sizes = _size(grid, "grid"), _size(block, "block")
    _check_sizes(kernel, *sizes)
    launch = _Prepared(module, kernel, args, shared_bytes)
    executed = Executed(
        np.zeros(len(launch.blocks), np.int64), np.zeros(len(launch.blocks), np.int64)
    )
    traffic: dict[tuple[int, str], Traffic] = {}
    launch.run(*sizes, counters, budget, executed, traffic)
    launch.finish()
    return Launch(
        totals_of(launch.blocks, launch.code, executed, traffic),
        line_counts(launch.blocks, launch.code, executed, traffic),
    )


@functools.lru_cache(maxsize=64)
def _module(text: str, name: str) -> Module:
    return parse_ptx(Source(text, name))


def _entry(module: Module, name: str) -> Entry:
    if name not in module.entries:
        known = ", ".join(module.entries) or "none"
        raise ArgumentError(f"entry: no entry {name!r} in the PTX, expected one of: {known}")
    return module.entries[name]


def _size(value: int | Sequence[int], what: str) -> Size:
    sizes = [value] if isinstance(value, int) else [int(each) for each in value]
    if not 1 <= len(sizes) <= 3:
        raise ArgumentError(f"{what}: got {len(sizes)} sizes, expected one to three")
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def _check_sizes(entry: Entry, grid: Size, block: Size) -> None:
    for what, sizes, limits in (("grid", grid, MAX_GRID), ("block", block, MAX_BLOCK)):
        for axis, size, limit in zip("xyz", sizes, limits, strict=True):
            if not 1 <= size <= limit:
                raise ArgumentError(f"{what}: size {size} along {axis}, expected 1 to {limit}")
    threads = block[0] * block[1] * block[2]
    if threads > MAX_THREADS:
        raise ArgumentError(f"block: {threads} threads, expected at most {MAX_THREADS}")
    if entry.max_threads is not None:
        most = entry.max_threads[0] * entry.max_threads[1] * entry.max_threads[2]
        if threads > most:
            raise ArgumentError(
                f"block: {threads} threads, but {entry.name} was compiled for at most {most}"
            )


class _Prepared:
    """An entry with its memory laid out and its instructions decoded."""

    def __init__(self, module: Module, entry: Entry, args: Sequence[Any], shared_bytes: int):
        self.module = module
        self.entry = entry
        self.device = DeviceMemory()
        arrays, names = _arrays_of(entry, args)
        self.names = names
        self.arrays = DeviceArrays(self.device, arrays, names)
        addresses = self._variables(shared_bytes)
        self.device.close()
        self.parameters = parameter_bytes(entry, args, self.arrays.addresses, addresses)
        scope = Scope(entry, addresses)
        self.blocks: tuple[BasicBlock, ...] = blocks_of(entry, module.source)
        self.code: list[Decoded] = [
            decode(each, number, scope, module.source)
            for number, each in enumerate(entry.instructions)
        ]
        self.scope = scope

    def _variables(self, shared_bytes: int) -> dict[str, int]:
        """Where each variable lies: shared and local ones from 0 on, others in device memory."""
        addresses: dict[str, int] = {}
        used = {"shared": 0, "local": 0}
        dynamic: list[Variable] = []
        for each in (*self.module.variables, *self.entry.variables):
            if each.space in ("global", "const"):
                content = np.zeros(each.size_bytes, np.uint8)
                if each.initial:
                    content[: len(each.initial)] = np.frombuffer(each.initial, np.uint8)
                addresses[each.name] = self.device.add(each.name, content)
            elif each.space in used and each.count == 0:
                dynamic.append(each)
            elif each.space in used:
                start = -(-used[each.space] // each.align) * each.align
                addresses[each.name] = start
                used[each.space] = start + each.size_bytes
        if used["shared"] > STATIC_SHARED_BYTES:
            raise ArgumentError(
                f"{self.entry.name} declares {used['shared']} bytes of shared memory, "
                f"expected at most {STATIC_SHARED_BYTES}: more must be dynamic"
            )
        for each in dynamic:
            addresses[each.name] = -(-used["shared"] // each.align) * each.align
        self.shared_bytes = max([used["shared"], *(addresses[each.name] for each in dynamic)])
        self.shared_bytes += shared_bytes
        most = max_shared_bytes(self.module.target)
        if self.shared_bytes > most:
            raise ArgumentError(
                f"shared_bytes: a block asks for {self.shared_bytes} bytes of shared memory, "
                f"{self.module.target} has {most}"
            )
        self.local_bytes = used["local"]
        return addresses

    def run(
        self, grid: Size, block: Size, counts_memory: bool, budget: int | None,
        executed: Executed, traffic: dict[tuple[int, str], Traffic],
    ) -> None:  # fmt: skip
        """Run all blocks, some at a time, in order."""
        if not self.code:
            return
        total = grid[0] * grid[1] * grid[2]
        warps = -(-block[0] * block[1] * block[2] // WARP)
        chunk = max(1, _THREADS_AT_A_TIME // (warps * WARP))
        scheduler = Scheduler(self.blocks, self.code, self.scope, self.module.source, budget)
        with np.errstate(all="ignore"):
            for first in range(0, total, chunk):
                count = min(chunk, total - first)
                threads = Threads(first, count, grid, block)
                machine = Machine(
                    self.module.source,
                    threads,
                    self.device,
                    self.parameters,
                    np.zeros((count, self.shared_bytes), np.uint8),
                    np.zeros((threads.count, self.local_bytes), np.uint8),
                    Copies(threads.count),
                    counts_memory,
                    traffic,
                )
                scheduler.run(machine, executed)

    def finish(self) -> None:
        """Write device memory back to the arrays."""
        refused = self.arrays.copy_back()
        if refused:
            names = ", ".join(self.names[number] for number in refused)
            raise ArgumentError(f"{names}: {self.entry.name} writes to it, but it is read-only")


def _arrays_of(entry: Entry, args: Sequence[Any]) -> tuple[list[NDArray[Any]], list[str]]:
    found: list[NDArray[Any]] = []
    names: list[str] = []
    for number, value in enumerate(args):
        if isinstance(value, np.ndarray):
            found.append(cast("NDArray[Any]", value))
            known = number < len(entry.parameters)
            names.append(entry.parameters[number].name if known else f"argument {number}")
    return found, names

"""``run``: a launch of a PTX entry on numpy arrays."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import ArgumentError
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.clusters import MOST_BLOCKS
from wia_compiler.simulators.ptx.counted import Counted
from wia_compiler.simulators.ptx.counters import LineCounts, line_counts, totals_of, with_ratios
from wia_compiler.simulators.ptx.faults import PtxFault
from wia_compiler.simulators.ptx.findings import Finding, Findings
from wia_compiler.simulators.ptx.flow import Flow
from wia_compiler.simulators.ptx.jitter import Jitter
from wia_compiler.simulators.ptx.limits import MAX_BLOCK, MAX_GRID, MAX_THREADS
from wia_compiler.simulators.ptx.parse import parse_ptx
from wia_compiler.simulators.ptx.prepared import LaunchSizes, Prepared
from wia_compiler.simulators.ptx.syntax import Entry, Module
from wia_compiler.simulators.ptx.tensor_map import TensorMap
from wia_compiler.simulators.ptx.threads import Size

Engine = Literal["auto", "compiled", "numpy"]
_PATIENCE_SECONDS = 0.25
"""What a launch may take before it is compiled, which takes about as long."""


@dataclass(frozen=True)
class Launch:
    """What a launch counted: ``totals`` by name, ``lines`` by line of the PTX (from 1).

    ``simulation_seconds`` is the processor time that running its blocks took on this machine, which
    says nothing of the time on a GPU. ``flow`` says how often each part of the code ran; the sum of
    two launches has none. ``findings`` are those of ``debug=True``.
    """

    totals: Mapping[str, int]
    lines: Mapping[int, LineCounts]
    simulation_seconds: float = 0.0
    flow: Flow | None = field(default=None, compare=False, repr=False)
    findings: tuple[Finding, ...] = ()

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
            {name: self.totals.get(name, 0) + other.totals.get(name, 0) for name in names},
            lines,
            self.simulation_seconds + other.simulation_seconds,
            findings=self.findings + other.findings,
        )


def run(
    text: str,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    shared_bytes: int = 0,
    cluster: int | Sequence[int] | None = None,
    counters: bool = True,
    budget: int | None = 10**9,
    name: str = "<ptx>",
    engine: Engine = "auto",
    debug: bool = False,
    jitter: int | None = None,
    written: Mapping[int, NDArray[np.bool_]] | None = None,
) -> Launch:
    """Run ``entry`` of a PTX text on this machine, thread by thread, and count what it does.

    ``grid`` and ``block`` have one to three sizes. In ``args``, numpy arrays are device memory,
    written in place (any strides: the pointer is that of the first element, and arrays that share
    memory share it there); numpy scalars and Python numbers are passed by value; a ``TensorMap``,
    or a mapping of the names of its arguments to them, is a tensor map. ``shared_bytes``
    is the dynamic shared memory; ``cluster`` is how many blocks make a cluster (one to three sizes,
    each a divisor of the grid's; what the entry requires, if left out). ``counters`` leaves out
    those of memory where it is false.
    ``budget`` bounds the warp instructions, so that a kernel that never ends is an error.
    ``engine`` is ``"numpy"`` (the reference), ``"compiled"`` (machine code for this CPU; what it
    does not know, numpy runs), or ``"auto"``: numpy for what is over before the compiler would be.
    ``debug`` also looks for what goes wrong without an error (reads of what nothing wrote, races,
    copies that were not waited for, barriers that some threads miss) and lists it as ``findings``;
    it runs on numpy and leaves the same memory. Arrays count as written, but for those that
    ``written`` has a bool for each byte of, by the number of the argument; it is kept up to date.

    ``jitter``, a seed, moves the results of approximate instructions within their bounds and adds
    products of matrices in another order, so that a kernel which depends on either shows; on numpy.

    Raises ``CompileError`` for a text that is wrong, ``TargetError`` for an instruction that is not
    simulated, ``ArgumentError`` for a launch that does not fit the entry or the machine, and
    ``PtxFault`` where the run leaves its memory, misses an alignment, or cannot go on.

    >>> from wia_compiler.simulators.ptx.launch import run
    """
    module = _module(text, name)
    kernel = _entry(module, entry)
    args = [_argument(each) for each in args]
    blocks, threads = _size(grid, "grid"), _size(block, "block")
    _check_sizes(kernel, blocks, threads)
    asked = None if cluster is None else _size(cluster, "cluster")
    size = _cluster_of(kernel, asked, blocks, module.target)
    if engine not in get_args(Engine):
        raise ArgumentError(f"engine={engine!r}: expected one of {', '.join(get_args(Engine))}")
    sizes = LaunchSizes(blocks, threads, counters, budget, cluster=size)
    findings: tuple[Finding, ...] = ()
    if (debug or jitter is not None) and engine == "compiled":
        word = "debug=True" if debug else "jitter="
        raise ArgumentError(f"{word} runs on numpy: leave engine= out")
    several = sizes.clusters.blocks > 1
    if debug and several:
        raise ArgumentError(
            f"debug=True: clusters of {_by(size)} blocks are not checked, expected one block"
        )
    if several:
        engine = "numpy"
    if jitter is not None:
        engine, sizes = "numpy", replace(sizes, jitter=Jitter(jitter))
    if debug:
        launch = Prepared(module, kernel, args, shared_bytes)
        counted, findings = _checked(launch, module, sizes, written or {})
    else:
        launch, counted = _launched(module, kernel, args, shared_bytes, sizes, engine)
    launch.finish()
    return Launch(
        totals_of(launch.blocks, launch.code, counted),
        line_counts(launch.blocks, launch.code, counted),
        counted.seconds,
        flow=Flow(
            blocks[0] * blocks[1] * blocks[2],
            threads[0] * threads[1] * threads[2],
            launch.shared_bytes,
            launch.blocks,
            launch.code,
            launch.scope,
            tuple(int(each) for each in counted.executed.warps),
        ),
        findings=findings,
    )


def _argument(value: Any) -> Any:
    """A mapping is what a tensor map is made of."""
    return TensorMap(**cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else value


def _checked(
    launch: Prepared,
    module: Module,
    sizes: LaunchSizes,
    written: Mapping[int, NDArray[np.bool_]],
) -> tuple[Counted, tuple[Finding, ...]]:
    """Run a launch with checks."""
    findings = Findings(module.source, module.files)
    checks = launch.checks(sizes, findings, written)
    try:
        counted = launch.run_numpy(sizes, None, checks)
    except PtxFault as fault:
        raise PtxFault(fault.diagnostic, findings.all()) from None
    assert counted is not None
    return counted, findings.all()


def _launched(
    module: Module,
    entry: Entry,
    args: Sequence[Any],
    shared_bytes: int,
    sizes: LaunchSizes,
    engine: Engine,
) -> tuple[Prepared, Counted]:
    """Run a launch on the engines that know it, each from the memory as it was."""
    launch = Prepared(module, entry, args, shared_bytes)
    if engine == "auto" and not launch.is_compiled(sizes):
        counted = launch.run_numpy(sizes, _PATIENCE_SECONDS)
        if counted is not None:
            return launch, counted
        launch = Prepared(module, entry, args, shared_bytes)
    # Code for whole warps first, then for warps whose lanes part ways.
    for parted in () if engine == "numpy" else launch.ways:
        counted = launch.run_compiled(sizes, parted=parted)
        if counted is not None:
            return launch, counted
        launch = Prepared(module, entry, args, shared_bytes)
    # The reference knows every instruction, and says what is wrong and where.
    counted = launch.run_numpy(sizes)
    assert counted is not None
    return launch, counted


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


def _cluster_of(entry: Entry, cluster: Size | None, grid: Size, target: str) -> Size | None:
    """The cluster of a launch: what the text requires, or else what was asked for."""
    if cluster is not None and entry.cluster not in (None, cluster):
        raise ArgumentError(
            f"cluster: {_by(cluster)} blocks, but {entry.name} requires {_by(entry.cluster)} "
            "(.reqnctapercluster)"
        )
    size = entry.cluster or cluster
    if size is None or size == (1, 1, 1):
        return size
    if int("".join(each for each in target if each.isdigit()) or 0) < 90:
        raise ArgumentError(f"cluster: {_by(size)} blocks, but {target} has no clusters")
    count = size[0] * size[1] * size[2]
    if not 1 <= count <= MOST_BLOCKS or min(size) < 1:
        raise ArgumentError(f"cluster: {_by(size)} blocks, expected 1 to {MOST_BLOCKS}")
    for axis, blocks, each in zip("xyz", grid, size, strict=True):
        if blocks % each:
            raise ArgumentError(
                f"grid: size {blocks} along {axis}, expected a multiple of the cluster's {each}"
            )
    return size


def _by(size: Size | None) -> str:
    return " x ".join(map(str, size or (1, 1, 1)))


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

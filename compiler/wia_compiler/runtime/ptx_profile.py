"""``wia.ptx.profile``: a launch of anyone's PTX, handed to the profiler."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn

import numpy as np

from wia_compiler.backends.gpu.architecture import ARCHITECTURES, Architecture
from wia_compiler.backends.gpu.launch import Launch as PlannedLaunch
from wia_compiler.backends.gpu.machine_code import MachineCode, machine_code
from wia_compiler.backends.gpu.resources import resources_of
from wia_compiler.backends.gpu.sass import parse_sass
from wia_compiler.backends.gpu.sass_table import SassRow, sass_rows
from wia_compiler.backends.gpu.simulate import Ran
from wia_compiler.backends.gpu.tools import disassemble
from wia_compiler.base.errors import ArgumentError, TargetError
from wia_compiler.base.source import Span
from wia_compiler.profiler.estimate import Estimate, estimate_run
from wia_compiler.profiler.gpu_sheets import sheet_for
from wia_compiler.profiler.lines import LineTable, line_table
from wia_compiler.profiler.profile import Profile
from wia_compiler.profiler.profile import profile as profile_of_run
from wia_compiler.simulators.ptx import Launch, run

_TARGET = re.compile(r"^\s*\.target\s+(sm_\w+)", re.MULTILINE)
_DTYPES = ("f32", "f64", "f16", "bf16")
_PRODUCT = re.compile(r"(?:mma\.sync|wgmma\.mma_async)\.\S*?\.[fs]\d+\.(\w+)\.\w+(?:\.\w+)?$")
_OPERANDS = {"f16": "f16", "bf16": "bf16", "tf32": "tf32", "f64": "f64", "s8": "i8", "u8": "i8"}
"""What an instruction calls the type of its operands; all others have 8 bits or less."""


def profile(
    text: str,
    entry: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    *,
    device: str | None = None,
    shared_bytes: int = 0,
    size_bytes: int | None = None,
    source: str = "",
    budget: int | None = 10**9,
    name: str = "<ptx>",
) -> Profile:
    """Run an entry of a PTX text as ``wia.ptx.run`` does, and say where it stands.

    The profile has the counters, what ptxas says of the text (registers, spills, occupancy), the
    model's estimate of the time on ``device`` (``"A100"``; by default the first that runs the
    text's ``.target``) with its point on the roofline, counts by line of PTX and SASS, and advice.
    ``flops`` are those that were counted; ``size_bytes`` is what the kernel must move at least, by
    default its arrays once. ``source`` is the text that the PTX's ``.loc`` lines speak of, for
    ``profile.lines.by_source()``.

    Raises what ``wia.ptx.run`` raises, ``ArgumentError`` for a device that cannot run the text, and
    ``TargetError`` where ptxas refuses it.
    """
    architecture = _architecture_of(text)
    sheet = sheet_for(f"gpu:{architecture.name}", device)
    launched = run(
        text, entry, grid, block, args, shared_bytes=shared_bytes, budget=None, name=name
    )
    code = machine_code(text, architecture)
    planned = PlannedLaunch(entry, _count(grid), _count(block), (), shared_bytes)
    resources = resources_of(architecture, [planned], code.log, cubin=code.cubin)
    held = _size_of_arrays(args)
    moved = held if size_bytes is None else size_bytes
    flops, dtype = int(launched.totals.get("flops", 0)), _dtype_of(launched)
    rows = _rows(code)

    def estimate() -> Estimate | None:
        if sheet is None:
            return None
        ran = [Ran(planned, launched, held)]
        return estimate_run(
            sheet, ran, resources, flops=flops, size_bytes=moved, dtype=dtype, sass=rows
        )

    return profile_of_run(
        lambda: launched.counters,
        flops=flops,
        size_bytes=moved,
        kernel=entry,
        target=f"gpu:{architecture.name}",
        dtype=dtype,
        source="simulated",
        ceilings=sheet.ceilings if sheet is not None else None,
        estimate=estimate,
        resources=resources,
        evidence=PtxEvidence(text, entry, launched, rows, source),
    )


@dataclass(frozen=True)
class PtxEvidence:
    """What a launch of anyone's PTX left."""

    text: str
    entry: str
    launched: Launch
    sass: tuple[SassRow, ...]
    source: str

    def lines(self) -> LineTable:
        """Counts by line of the PTX, with what is predicted of its SASS."""
        spans: dict[int, tuple[Span, ...]] = {}
        for line, row in self.launched.lines.items():
            if self.source and row.location is not None:
                _, at, column = row.location
                spans[line] = (Span(at, column, at, column + 1),)
        return line_table(
            self.text,
            [(self.entry, self.launched)],
            spans=spans,
            source=self.source,
            sass=self.sass,
        )

    def simulated(self) -> Mapping[str, int | float]:
        """Counters of the simulator."""
        return self.launched.counters

    def measured(self) -> NoReturn:
        """A launch of PTX text is simulated only."""
        raise TargetError(f"{self.entry}: wia.ptx runs on the simulator, nothing was measured")

    def profile_of(self, build: Any) -> NoReturn:
        """Builds take arguments of their own."""
        raise TargetError(f"{self.entry} is PTX text: compare its profile with another profile")


def _architecture_of(text: str) -> Architecture:
    found = _TARGET.search(text)
    if found is None:
        raise ArgumentError("the PTX names no .target: expected one like .target sm_80")
    if found[1] not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise ArgumentError(f".target {found[1]}: what is known of is {known}")
    return ARCHITECTURES[found[1]]


def _size_of_arrays(args: Sequence[Any]) -> int:
    """Bytes of all arrays, one that is passed twice once."""
    arrays: list[np.ndarray[Any, Any]] = [each for each in args if isinstance(each, np.ndarray)]
    return sum(array.nbytes for array in {id(each): each for each in arrays}.values())


def _count(size: int | Sequence[int]) -> int:
    return size if isinstance(size, int) else prod(size)


def _rows(code: MachineCode) -> tuple[SassRow, ...]:
    if code.cubin is None or not code.has_sass:
        return ()
    sass = parse_sass(disassemble(code.cubin))
    return sass_rows(sass.text, sass.ptx_lines)


def _dtype_of(launched: Launch) -> str:
    """The dtype of most of the arithmetic: of products of matrices, that of their first operand."""
    counts = {name: launched.totals.get(f"flops_{name}", 0) for name in _DTYPES}
    for row in launched.lines.values():
        types = _PRODUCT.match(row.text)
        if types is not None:
            name = _OPERANDS.get(types[1], "f8")
            counts[name] = counts.get(name, 0) + row.flops
    return max(counts, key=lambda name: counts[name])

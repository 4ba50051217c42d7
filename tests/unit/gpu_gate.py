"""The gate of the assembler: kernels built for every architecture, and what ptxas may not say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import wia_kernels
from unit.gpu_programs import build
from wia_compiler.backends.gpu.architecture import ARCHITECTURES, MAX_REGISTERS_PER_THREAD
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import WiaError
from wia_kernels.definition import KernelDefinition

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Case:
    """One build: a kernel of the library, its dtype and shapes, and the architecture."""

    kernel: KernelDefinition
    dtype: str
    shapes: Shapes
    architecture: str

    def __str__(self) -> str:
        shapes = ", ".join("×".join(map(str, shape)) or "scalar" for shape in self.shapes)
        return f"{self.kernel.name} {self.dtype} {shapes} {self.architecture}"


@dataclass(frozen=True)
class Checked:
    """A case with what ptxas says of it; ``faults`` are what the gate refuses."""

    case: Case
    resources: Mapping[str, Any]
    faults: tuple[str, ...]


def library_cases(
    architectures: Sequence[str] = tuple(ARCHITECTURES), *, sizes: int | None = 1
) -> Iterator[Case]:
    """Each kernel of the library in every dtype it has, at its first ``sizes`` shapes (all: None).

    Arrays without elements are left out: nothing is assembled for them.
    """
    for name in wia_kernels.names():
        kernel = wia_kernels.get(name)
        full = [each for each in kernel.shapes if all(np.prod(shape) for shape in each)]
        for dtype in kernel.dtypes:
            for shapes in full[:sizes]:
                for architecture in architectures:
                    yield Case(kernel, dtype, shapes, architecture)


def checked(case: Case) -> Checked:
    """Build a case and look at what ptxas said."""
    kind = DTYPES[case.dtype].numpy
    arrays = [np.broadcast_to(np.zeros((), kind), shape).copy() for shape in case.shapes]
    try:
        resources = build(case.kernel.text, arrays, case.architecture).artifact.resources
    except WiaError as error:
        return Checked(case, {}, (str(error),))
    return Checked(case, resources, tuple(faults_of(resources)))


def check_all(cases: Sequence[Case], workers: int = 2) -> list[Checked]:
    """All cases, ptxas of one beside the compiler of another."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(checked, cases))


def faults_of(resources: Mapping[str, Any]) -> Iterator[str]:
    """What the gate refuses: spills, a stack, warnings, too many registers, no block on an SM."""
    for name in ("spill_store_bytes", "spill_load_bytes", "stack_bytes"):
        if resources.get(name):
            yield f"{resources[name]} {name}"
    for warning in resources.get("warnings", ()):
        yield f"ptxas warns: {warning}"
    if resources.get("registers", 0) > MAX_REGISTERS_PER_THREAD:
        yield f"{resources['registers']} registers, a thread has {MAX_REGISTERS_PER_THREAD}"
    row = ARCHITECTURES[resources["architecture"]]
    if resources.get("shared_bytes", 0) > row.block_shared_kib * 1024:
        most = f"a block has {row.block_shared_kib} KiB"
        yield f"{resources['shared_bytes']} bytes of shared memory, {most}"
    if resources.get("entries") and resources.get("ctas_per_sm", 0) < 1:
        yield f"no block fits on an SM: {resources.get('occupancy_limiter')}"

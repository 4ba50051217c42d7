"""GPUs of NVIDIA as targets of the compiler: ``gpu:sm_90`` and the other architectures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.backends.gpu import emit
from wia_compiler.backends.gpu.architecture import (
    ARCHITECTURES,
    DEFAULT_ARCHITECTURE,
    MAX_REGISTERS_PER_THREAD,
    Architecture,
)
from wia_compiler.backends.gpu.execute import gpu_is_here, load_on_gpu
from wia_compiler.backends.gpu.lower import LowerPass
from wia_compiler.backends.gpu.matrix_tiles import ASYNC_SINCE
from wia_compiler.backends.gpu.matrix_units import exact_units
from wia_compiler.backends.gpu.merge_launches import MergeLaunchesPass
from wia_compiler.backends.gpu.schedule import SchedulePass
from wia_compiler.backends.gpu.simulate import DEBUG, Simulate, SimulatedGpu
from wia_compiler.backends.gpu.tools import tool_stamp
from wia_compiler.base.errors import TargetError
from wia_compiler.base.record import Stage, Trace
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.target import ArraySpec, Artifact, Executable

REGISTER_RESERVE = 63
"""Registers left for addresses, indices and the loop: 192 of 255 may hold values of the kernel."""


@dataclass(frozen=True)
class GpuTarget:
    """One architecture. ``with_sass`` off leaves SASS out of what its builds show.

    Where this machine has no GPU, kernels run on the simulator that ``with_simulator`` gives.
    """

    architecture: Architecture
    with_sass: bool = True
    simulate: Simulate | None = field(default=None, compare=False, repr=False)

    simulator: ClassVar[str] = "ptx"

    @property
    def name(self) -> str:
        """``gpu:sm_90``."""
        return f"gpu:{self.architecture.name}"

    @property
    def facts(self) -> TargetFacts:
        """Registers of a thread, and bandwidth over arithmetic of the architecture's product.

        Windows at an edge are tested element by element: a launch for each edge costs more.
        """
        return TargetFacts(
            self.name,
            register_capacity=MAX_REGISTERS_PER_THREAD - REGISTER_RESERVE,
            bytes_per_flop=self.architecture.bytes_per_flop,
            launch_cost_bytes=self.architecture.launch_cost_bytes,
            parallel_rows=self.architecture.sm_count,
            masks_edges=True,
            widens_operands=True,
            shared_bytes=self.architecture.block_shared_kib * 1024,
            tile_products=exact_units(self.architecture),
            warpgroup_products=("f16", "bf16") if self.architecture.is_specific else (),
            copies_alone=self.architecture.capability >= ASYNC_SINCE,
        )

    @property
    def options(self) -> tuple[str, ...]:
        """PTX version, optimisation level and the tools whose output is part of an artifact."""
        return (
            self.architecture.ptx_version,
            f"O{emit.OPTIMIZATION_LEVEL}",
            "sass" if self.with_sass else "no sass",
            tool_stamp("ptxas"),
            tool_stamp("nvdisasm"),
        )

    def passes(self) -> Sequence[Pass]:
        """Schedule, then kernels, then launches."""
        one = self.architecture
        return (SchedulePass(one), LowerPass(), MergeLaunchesPass(one))

    def generate(
        self, module: ModuleOp, context: PassContext, arguments: Sequence[ArraySpec]
    ) -> tuple[Artifact, Sequence[Stage]]:
        """PTX with its stages; machine code and resources where ptxas is installed."""
        code = emit.generate(
            module,
            target=self.name,
            kernel=context.kernel,
            source=context.source,
            architecture=self.architecture,
            with_sass=self.with_sass,
        )
        artifact = code.artifact
        if context.options.debug:
            artifact = replace(artifact, metadata={**artifact.metadata, DEBUG: True})
        return artifact, code.stages

    def later_stages(self, artifact: Artifact, trace: Trace) -> Sequence[Stage]:
        """The SASS, traced to the source by way of the PTX."""
        spans = trace.stage("ptx").line_spans
        return [emit.sass_stage(artifact.files["kernel.cubin"], spans) for _ in artifact.later]

    def load(self, artifact: Artifact) -> Executable:
        """Load it on this machine's GPU, or on the simulator where there is none."""
        if self.simulate is not None and not gpu_is_here():
            return SimulatedGpu(artifact, self.simulate)
        return load_on_gpu(artifact)

    def with_simulator(self, simulate: Simulate) -> GpuTarget:
        """The same target, whose kernels run on ``simulate`` where no GPU is."""
        return replace(self, simulate=simulate)


def targets() -> Sequence[str]:
    """The names of all GPU targets."""
    return tuple(f"gpu:{name}" for name in ARCHITECTURES)


def make_target(name: str) -> GpuTarget:
    """The target of a name; ``gpu`` alone is ``gpu:sm_90``."""
    kind, _, wanted = name.partition(":")
    architecture = ARCHITECTURES.get(wanted or DEFAULT_ARCHITECTURE)
    if kind != "gpu" or architecture is None:
        raise TargetError(f"no target {name!r}; GPUs are: {', '.join(targets())}")
    return GpuTarget(architecture)

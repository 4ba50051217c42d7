"""CPUs as targets: the one this process runs on, and others by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.backends.cpu.cpus import CPUS
from wia_compiler.backends.cpu.execute import CpuExecutable, load_executable
from wia_compiler.backends.cpu.host import Host, named_host, this_host, why_not_here
from wia_compiler.base.errors import TargetError
from wia_compiler.base.record import Stage
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.target import ArraySpec, Artifact

# Memory bandwidth over FMA rate of one core of an AVX2 server CPU: 15 GB/s, 98 GFLOP/s measured.
_BYTES_PER_FLOP = 0.15
# A call of a nest within one object, in bytes that memory moves meanwhile: some 10 ns.
_CALL_COST_BYTES = 150
_GENERATOR = "cpu-4"


@dataclass(frozen=True)
class CpuTarget:
    """Code for one CPU, run in this process where that has what the code asks for.

    What compiles is imported by the methods that compile: a kernel from the cache needs none of it.
    """

    host: Host
    name: str = "cpu"

    @property
    def facts(self) -> TargetFacts:
        """What shared passes may know of this CPU."""
        lanes, caches = self.host.vector_bytes // 4, self.host.caches
        return TargetFacts(
            name=self.name,
            register_capacity=self.host.vector_registers * lanes,
            bytes_per_flop=_BYTES_PER_FLOP,
            launch_cost_bytes=_CALL_COST_BYTES,
            vector_bytes=self.host.vector_bytes,
            kept_row_elements=self.host.caches.kept_elements,
            cache_bytes=tuple(dict.fromkeys(filter(None, (caches.l1, caches.l2, caches.l3)))),
            keeps_tiles=True,
            masks_edges=True,
            widens_operands=True,
        )

    @property
    def options(self) -> tuple[str, ...]:
        """CPU, its features and caches, LLVM's version and that of this generator."""
        return (
            self.host.name,
            self.host.features,
            str(self.host.caches),
            f"llvm-{self.host.llvm}",
            _GENERATOR,
        )

    def passes(self) -> Sequence[Pass]:
        """From unscheduled nests to scf, memref, arith and math."""
        from wia_compiler.backends.cpu.lower import LowerPass
        from wia_compiler.backends.cpu.schedule import SchedulePass
        from wia_compiler.passes.llvm.worker import shared_worker

        shared_worker().start()  # LLVM loads in its process while the passes run in this one
        host = self.host
        adds_dots = host.products_at_once
        schedule = SchedulePass(host.vector_bytes, host.vector_registers, host.caches, adds_dots)
        scales_vectors = host.has("avx512f") and host.has("avx512vl")
        return (schedule, LowerPass(host.vector_bytes, scales_vectors, adds_dots))

    def generate(
        self, module: ModuleOp, context: PassContext, arguments: Sequence[ArraySpec]
    ) -> tuple[Artifact, Sequence[Stage]]:
        """An object file, with the stages ``llvm`` and ``x86`` or ``aarch64``."""
        from wia_compiler.backends.cpu.emit import generate_code

        return generate_code(module, context, arguments, self.host)

    def load(self, artifact: Artifact) -> CpuExecutable:
        """Load an artifact's object into this process; ``TargetError`` where it would not run."""
        reason = why_not_here(self.host)
        if reason is not None:
            shown = self.host.assembly
            raise TargetError(
                f"{self.name} does not run here: {reason}; build for 'cpu' to run it, "
                f"build.assembly({shown!r}) shows its code"
            )
        return load_executable(artifact)


def targets() -> Sequence[str]:
    """Names of the targets of this folder; ``cpu`` is the CPU of this process."""
    return ("cpu", *(f"cpu:{name}" for name in CPUS))


def make_target(name: str) -> CpuTarget:
    """The target of that name."""
    if name not in targets():
        raise TargetError(f"no target {name!r}; CPUs are: {', '.join(targets())}")
    wanted = name.partition(":")[2]
    return CpuTarget(named_host(wanted), name) if wanted else CpuTarget(this_host())

"""The systolic array as a target of the compiler: ``tpu:spec``."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.backends.tpu.emit import Assembly, emit_assembly
from wia_compiler.backends.tpu.execute import FILE, Simulate, make_executable
from wia_compiler.backends.tpu.lower import LowerToTpuPass
from wia_compiler.backends.tpu.schedule import ScheduleTpuPass
from wia_compiler.base.errors import TargetError
from wia_compiler.base.record import Stage
from wia_compiler.dialects.tpu.machine import SPEC, SystolicMachine
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.target import ArraySpec, Artifact, Executable

ISA_VERSION = 1
"""Changes with the meaning or the text of an instruction."""


@dataclass(frozen=True)
class TpuTarget:
    """The array of ``machine``.

    It runs on the simulator that ``with_simulator`` gives it; ``weight_double_buffer`` lets a run
    load the next weights while the current ones work.
    """

    machine: SystolicMachine = SPEC
    weight_double_buffer: bool = False
    simulate: Simulate | None = field(default=None, compare=False, repr=False)

    simulator: ClassVar[str] = "tpu"

    @property
    def name(self) -> str:
        """``tpu:spec``."""
        return self.machine.name

    @property
    def multiply_dtype(self) -> str:
        """What operands of matrix products are rounded to, whatever the arguments' dtype."""
        return "bf16"

    @property
    def facts(self) -> TargetFacts:
        """What fusion may know of the machine.

        A lane of the accumulators holds one value for each row. A kernel of its own costs filling
        and draining the array once, in which time HBM could have moved bytes.
        """
        machine = self.machine
        fill_cycles = machine.rows + machine.pass_cycles(1)
        return TargetFacts(
            self.name,
            register_capacity=machine.accumulator_rows,
            bytes_per_flop=machine.hbm_bandwidth / machine.peak_flops,
            launch_cost_bytes=fill_cycles * machine.hbm_bytes_per_cycle,
            vector_bytes=4 * machine.columns,
            folds_products=False,
            keeps_order=False,
        )

    @property
    def options(self) -> tuple[str, ...]:
        """The instruction set's version and the machine's sizes."""
        return (f"isa {ISA_VERSION}", repr(self.machine))

    def passes(self) -> Sequence[Pass]:
        """Tiles of the array's size, then instructions."""
        return (ScheduleTpuPass(self.machine), LowerToTpuPass(self.machine))

    def generate(
        self, module: ModuleOp, context: PassContext, arguments: Sequence[ArraySpec]
    ) -> tuple[Artifact, Sequence[Stage]]:
        """Assembly text, which is also what runs."""
        start = time.perf_counter_ns()
        made = emit_assembly(module, context.kernel, context.source, arguments, self.machine)
        artifact = Artifact(
            self.name,
            context.kernel,
            files={FILE: made.text.encode()},
            assembly={"tpu": made.text},
            resources=_resources(made, self.machine),
            metadata={"arguments": list(made.arguments)},
        )
        lines = made.text.count("\n")
        stage = Stage(
            "tpu",
            "machine",
            "tpu",
            made.text,
            time_ns=time.perf_counter_ns() - start,
            summary=f"{lines} lines",
            line_spans=made.line_spans,
        )
        return artifact, (stage,)

    def load(self, artifact: Artifact) -> Executable:
        """The text on its simulator; ``TargetError`` where ``with_simulator`` gave none."""
        if self.simulate is None:
            raise TargetError(
                f"{artifact.kernel} for {self.name} runs on a simulator: "
                "make_target('tpu:spec').with_simulator(wia_compiler.simulators.tpu.run)"
            )
        return make_executable(
            artifact, self.simulate, weight_double_buffer=self.weight_double_buffer
        )

    def with_simulator(self, simulate: Simulate) -> TpuTarget:
        """The same target, whose kernels run on ``simulate``."""
        return dataclasses.replace(self, simulate=simulate)


def targets() -> Sequence[str]:
    """The names of all targets in this folder."""
    return (SPEC.name,)


def make_target(name: str) -> TpuTarget:
    """The target of a name; ``tpu`` alone is ``tpu:spec``."""
    if name not in ("tpu", *targets()):
        raise TargetError(f"no target {name!r}; TPUs are: {', '.join(targets())}")
    return TpuTarget()


def _resources(made: Assembly, machine: SystolicMachine) -> dict[str, int]:
    vmem = [buffer for buffer in made.buffers if buffer.memory == "vmem"]
    sums = [buffer for buffer in made.buffers if buffer.memory == "accumulators"]
    return {
        "vmem_bytes": sum(buffer.size_bytes for buffer in vmem),
        "vmem_capacity_bytes": machine.vmem_bytes,
        "accumulator_rows": sum(buffer.rows * buffer.slots for buffer in sums),
        "accumulator_capacity_rows": machine.accumulator_rows,
        "instructions": sum(
            1
            for line in made.text.splitlines()
            if line.strip() and not line.lstrip().startswith(("//", "."))
        ),
    }

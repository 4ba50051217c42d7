"""Running assembly text: on the simulator that the runtime passes in.

Backends and simulators know nothing of each other: both stand on the instruction table of
``dialects/tpu``. The runtime, which knows both, joins them::

    from wia_compiler.simulators.tpu import run
    executable = make_executable(artifact, run)          # or: make_target(…).with_simulator(run)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wia_compiler.passes.target import Artifact

Array = np.ndarray[Any, Any]
FILE = "kernel.tpu"


class Launched(Protocol):
    """What a run leaves."""

    @property
    def counters(self) -> Mapping[str, int | float]:
        """Counts by name."""
        ...


class Simulate(Protocol):
    """``wia_compiler.simulators.tpu.run``."""

    def __call__(
        self,
        text: str,
        tensors: Mapping[str, Array],
        *,
        weight_double_buffer: bool = False,
        name: str = "<tpu>",
    ) -> Launched:
        """Run ``text`` on arrays by name; outputs are written in place."""
        ...


@dataclass(frozen=True)
class TpuExecutable:
    """A kernel's text with the simulator that runs it; a call gives the run's counters."""

    artifact: Artifact
    simulate: Simulate
    weight_double_buffer: bool = False

    def __call__(
        self, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Mapping[str, int | float]:
        """Run on arrays of the specs it was built for; outputs are written in place."""
        names: Sequence[str | None] = self.artifact.metadata["arguments"]
        tensors = {
            name: array
            for name, array in zip(names, (*inputs, *outputs), strict=True)
            if name is not None
        }
        launch = self.simulate(
            self.artifact.files[FILE].decode(),
            tensors,
            weight_double_buffer=self.weight_double_buffer,
            name=f"{self.artifact.kernel}.tpu",
        )
        return launch.counters


def make_executable(
    artifact: Artifact, simulate: Simulate, *, weight_double_buffer: bool = False
) -> TpuExecutable:
    """An artifact of target ``tpu:spec`` that runs on ``simulate``."""
    return TpuExecutable(artifact, simulate, weight_double_buffer)

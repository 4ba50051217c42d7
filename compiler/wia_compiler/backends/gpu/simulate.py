"""Running PTX without a GPU: on the simulator that the runtime passes in.

Backends and simulators know nothing of each other; the runtime, which knows both, joins them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from wia_compiler.backends.gpu.launch import Launch, LaunchPlan
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.status_record import raise_failure
from wia_compiler.passes.target import Artifact

Array = NDArray[Any]
DEBUG = "debug"
"""Whether launches are checked, in an artifact's metadata."""


class Launched(Protocol):
    """What a run of a simulator leaves; two runs added are what both did."""

    @property
    def counters(self) -> Mapping[str, int | float]:
        """Counts by name."""
        ...

    @property
    def findings(self) -> Sequence[object]:
        """What the checks found, each with a text of its own."""
        ...

    def __add__(self, other: Self) -> Self: ...


class Simulate(Protocol):
    """``wia_compiler.simulators.ptx.run``."""

    def __call__(
        self,
        text: str,
        entry: str,
        grid: int,
        block: int,
        args: Sequence[Any],
        *,
        shared_bytes: int = 0,
        budget: int | None = None,
        name: str = "<ptx>",
        debug: bool = False,
        written: Mapping[int, NDArray[np.bool_]] | None = None,
    ) -> Launched:
        """Launch an entry of PTX on arrays, which are written in place."""
        ...


@dataclass(frozen=True)
class Ran:
    """One launch of a run: what it left, and the bytes of all buffers that it was given."""

    launch: Launch
    done: Launched
    buffer_bytes: int


class SimulatedGpu:
    """Launches an artifact's kernels in order on a simulator; a call gives the run's counters.

    ``last_run`` are the launches of the last call. ``OutOfRangeError`` tells of the first index
    that was outside of its array. Launches of an artifact that was built with ``debug`` are
    checked; ``TargetError`` lists what the checks found. Both come after outputs are written.
    """

    def __init__(self, artifact: Artifact, simulate: Simulate):
        self.simulate = simulate
        self._plan = LaunchPlan.from_metadata(artifact.metadata)
        self._text = artifact.files["kernel.ptx"].decode()
        self._name = f"{artifact.kernel}.ptx"
        self._debug = bool(artifact.metadata.get(DEBUG))
        self._checks = artifact.metadata.get("checks", ())
        self.last_run: tuple[Ran, ...] = ()

    def __call__(
        self, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> Mapping[str, int | float]:
        """Run on arrays of the specs it was built for; outputs are written in place."""
        results = [np.zeros(each.shape, each.dtype) for each in outputs]
        held = [*_apart(inputs), *results]
        held += [np.zeros(max(size, 1), np.uint8) for size in self._plan.workspace_bytes]
        # Outputs and workspaces are allocated memory: nothing is known of what they hold.
        written = {
            number: np.zeros(array.nbytes, bool)
            for number, array in enumerate(held)
            if number >= len(inputs) and number != self._plan.status
        }
        total: Launched | None = None
        ran: list[Ran] = []
        for launch in self._plan.in_order(lambda number: _is_true(held[number])):
            done = self.simulate(
                self._text,
                launch.entry,
                launch.blocks,
                launch.threads,
                [*(held[number] for number in launch.buffers), *_maps(launch, held)],
                shared_bytes=launch.dynamic_shared_bytes,
                budget=None,
                name=self._name,
                debug=self._debug,
                written={
                    place: written[number]
                    for place, number in enumerate(launch.buffers)
                    if number in written
                }
                if self._debug
                else None,
            )
            size = sum(held[number].nbytes for number in set(launch.buffers))
            ran.append(Ran(launch, done, size))
            total = done if total is None else total + done
        self.last_run = tuple(ran)
        for array, result in zip(outputs, results, strict=True):
            array[...] = result
        if total is None:
            return {}
        if self._plan.status is not None:
            raise_failure(held[self._plan.status], self._checks)
        _check(total.findings, self._name)
        return total.counters


def _maps(launch: Launch, held: Sequence[Array]) -> list[Mapping[str, Any]]:
    """The tensor maps of a launch as a simulator takes them."""
    return [each.arguments(held[each.buffer]) for each in launch.tensor_maps]


def _check(findings: Sequence[object], name: str) -> None:
    """Raise what the checks of a run found."""
    if findings:
        texts = "\n\n".join(map(str, findings))
        raise TargetError(f"{name}: debug=True found {len(findings)} faults\n\n{texts}")


def _apart(arrays: Sequence[Array]) -> list[Array]:
    """Arrays as they are; dense ones that lie in another's memory are copied.

    Kernels take for granted that a dense buffer begins at 16 bytes, as an allocation does.
    """
    found: list[Array] = []
    for array in arrays:
        shares = any(np.may_share_memory(array, other) and array is not other for other in arrays)
        found.append(array.copy() if shares and array.flags.c_contiguous else array)
    return found


def _is_true(array: Array) -> bool:
    """The one bool of an array: its first byte."""
    return bool(array.reshape(-1)[:1].view(np.uint8)[0])

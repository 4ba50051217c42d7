"""What a profiled run of a GPU's build left: its counts by line, and counts from elsewhere."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wia_compiler.backends.gpu.simulate import SimulatedGpu
from wia_compiler.backends.gpu.tools import INSTALL_COMMAND
from wia_compiler.base.errors import TargetError
from wia_compiler.profiler.lines import LineTable, line_table
from wia_compiler.runtime.arrays import is_ndarray
from wia_compiler.runtime.measured import MeasuredRun, measure_counters

if TYPE_CHECKING:
    from wia_compiler.profiler.profile import Profile
    from wia_compiler.runtime.build import Build
    from wia_compiler.runtime.launch import PreparedCall


class GpuEvidence:
    """The run of ``call``, and what else can be found out about it when someone asks.

    A run on a GPU is simulated only when its lines or simulated counters are looked at, and
    measured with counters only when those are.
    """

    def __init__(
        self,
        build: Build,
        call: PreparedCall,
        arrays: Sequence[Any],
        keywords: Mapping[str, Any],
        device: str | None,
    ):
        self._build = build
        self._call = call
        self._arrays = arrays
        self._keywords = keywords
        self._device = device
        self._ran: Sequence[Any] | None = None

    def keep(self, ran: Sequence[Any] | None) -> None:
        """The launches of the simulated run."""
        self._ran = ran

    def lines(self) -> LineTable:
        """Counts by line of the PTX, with those of the SASS where they are known."""
        build, unavailable = self._build, dict[str, str]()
        sass = build.sass if "sass" in build.formats else ()
        if not sass:
            why = f"SASS needs ptxas and nvdisasm: {INSTALL_COMMAND}"
            unavailable |= dict.fromkeys(("sass_instructions", "sass_inst_predicted"), why)
        measured: Mapping[tuple[str, int], int] | None = None
        try:
            measured = self._measured.by_offset
        except TargetError as error:
            unavailable["sass_inst_measured"] = f"not available: {str(error).splitlines()[0]}"
        return line_table(
            build.assembly("ptx"),
            [(each.launch.entry, each.done) for each in self._launches()],
            spans=build.stage("ptx").line_spans,
            source=build.signature.source.text,
            sass=sass,
            measured=measured,
            unavailable=unavailable,
        )

    def simulated(self) -> Mapping[str, int | float]:
        """Counters of the simulator for this run."""
        launches = self._launches()
        total = None
        for each in launches:
            total = each.done if total is None else total + each.done
        return total.counters if total is not None else {}

    def measured(self) -> Mapping[str, int | float]:
        """Counters of the GPU for this run; ``TargetError`` says why there are none."""
        return self._measured.counters

    def profile_of(self, build: Build) -> Profile:
        """The profile of another build on the same arguments."""
        is_gpu = build.target.name.startswith("gpu")
        device = self._device if is_gpu else None
        return build.profile(*self._arrays, device=device, **self._keywords)

    @functools.cached_property
    def _measured(self) -> MeasuredRun:
        return measure_counters(self._build.artifact, self._host_inputs(), self._build.outputs)

    def _host_inputs(self) -> list[Any]:
        """The inputs in host memory, laid out as the code was built for."""
        found: list[Any] = []
        for array in self._call.inputs:
            on_host = is_ndarray(array)
            if not on_host and not array.flags.c_contiguous:
                raise TargetError(
                    f"{self._build.kernel}: an array on the GPU has strides, which are not copied "
                    "for a simulation: pass it as a numpy array"
                )
            found.append(array if on_host else cast("Any", array).get())
        return found

    def _launches(self) -> Sequence[Any]:
        if self._ran is None:
            build = self._build
            simulate = getattr(build.target, "simulate", None)
            if simulate is None:
                raise TargetError(f"{build.target.name} has no simulator")
            simulated = SimulatedGpu(build.artifact, simulate)
            outputs = [np.empty(each.spec.shape, each.spec.dtype.numpy) for each in build.outputs]
            simulated(self._host_inputs(), outputs)
            self._ran = simulated.last_run
        return self._ran

"""``kernel.profile``: one live run of a build, handed to the profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wia_compiler.base.errors import ArgumentError
from wia_compiler.profiler.estimate import Estimate, RanLaunch, estimate_run
from wia_compiler.profiler.gpu_sheets import sheet_for
from wia_compiler.profiler.profile import Profile, Source, profile
from wia_compiler.profiler.timers import Timing, summarize
from wia_compiler.runtime.build import Build
from wia_compiler.runtime.evidence import GpuEvidence


def profile_build(
    build: Build, arrays: Sequence[Any], keywords: Mapping[str, Any], *, device: str | None = None
) -> Profile:
    """Run a build on arguments and say how long it takes and what bounds it.

    The caller's arrays are read and never written: results go to outputs of the run's own.
    ``device`` is the product (``"H100"``) that stands for a GPU which is not here.
    """
    launches = hasattr(build.executable, "last_run")
    if device is not None and not launches:
        raise ArgumentError(
            f"device={device!r} chooses the product whose time is estimated where a GPU target "
            f"runs on the simulator, but {build.target.name} is {_how(build)} here: leave it out"
        )
    sheet = sheet_for(build.target.name, device) if launches else None
    dtype = _arithmetic_dtype(build)

    def estimate() -> Estimate | None:
        ran: Sequence[RanLaunch] | None = getattr(build.executable, "last_run", None)
        if sheet is None or ran is None:
            return None
        return estimate_run(
            sheet,
            ran,
            build.resources,
            flops=build.flops,
            size_bytes=build.size_bytes,
            dtype=dtype,
            sass=build.sass if "sass" in build.formats else (),
        )

    call = build.prepare(*arrays, **keywords)
    evidence = GpuEvidence(build, call, arrays, keywords, device)
    is_gpu = build.target.name.startswith("gpu")
    timed = getattr(build.executable, "device_timing", None)

    def sample(budget: float) -> Timing:
        assert timed is not None
        taken = timed(call.inputs, call.outputs)(budget)
        return summarize(taken.nanoseconds, remarks=taken.remarks)

    def run() -> Mapping[str, int | float]:
        counters = call.execute()
        evidence.keep(getattr(build.executable, "last_run", None))
        return counters

    return profile(
        run if launches else call.execute,
        flops=build.flops,
        size_bytes=build.size_bytes,
        kernel=build.kernel,
        target=build.target.name,
        dtype=dtype,
        source=_how(build),
        threads=None if build.artifact.metadata.get("parallel") else 1,
        ceilings=sheet.ceilings if sheet is not None else None,
        estimate=estimate,
        resources=build.resources,
        read_schedule=lambda: build.schedule,
        evidence=evidence if is_gpu else None,
        sample=sample if timed is not None else None,
    )


def _how(build: Build) -> Source:
    return "simulated" if build.simulated else "measured"


def _arithmetic_dtype(build: Build) -> str:
    """The dtype whose arithmetic limits the kernel: that of its first array of floats."""
    specs = [spec.spec for spec in (*build.inputs, *build.outputs)]
    floats = [spec for spec in specs if spec.dtype.is_float and spec.rank > 0]
    return (floats or specs)[0].dtype.name if specs else "f32"

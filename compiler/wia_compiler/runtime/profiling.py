"""``kernel.profile``: one live run of a build, handed to the profiler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wia_compiler.profiler.profile import Profile, profile
from wia_compiler.runtime.build import Build


def profile_build(build: Build, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Profile:
    """Run a build on arguments and say how long it takes and what bounds it.

    The caller's arrays are read and never written: results go to outputs of the run's own.
    """
    call = build.prepare(*arrays, **keywords)
    return profile(
        call.execute,
        flops=build.flops,
        size_bytes=build.size_bytes,
        kernel=build.kernel,
        target=build.target.name,
        dtype=_arithmetic_dtype(build),
        source="simulated" if build.simulated else "measured",
        threads=None if build.artifact.metadata.get("parallel") else 1,
    )


def _arithmetic_dtype(build: Build) -> str:
    """The dtype whose arithmetic limits the kernel: that of its first array of floats."""
    specs = [spec.spec for spec in (*build.inputs, *build.outputs)]
    floats = [spec for spec in specs if spec.dtype.is_float and spec.rank > 0]
    return (floats or specs)[0].dtype.name if specs else "f32"

"""One kernel an explorer can show: how it is built for a target, measured and put on show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from wia_compiler.base.errors import WiaError

from wia_notebook.preview import preview
from wia_notebook.views import units
from wia_notebook.views.exhibit import Exhibit

if TYPE_CHECKING:
    from wia_compiler.profiler.profile import Profile
    from wia_compiler.runtime.build import Build
    from wia_compiler.runtime.kernel import Kernel

    from wia_notebook.measure import LiveRun

HINT = (
    "Shapes are not known yet, so the stages end here. Call {name}(…), or give shapes: "
    "%%wia --args {example}"
)


@dataclass
class Subject:
    """A kernel with the arguments it is shown for.

    ``arguments`` are arrays or specs for a build, ``None`` where shapes are not known; ``build``
    stands in for both where only a build is at hand, and is built anew for other targets.
    """

    kernel: Kernel | None
    arguments: tuple[Sequence[Any], Mapping[str, Any]] | None = None
    build: Build | None = None
    _runs: dict[str, LiveRun] = field(default_factory=dict[str, "LiveRun"])
    _schedules: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def name(self) -> str:
        """The kernel's name."""
        named = self.kernel.name if self.kernel is not None else None
        return named or (self.build.kernel if self.build is not None else "")

    @property
    def target(self) -> str:
        """The target it is bound to."""
        if self.build is not None:
            return self.build.target.name
        return self.kernel.target.name if self.kernel is not None else ""

    def built(self, target: str) -> Build | None:
        """The build for a target; ``None`` where shapes are not known."""
        schedule = self._schedules.get(target)
        if self.build is not None:
            same = self.build.target.name == target and schedule is None
            return self.build if same else self.build.to(target, schedule=schedule)
        if self.kernel is None or self.arguments is None:
            return None
        arrays, keywords = self.arguments
        return self.kernel.build(*arrays, target=target, schedule=schedule, **keywords)

    def reschedule(self, target: str, schedule: str | None) -> None:
        """Build by a schedule from now on; ``None`` goes back to what the text or target says.

        ``CompileError`` where it cannot be, and all stays as it was.
        """
        before = self._schedules.pop(target, None)
        if schedule is not None:
            self._schedules[target] = schedule
        try:
            self.built(target)
        except WiaError:
            self._schedules.pop(target, None)
            if before is not None:
                self._schedules[target] = before
            raise

    def has_run(self, target: str) -> bool:
        """Whether it was measured for a target."""
        return target in self._runs

    def measure(self, target: str, device: str | None = None) -> Profile:
        """Run it live, on the arrays it was called with or on random ones of their shapes.

        ``device`` is the GPU to estimate the time of, where a simulator runs.
        """
        from wia_notebook.measure import live_run, profile_build

        build = self.built(target)
        assert build is not None, "a kernel without shapes cannot be measured"
        arrays, keywords = self.arguments if self.arguments is not None else ((), {})
        found = profile_build(build, arrays, keywords, device=device)
        self._runs[target] = live_run(found, build, self._runs.get(target))
        return found

    def exhibit(self, target: str, *, kernels: Sequence[str], targets: Sequence[str]) -> Exhibit:
        """What an explorer shows of it for a target."""
        build = self.built(target)
        if build is None:
            assert self.kernel is not None
            hint = HINT.format(name=self.name, example=example_arguments(self.kernel))
            names = self.kernel.signature.output_names
            return Exhibit(preview(self.kernel), outputs=names, kernels=kernels, hint=hint)
        run = self._runs.get(target)
        return Exhibit(
            build.trace,
            {name: build.assembly(name) for name in build.formats},
            build.resources,
            origin_text(build),
            [spec.name for spec in build.outputs],
            targets,
            kernels,
            run.roofline if run is not None else None,
            signature=signature_text(build),
            counts=run.counts if run is not None and run.artifact is build.artifact else {},
            made_of=_made_of(build),
            schedule=build.schedule,
            own_schedule=target in self._schedules,
        )


def _made_of(build: Build) -> dict[str, tuple[str, dict[int, int]]]:
    """The line of the PTX that each line of the SASS was made of, where there is SASS."""
    if "sass" not in build.formats:
        return {}
    return {"sass": ("ptx", dict(build.stage("sass").made_of))}


def signature_text(build: Build) -> str:
    """``(X f32[8×3], W f32[3×4]) → Y f32[8×4]``."""
    arguments, results = (
        ", ".join(f"{each.name} {units.type_text(str(each.spec))}" for each in specs)
        for specs in (build.inputs, build.outputs)
    )
    return f"({arguments}) → {results}"


def origin_text(build: Build) -> str:
    """``compiled · 212 ms``, ``from disk · 1.8 ms`` or ``in memory · compiled in 212 ms``."""
    cache = build.cache
    if cache.hit == "memory":
        return f"in memory · compiled in {units.duration(cache.compile_time_ns)}"
    where = {"disk": "from disk", "miss": "compiled"}[cache.hit]
    return f"{where} · {units.duration(cache.build_time_ns)}"


def example_arguments(kernel: Kernel) -> str:
    """What to write after ``--args`` for a kernel: ``A=f32[64,64],B=f32[64,64]``."""
    parts: list[str] = []
    for parameter in kernel.signature.passed:
        if parameter.role == "scalar":
            continue
        dims = parameter.type.dims
        rank = 2 if dims is None else len(dims)
        sizes = [str(d) if isinstance(d, int) else "64" for d in dims or (None,) * rank]
        parts.append(f"{parameter.name}={parameter.type.dtype or 'f32'}[{','.join(sizes)}]")
    return ",".join(parts)

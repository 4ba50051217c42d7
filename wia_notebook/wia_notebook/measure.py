"""Live runs for the notebook: a build is profiled, and its profile becomes a roofline to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wia_notebook.views import units
from wia_notebook.views.roofline import Ceiling, Point, Roofline

if TYPE_CHECKING:
    from wia_compiler.profiler.profile import Profile
    from wia_compiler.runtime.build import Build


def profile_build(build: Build, arrays: Sequence[Any], keywords: Mapping[str, Any]) -> Profile:
    """Profile a build on arguments; specs among them (and missing ones) become random arrays."""
    from wia_compiler.runtime.binding import ABSENT, bind
    from wia_compiler.runtime.random_inputs import random_arguments
    from wia_compiler.runtime.specs import Spec

    given: dict[str, Any] = {
        spec.name: Spec(spec.spec.shape, spec.spec.dtype)
        for spec, _ in zip(build.inputs, build.signature.passed, strict=False)
    }
    if arrays or keywords:
        values = bind(build.signature, arrays, keywords, scalars_may_be_absent=True)
        names = [parameter.name for parameter in build.signature.passed]
        given |= {n: v for n, v in zip(names, values, strict=True) if v is not ABSENT}
    return build.profile(*random_arguments(build.signature, given))


def roofline_of(profile: Profile) -> Roofline:
    """What the drawing needs of a profile."""
    found = profile.roofline
    main = {each.name for each in (found.memory, found.compute) if each is not None}
    ceilings = [
        Ceiling(each.name, each.kind, each.value, each.source, each.name in main)
        for each in found.ceilings.ceilings
    ]
    points: list[Point] = []
    if found.intensity and found.achieved:
        timing = profile.timing
        times = (timing.lower_quartile, timing.upper_quartile) if timing is not None else ()
        rates = [profile.flops / time for time in times if time > 0]
        points.append(
            Point(
                profile.kernel,
                found.intensity,
                found.achieved,
                min(rates, default=0.0),
                max(rates, default=0.0),
                found.percent,
            )
        )
    return Roofline(
        profile.kernel,
        ceilings,
        points,
        str(found),
        tuple(_facts(profile)),
        profile.advice,
    )


def _facts(profile: Profile) -> list[tuple[str, str, str]]:
    found = profile.roofline
    counted = "counted from the IR"
    facts = [
        ("time", units.duration(profile.time * 1e9) if profile.time else "–", profile.label),
        ("FLOPs", units.scaled(profile.flops, "FLOP"), counted),
        ("bytes", units.size(profile.bytes), "compulsory: inputs once, outputs once"),
    ]
    if found.intensity:
        facts.append(("intensity", f"{found.intensity:.3g} FLOP/B", "FLOPs over bytes"))
    if found.achieved:
        facts.append(("achieved", units.scaled(found.achieved, "FLOP/s"), "FLOPs over time"))
    if found.achieved_bandwidth is not None:
        facts.append(
            ("bandwidth", units.scaled(found.achieved_bandwidth, "B/s"), "bytes over time")
        )
    facts += [
        (name.replace("_", " "), units.number(value), profile.source)
        for name, value in profile.counters.items()
    ]
    return facts

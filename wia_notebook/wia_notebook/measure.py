"""Live runs for the notebook: a build is profiled, and its profile becomes a roofline to draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from wia_notebook.counted import line_counts_of
from wia_notebook.views import units
from wia_notebook.views.line_counts import LineCounts
from wia_notebook.views.roofline import Advice, Ceiling, Point, Roofline

if TYPE_CHECKING:
    from wia_compiler.profiler.advice import Advice as Found
    from wia_compiler.profiler.profile import Profile
    from wia_compiler.runtime.build import Build


MAX_TRAIL = 8
"""Earlier runs that the roofline shows beside the present one."""


@dataclass(frozen=True)
class LiveRun:
    """A run as it is shown: its roofline, its counts by line, and the artifact that ran."""

    roofline: Roofline
    counts: Mapping[str, LineCounts]
    artifact: object


def live_run(profile: Profile, build: Build, before: LiveRun | None) -> LiveRun:
    """What to show of a profile, its point after those of the runs before it."""
    found = roofline_of(profile)
    trail = before.roofline.points[-MAX_TRAIL:] if before is not None else ()
    first = int(trail[0].label) if trail and trail[0].label.isdigit() else 1
    earlier = [replace(point, label=f"{first + place}") for place, point in enumerate(trail)]
    shown = replace(found, points=(*earlier, *found.points))
    return LiveRun(shown, line_counts_of(profile), build.artifact)


def profile_build(
    build: Build, arrays: Sequence[Any], keywords: Mapping[str, Any], *, device: str | None = None
) -> Profile:
    """Profile a build on arguments; specs among them (and missing ones) become random arrays.

    ``device`` is the GPU to estimate the time of, where a simulator runs.
    """
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
    return build.profile(*random_arguments(build.signature, given), device=device)


def roofline_of(profile: Profile) -> Roofline:
    """What the drawing needs of a profile."""
    found = profile.roofline
    main = {each.name for each in (found.memory, found.compute) if each is not None}
    ceilings = [
        Ceiling(each.name, each.kind, each.value, each.source, each.name in main)
        for each in found.ceilings.ceilings
    ]
    points: list[Point] = []
    headline = str(found)
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
    elif (estimate := profile.estimate) is not None:
        points += _estimated_points(profile)
        headline = f"{estimate.roofline}, by a model of {estimate.device}"
    return Roofline(
        profile.kernel,
        ceilings,
        points,
        headline,
        tuple(_facts(profile)),
        [(name, units.number(value), profile.source) for name, value in profile.counters.items()],
        tuple(map(_advice, profile.advice)),
    )


def _advice(found: Found) -> Advice:
    """Advice as a card; its gain in words."""
    gain = f"{found.gain:.2g} × by the model" if found.gain is not None else ""
    return Advice(found.text, found.rule, found.source, found.schedule or "", gain)


def _estimated_points(profile: Profile) -> list[Point]:
    """The point of a model, marked as one, with its error band as the spread."""
    estimate = profile.estimate
    if estimate is None:
        return []
    place = estimate.roofline
    if not place.intensity or not place.achieved:
        return []
    low, high = (profile.flops / time for time in reversed(estimate.error_band))
    label = f"{profile.kernel} (model)"
    return [Point(label, place.intensity, place.achieved, low, high, place.percent)]


def _facts(profile: Profile) -> list[tuple[str, str, str]]:
    found = profile.roofline
    counted = "counted from the IR"
    facts = [
        ("time", units.duration(profile.time * 1e9) if profile.time else "–", profile.label),
        ("FLOPs", units.scaled(profile.flops, "FLOP"), counted),
        ("bytes", units.size(profile.bytes), "compulsory: inputs once, outputs once"),
    ]
    facts[1:1] = _estimate_facts(profile)
    if found.intensity:
        facts.append(("intensity", f"{found.intensity:.3g} FLOP/B", "FLOPs over bytes"))
    if found.achieved:
        facts.append(("achieved", units.scaled(found.achieved, "FLOP/s"), "FLOPs over time"))
    if found.achieved_bandwidth is not None:
        facts.append(
            ("bandwidth", units.scaled(found.achieved_bandwidth, "B/s"), "bytes over time")
        )
    return facts


def _estimate_facts(profile: Profile) -> list[tuple[str, str, str]]:
    """What a model says, each row as its own."""
    estimate = profile.estimate
    if estimate is None:
        return []
    low, high = (units.duration(each * 1e9) for each in estimate.error_band)
    time = f"{units.duration(estimate.time * 1e9)} ({low} to {high})"
    longest = sorted(estimate.parts.items(), key=lambda part: -part[1])
    model = f"model of {estimate.device}"
    facts = [
        ("estimated time", time, f"{model}: {estimate.note.removeprefix('a model, ')}"),
        ("limited by", estimate.limiter, model),
        (
            "occupancy",
            f"{100 * estimate.occupancy:.0f} %",
            f"{estimate.device}, limited by {estimate.occupancy_limiter}",
        ),
    ]
    facts += [
        (f"· {name}", units.duration(seconds * 1e9), f"{model}, overlaps with the others")
        for name, seconds in longest
        if seconds > 0
    ]
    return facts

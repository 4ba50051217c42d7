"""The roofline: ceilings of a machine and where a kernel stands below them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

from wia_notebook import theme
from wia_notebook.views import units
from wia_notebook.views.graph_measure import text_width

WIDTH, HEIGHT = 480, 350
LEFT, RIGHT, TOP, BOTTOM = 62, 24, 26, 46


@dataclass(frozen=True)
class Ceiling:
    """A limit: ``value`` in byte/s for a memory, FLOP/s for arithmetic; ``source``: where from.

    ``main`` ceilings are those that bound this kernel: drawn as the roof, the others dashed.
    """

    name: str
    kind: Literal["memory", "compute"]
    value: float
    source: str = ""
    main: bool = False

    @property
    def label(self) -> str:
        """``DRAM 38.2 GB/s``."""
        unit = "B/s" if self.kind == "memory" else "FLOP/s"
        return f"{self.name} {units.scaled(self.value, unit)}"


@dataclass(frozen=True)
class Point:
    """One run: ``intensity`` in FLOP per byte, ``rate`` in FLOP/s with its low and high sample."""

    label: str
    intensity: float
    rate: float
    rate_low: float = 0.0
    rate_high: float = 0.0
    percent: float | None = None


@dataclass(frozen=True)
class Advice:
    """What to change: a sentence, who counted, and a schedule with its gain where one can do it.

    ``gain`` is words (``1.4 × by the model``), ``schedule`` the text to apply; empty where a line
    of a schedule cannot do it.
    """

    text: str
    title: str = "Advice"
    source: str = ""
    schedule: str = ""
    gain: str = ""


@dataclass(frozen=True)
class Roofline:
    """Ceilings, points and the facts behind them: (name, value, where it comes from).

    Of several points the last one is the present run, those before it what was tried before.
    ``counters`` are rows like the facts, by the names of who counted.
    """

    kernel: str
    ceilings: Sequence[Ceiling]
    points: Sequence[Point]
    headline: str = "no run yet"
    facts: Sequence[tuple[str, str, str]] = ()
    counters: Sequence[tuple[str, str, str]] = ()
    advice: Sequence[Advice] = ()

    def main(self, kind: Literal["memory", "compute"]) -> Ceiling | None:
        """The ceiling of a kind that bounds the kernel; else the lowest memory, the top rate."""
        found = sorted((c for c in self.ceilings if c.kind == kind), key=lambda c: c.value)
        chosen = [c for c in found if c.main]
        return next(iter(chosen or (found if kind == "memory" else found[::-1])), None)


@dataclass(frozen=True)
class Axes:
    """Decades shown: x in FLOP/byte, y in FLOP/s, as powers of ten."""

    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        """Pixels from the left."""
        place = (math.log10(value) - self.x0) / (self.x1 - self.x0)
        return LEFT + place * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Pixels from the top."""
        place = (math.log10(value) - self.y0) / (self.y1 - self.y0)
        return HEIGHT - BOTTOM - place * (HEIGHT - TOP - BOTTOM)


def axes_of(roofline: Roofline) -> Axes:
    """Axes that hold every ridge and every point."""
    compute = [c.value for c in roofline.ceilings if c.kind == "compute" and c.value > 0]
    memory = [c.value for c in roofline.ceilings if c.kind == "memory" and c.value > 0]
    points = [p for p in roofline.points if p.intensity > 0 and p.rate > 0]
    ridges = [c / m for c in compute for m in memory]
    xs = [math.log10(v) for v in [*ridges, *(p.intensity for p in points)]] or [0.0]
    x0, x1 = math.floor(min(xs) - 0.5), math.ceil(max(xs) + 0.5)
    lows = [*(p.rate for p in points), *(m * 10**x0 for m in memory)]
    ys = [math.log10(v) for v in [*compute, *lows] if v > 0] or [9.0]
    y1 = max(ys) + 0.25
    y0 = max(math.floor(min(ys)), math.floor(y1) - 6)
    if points:
        # A point's words stand below it.
        y0 = min(y0, math.floor(min(math.log10(p.rate) for p in points) - 0.35))
    return Axes(x0, x1, y0, y1)


def roofline_svg(roofline: Roofline) -> str:
    """The log-log picture, coloured by class like the graphs."""
    axes = axes_of(roofline)
    parts = [*_grid(axes), *_roofs(roofline, axes), *_points(roofline, axes)]
    label = f"roofline of {roofline.kernel}: {roofline.headline}"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" class="wia-roofline" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">'
        f"<title>{escape(label)}</title>{''.join(parts)}</svg>"
    )


CSS = (
    f".wia-roofline text{{font-family:{theme.SANS};fill:var(--wia-dim);font-size:11px}}"
    ".wia-roofline .grid{stroke:var(--wia-line)}"
    ".wia-roofline .roof{fill:none;stroke:var(--wia-accent);stroke-width:2.2}"
    ".wia-roofline .roof.other{stroke-width:1.2;stroke-dasharray:5 4}"
    ".wia-roofline .trail{fill:none;stroke:var(--wia-fusion);stroke-width:1.3;stroke-dasharray:2 3}"
    ".wia-roofline .spread{stroke:var(--wia-fusion);stroke-width:1.4}"
    ".wia-roofline .point{fill:var(--wia-fusion-bg);stroke:var(--wia-fusion)}"
    ".wia-roofline .point.now{fill:var(--wia-fusion)}"
    ".wia-roofline .drop{stroke:var(--wia-fusion);stroke-width:1;stroke-dasharray:1 4}"
    ".wia-roofline .now-label{fill:var(--wia-fusion);font-size:12px;font-weight:600}"
    ".wia-roofline text{paint-order:stroke;stroke:var(--wia-bg);stroke-width:3px;"
    "stroke-linejoin:round}"
)


def standalone(svg: str) -> str:
    """The picture with its colours inside, for a file or an ``<img>``."""
    start = svg.index(">") + 1
    ground = '<rect width="100%" height="100%" fill="var(--wia-bg)"/>'
    return f"{svg[:start]}<style>{theme.picture_css()}{CSS}</style>{ground}{svg[start:]}"


def _grid(axes: Axes) -> list[str]:
    parts: list[str] = []
    top, bottom = TOP, HEIGHT - BOTTOM
    for decade in range(math.ceil(axes.x0), math.floor(axes.x1) + 1):
        x = axes.x(10.0**decade)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 15, f"{10.0**decade:g}", "middle"))
    for decade in range(math.ceil(axes.y0), math.floor(axes.y1) + 1):
        y = axes.y(10.0**decade)
        parts.append(
            f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        )
        parts.append(_text(LEFT - 6, y + 3, units.scaled(10.0**decade, ""), "end"))
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "FLOP per byte", "middle"))
    parts.append(_text(LEFT - 6, TOP - 12, "FLOP/s", "end"))
    return parts


def _roofs(roofline: Roofline, axes: Axes) -> list[str]:
    roof, slope = roofline.main("compute"), roofline.main("memory")
    top = roof.value if roof is not None else 10**axes.y1
    left, right = 10.0**axes.x0, 10.0**axes.x1
    parts: list[str] = []
    memories = sorted((c for c in roofline.ceilings if c.kind == "memory"), key=lambda c: c.value)
    for index, ceiling in enumerate(memories):
        start = max(left, 10**axes.y0 / ceiling.value)
        end = min(right, top / ceiling.value)
        if end <= start:
            continue
        x0, y0 = axes.x(start), axes.y(start * ceiling.value)
        x1, y1 = axes.x(end), axes.y(end * ceiling.value)
        parts.append(_roof(f"M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}", ceiling, ceiling is slope))
        angle = math.degrees(math.atan2(y1 - y0, x1 - x0))
        below = _gap(axes, memories, index) < 26  # where another is close above
        blocked = _gap(axes, memories, index) < 52 and _gap(axes, memories, index + 1) < 26
        along = (110 if blocked else 12) / (math.hypot(x1 - x0, y1 - y0) or 1.0)
        at_x, at_y = x0 + (x1 - x0) * along, y0 + (y1 - y0) * along
        label = _text(0, 11 if below else -5, ceiling.label, "start")
        parts.append(
            f'<g transform="translate({at_x:.1f} {at_y:.1f}) rotate({angle:.1f})">{label}</g>'
        )
    for ceiling in (c for c in roofline.ceilings if c.kind == "compute"):
        ridge = ceiling.value / slope.value if slope is not None else left
        x0, y = axes.x(min(max(left, ridge), right)), axes.y(ceiling.value)
        parts.append(_roof(f"M{x0:.1f} {y:.1f}H{WIDTH - RIGHT}", ceiling, ceiling is roof))
    parts += [
        _text(WIDTH - RIGHT - 4, base, ceiling.label, "end")
        for ceiling, base, _ in _compute_labels(roofline, axes)
    ]
    return parts


def _compute_labels(roofline: Roofline, axes: Axes) -> list[tuple[Ceiling, float, float]]:
    """Each rate's words at its right end: baseline and left end; below where a point is above."""
    points = [(axes.x(p.intensity), axes.y(p.rate)) for p in roofline.points if p.rate > 0]
    places: list[tuple[Ceiling, float, float]] = []
    for ceiling in (c for c in roofline.ceilings if c.kind == "compute"):
        y, start = axes.y(ceiling.value), WIDTH - RIGHT - 4 - text_width(ceiling.label, 11)
        taken = any(start - 8 < at and abs(rate - (y - 10)) < 13 for at, rate in points)
        places.append((ceiling, y + 14 if taken else y - 6, start))
    return places


def _gap(axes: Axes, memories: Sequence[Ceiling], index: int) -> float:
    """Pixels between a slope and the next one above it."""
    if index + 1 >= len(memories):
        return math.inf
    return axes.y(memories[index].value) - axes.y(memories[index + 1].value)


def _roof(path: str, ceiling: Ceiling, main: bool) -> str:
    title = f"<title>{escape(f'{ceiling.label}, {ceiling.source}')}</title>"
    return f'<path class="{"roof" if main else "roof other"}" d="{path}">{title}</path>'


def _points(roofline: Roofline, axes: Axes) -> list[str]:
    shown = [p for p in roofline.points if p.intensity > 0 and p.rate > 0]
    places = [(axes.x(p.intensity), axes.y(p.rate)) for p in shown]
    parts: list[str] = []
    if len(places) > 1:
        parts.append(
            '<path class="trail" d="M' + "L".join(f"{x:.1f} {y:.1f}" for x, y in places) + '"/>'
        )
    for index, (point, (x, y)) in enumerate(zip(shown, places, strict=True)):
        now = index == len(shown) - 1
        if point.rate_low > 0 and point.rate_high > point.rate_low:
            low, high = axes.y(point.rate_low), axes.y(point.rate_high)
            parts.append(
                f'<line class="spread" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
            )
        if now:
            parts.append(f'<path class="drop" d="M{x:.1f} {y:.1f}V{HEIGHT - BOTTOM}"/>')
        kind, radius = ("point now", 6) if now else ("point", 4)
        words = point_words(point)
        parts.append(
            f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}">'
            f"<title>{escape(words)}</title></circle>"
        )
        if not now:
            parts.append(_text(x + 8, y + 14, point.label, "start"))
            continue
        parts.append(_now_label(roofline, axes, words, x, y))
    return parts


def _now_label(roofline: Roofline, axes: Axes, words: str, x: float, y: float) -> str:
    """The point's words below, left of or above it: the first place that no ceiling has."""
    width = text_width(words, 12, bold=True)
    middle = min(max(x, LEFT + width / 2 + 4), WIDTH - RIGHT - width / 2)
    labels = _compute_labels(roofline, axes)
    lines = [axes.y(ceiling.value) for ceiling, _, _ in labels]
    left_of = x - 12 - width / 2
    lower = [(middle, y + below) for below in range(27, 76, 6)]
    places = ((middle, y + 21), (left_of, y + 17), *lower, (middle, y - 14))

    def free(at: float, base: float) -> bool:
        words_meet = any(
            at + width / 2 > start and abs(base - other) < 14 for _, other, start in labels
        )
        return (
            at - width / 2 > LEFT and not words_meet and all(abs(base - 4 - y) > 8 for y in lines)
        )

    at, base = next((place for place in places if free(*place)), places[0])
    return _text(at, base, words, "middle", "now-label")


def point_words(point: Point) -> str:
    """``conv: 41.2 GFLOP/s, 61 % of the roof``."""
    share = f", {point.percent:.0f} % of roof" if point.percent is not None else ""
    return f"{point.label}: {units.scaled(point.rate, 'FLOP/s')}{share}"


def _text(x: float, y: float, text: str, anchor: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def rows(roofline: Roofline, *, counters: bool = True) -> list[tuple[str, str, str]]:
    """Every number with where it comes from: facts, counters unless left out, ceilings."""
    ceilings = [(c.name, c.label.removeprefix(c.name).strip(), c.source) for c in roofline.ceilings]
    return [*roofline.facts, *(roofline.counters if counters else ()), *ceilings]

"""The roofline as a plotly figure: a plain dict, plotly itself is not imported."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from wia_notebook import theme
from wia_notebook.views.roofline import Point, Roofline, axes_of, point_words

_NO_BOX = "<extra></extra>"  # plotly's second box beside a hover text


def roofline_figure(roofline: Roofline) -> dict[str, Any]:
    """The same as a plotly figure, as a plain dict (mime ``application/vnd.plotly.v1+json``)."""
    axes = axes_of(roofline)
    left, right = 10.0**axes.x0, 10.0**axes.x1
    roof = roofline.main("compute")
    top = roof.value if roof is not None else 10**axes.y1
    slope = roofline.main("memory")
    traces: list[dict[str, Any]] = []
    notes: list[dict[str, Any]] = []
    dashes = iter(("dash", "dot", "dashdot", "longdash", "longdashdot"))
    for ceiling in sorted(roofline.ceilings, key=lambda c: (c.kind, c.value)):
        memory = ceiling.kind == "memory"
        if memory:
            start, end = left, min(right, top / ceiling.value)
            x, y = [start, end], [start * ceiling.value, end * ceiling.value]
        else:
            ridge = ceiling.value / slope.value if slope is not None else left
            x, y = [min(max(left, ridge), right), right], [ceiling.value, ceiling.value]
            notes.append(_note(ceiling.label, x[1], y[1], "right"))
        main = ceiling is roofline.main(ceiling.kind)
        dash = "solid" if main else next(dashes, "dot") if memory else "dash"
        line = {"color": theme.LIGHT["accent"], "width": 2.5 if main else 1.2, "dash": dash}
        hover = f"{escape(ceiling.label)}<br>{escape(ceiling.source)}{_NO_BOX}"
        traces.append(
            _trace("lines", ceiling.label, x, y)
            | {"line": line, "showlegend": memory, "hovertemplate": hover}
        )
    for point in roofline.points:
        traces.append(
            _trace("markers", point_words(point), [point.intensity], [point.rate]) | _marker(point)
        )
        notes.append(
            _note(point_words(point), point.intensity, point.rate, "right")
            | {"yanchor": "top", "yshift": -8}
        )
    axis = {"type": "log", "gridcolor": "rgba(128,128,128,.25)", "zeroline": False, "dtick": 1}
    layout: Mapping[str, Any] = {
        "title": {"text": escape(f"{roofline.kernel}: {roofline.headline}")},
        "height": 420,
        "autosize": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": "#7b8494"},
        "margin": {"l": 64, "r": 20, "t": 84, "b": 52},
        "xaxis": axis | {"title": {"text": "FLOP per byte"}, "range": [axes.x0, axes.x1]},
        "yaxis": axis
        | {"title": {"text": "FLOP/s"}, "tickformat": "~s", "range": [axes.y0, axes.y1]},
        "annotations": notes,
    }
    # Not "responsive": JupyterLab resizes figures itself, and both together collapse the height.
    return {"data": traces, "layout": layout, "config": {}}


def _marker(point: Point) -> dict[str, Any]:
    """The point's look, with the spread of its samples."""
    above = max(0.0, point.rate_high - point.rate)
    below = max(0.0, point.rate - point.rate_low) if point.rate_low else 0.0
    spread = {"type": "data", "symmetric": False, "array": [above], "arrayminus": [below]}
    marker = {"color": theme.LIGHT["fusion"], "size": 12}
    return {
        "marker": marker,
        "showlegend": False,
        "error_y": spread,
        "hovertemplate": f"{escape(point_words(point))}{_NO_BOX}",
    }


def _note(text: str, x: float, y: float, anchor: str) -> dict[str, Any]:
    """Words at a place of the figure; its log axes take the logarithm."""
    place = {"x": math.log10(x), "y": math.log10(y), "xanchor": anchor, "yanchor": "bottom"}
    return place | {"text": escape(text), "showarrow": False, "font": {"size": 11}}


def _trace(mode: str, name: str, x: list[float], y: list[float]) -> dict[str, Any]:
    return {"type": "scatter", "mode": mode, "name": escape(name), "x": x, "y": y}

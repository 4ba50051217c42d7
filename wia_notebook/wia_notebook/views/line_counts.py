"""Counters along the lines of a text: what the bars beside machine code and the cell show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wia_notebook.views import units


@dataclass(frozen=True)
class LineMetric:
    """One counter: ``values`` by line (from 1) of the text that it stands beside."""

    title: str
    values: Mapping[int, float]

    @property
    def total(self) -> float:
        """Over all lines."""
        return sum(self.values.values())


@dataclass(frozen=True)
class LineCounts:
    """The counters of one text, and who counted: ``simulated``, ``predicted`` or ``measured``."""

    source: str
    metrics: Sequence[LineMetric]


def payload(counts: LineCounts | None) -> dict[str, Any] | None:
    """JSON: each metric has (line, share of the largest, words) rows; those that are 0 stay out."""
    if counts is None:
        return None
    metrics = [_metric(each) for each in counts.metrics if each.total > 0]
    return {"source": counts.source, "metrics": metrics} if metrics else None


def _metric(metric: LineMetric) -> dict[str, Any]:
    largest = max(metric.values.values())
    return {
        "title": metric.title,
        "total": units.number(_whole(metric.total)),
        "rows": [
            [line, round(value / largest, 3), units.number(_whole(value))]
            for line, value in sorted(metric.values.items())
            if value > 0
        ],
    }


def _whole(value: float) -> float | int:
    return int(value) if value == int(value) else value

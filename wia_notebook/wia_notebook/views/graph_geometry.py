"""Places in a picture: points, boxes, lines, and a whole layout."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wia_notebook.views.graph_measure import label_size
from wia_notebook.views.graph_model import Edge

MARGIN = 14.0


class Point(NamedTuple):
    """A place in the picture, in pixels from its top left."""

    x: float
    y: float


class Box(NamedTuple):
    """A rectangle: left, top, width, height."""

    x: float
    y: float
    width: float
    height: float

    @property
    def centre(self) -> Point:
        """Its middle."""
        return Point(self.x + self.width / 2, self.y + self.height / 2)

    def shifted(self, dx: float, dy: float) -> Box:
        """The same box elsewhere."""
        return Box(self.x + dx, self.y + dy, self.width, self.height)

    def holds(self, point: Point) -> bool:
        """Whether the point lies inside."""
        return (
            self.x <= point.x <= self.x + self.width and self.y <= point.y <= self.y + self.height
        )


@dataclass(frozen=True)
class Route:
    """One edge: cubic Bézier points (start, then three per piece) and where its label goes."""

    edge: Edge
    points: tuple[Point, ...]
    label: Point


@dataclass(frozen=True)
class Layout:
    """Everything placed: ``boxes`` of nodes, ``frames`` of clusters, ``routes`` of edges."""

    width: float
    height: float
    boxes: Mapping[str, Box]
    frames: Mapping[str, Box]
    routes: tuple[Route, ...]


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes share any place."""
    across = a.x < b.x + b.width and b.x < a.x + a.width
    return across and a.y < b.y + b.height and b.y < a.y + a.height


def smooth(stops: Sequence[Point]) -> tuple[Point, ...]:
    """A line through stops that leaves and enters each of them vertically."""
    points = [stops[0]]
    for a, b in itertools.pairwise(stops):
        middle = (a.y + b.y) / 2
        points += [Point(a.x, middle), Point(b.x, middle), b]
    return tuple(points)


def label_place(points: Sequence[Point], edge: Edge) -> Point:
    """Beside the middle of the first piece: right of it, a refusal to the left."""
    a, b, c, d = points[:4]
    middle_x, middle_y = (a.x + 3 * b.x + 3 * c.x + d.x) / 8, (a.y + 3 * b.y + 3 * c.y + d.y) / 8
    width, height = label_size(edge)
    if edge.refused:
        return Point(middle_x - width - 4, middle_y - height / 2 + 8)
    return Point(middle_x + 6, middle_y + 3)


def trimmed(boxes: Mapping[str, Box], frames: Mapping[str, Box], routes: Sequence[Route]) -> Layout:
    """Move everything so that the picture begins at its margin."""
    xs = [v for b in (*boxes.values(), *frames.values()) for v in (b.x, b.x + b.width)]
    ys = [v for b in (*boxes.values(), *frames.values()) for v in (b.y, b.y + b.height)]
    xs += [p.x for r in routes for p in r.points]
    for route in routes:
        xs += (
            [route.label.x, route.label.x + label_size(route.edge)[0]]
            if route.edge.label or route.edge.refused
            else []
        )
    dx, dy = MARGIN - min(xs, default=0), MARGIN - min(ys, default=0)
    moved = tuple(
        Route(
            r.edge,
            tuple(Point(p.x + dx, p.y + dy) for p in r.points),
            Point(r.label.x + dx, r.label.y + dy),
        )
        for r in routes
    )
    return Layout(
        max(xs, default=0) + dx + MARGIN,
        max(ys, default=0) + dy + MARGIN,
        {id: box.shifted(dx, dy) for id, box in boxes.items()},
        {id: box.shifted(dx, dy) for id, box in frames.items()},
        moved,
    )

"""A graph after fusion in the places it had before, so that the eye sees only what changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wia_notebook.views.graph_geometry import (
    Box,
    Layout,
    Point,
    Route,
    label_place,
    overlap,
    smooth,
    trimmed,
)
from wia_notebook.views.graph_measure import node_size
from wia_notebook.views.graph_model import Graph, Node


def collapsed(
    layout: Layout, before: Graph, after: Graph, plan: Mapping[str, str]
) -> Layout | None:
    """``after`` in the places that ``before`` has, so that the eye sees only what changed.

    ``plan`` maps each node of ``after`` to a node or frame of ``before``; ``None`` where one
    has no counterpart (then ``after`` is laid out on its own).
    """
    boxes: dict[str, Box] = {}
    for node in after.nodes:
        place = plan.get(node.id, "")
        box = layout.frames.get(place) or layout.boxes.get(place)
        if box is None:
            return None
        boxes[node.id] = _group_box(node, box) if node.kind == "group" else box
    placed = list(boxes.values())
    if any(overlap(a, b) for index, a in enumerate(placed) for b in placed[:index]):
        return None
    home = {member: cluster.id for cluster in before.clusters for member in cluster.members}
    by_pair: dict[tuple[str, str], Route] = {}
    for route in layout.routes:
        source, target = (home.get(id, id) for id in (route.edge.source, route.edge.target))
        by_pair.setdefault((source, target), route)
    routes: list[Route] = []
    for edge in after.edges:
        old = by_pair.get((plan[edge.source], plan[edge.target]))
        if old is None:
            return None
        others = [box for id, box in boxes.items() if id not in (edge.source, edge.target)]
        points = _clipped(old.points, boxes[edge.source], boxes[edge.target], others)
        routes.append(Route(edge, points, label_place(points, edge)))
    return trimmed(boxes, {}, routes)


def _group_box(node: Node, frame: Box) -> Box:
    """A group's own size, in the middle of the frame it comes from."""
    width, height = node_size(node)
    middle = frame.centre
    return Box(middle.x - width / 2, middle.y - height / 2, width, height)


def _clipped(
    points: Sequence[Point], start: Box, end: Box, others: Sequence[Box]
) -> tuple[Point, ...]:
    """A line from the edge of one box to another's: straight on, or where the old one went."""
    tail = Point(_near(points[0].x, start), start.y + start.height)
    if end.y < tail.y + 8:
        to_right = points[-2].x >= end.centre.x
        side, y = end.x + end.width if to_right else end.x, end.centre.y
        return (tail, Point(tail.x, y), Point(side + (24 if to_right else -24), y), Point(side, y))
    entry = points[-1].x if end.x < points[-1].x < end.x + end.width else end.centre.x
    head = Point(_near(entry, end), end.y)
    direct = smooth([tail, head])
    if not any(other.holds(point) for point in _sampled(direct) for other in others):
        return direct
    return smooth([tail, *(p for p in points[3:-1:3] if tail.y < p.y < end.y), head])


def _sampled(points: Sequence[Point]) -> list[Point]:
    """Points along one cubic piece."""
    a, b, c, d = points[:4]
    found: list[Point] = []
    for step in range(1, 16):
        t, s = step / 16, 1 - step / 16
        weights = s * s * s, 3 * s * s * t, 3 * s * t * t, t * t * t
        found.append(
            Point(
                sum(w * p.x for w, p in zip(weights, (a, b, c, d), strict=True)),
                sum(w * p.y for w, p in zip(weights, (a, b, c, d), strict=True)),
            )
        )
    return found


def _near(x: float, box: Box) -> float:
    return min(max(x, box.x + 0.18 * box.width), box.x + 0.82 * box.width)

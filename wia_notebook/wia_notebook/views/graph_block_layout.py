"""Where the frames of blocks go, and the lines of control between them.

Each frame is laid out as a graph of its own; frames stand in layers in the order control goes.
What leads back to an earlier frame runs up the right side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wia_notebook.views.graph_geometry import (
    Box,
    Layout,
    Point,
    Route,
    label_place,
    smooth,
    trimmed,
)
from wia_notebook.views.graph_layers import Placed, place
from wia_notebook.views.graph_layout import node_route, unique
from wia_notebook.views.graph_measure import label_size, node_size, text_width
from wia_notebook.views.graph_model import Cluster, Edge, Graph

TOP, SIDE, BOTTOM = 24.0, 16.0, 14.0
BULGE = 34.0
"""How far beside the frames a line that leads back runs."""


def block_layout(graph: Graph) -> Layout:
    """Place a graph of blocks."""
    inner = {cluster.id: _inside(graph, cluster) for cluster in graph.clusters}
    sizes = {c.id: _frame_size(c, inner[c.id]) for c in graph.clusters}
    home = {member: cluster.id for cluster in graph.clusters for member in cluster.members}
    branches = [edge for edge in graph.edges if edge.branch]
    order = {cluster.id: number for number, cluster in enumerate(graph.clusters)}
    ends = {edge: (home.get(edge.source, edge.source), edge.target) for edge in branches}
    onward = [pair for pair in ends.values() if order[pair[0]] < order[pair[1]]]
    outer = place(list(sizes), sizes, unique(onward))
    frames = outer.boxes
    boxes: dict[str, Box] = {}
    for id, placed in inner.items():
        frame = frames[id]
        left = frame.x + (frame.width - placed.width) / 2
        for member, box in placed.boxes.items():
            boxes[member] = box.shifted(left, frame.y + TOP)
    routes = [
        _inner_route(edge, boxes, inner, home, frames) for edge in graph.edges if not edge.branch
    ]
    routes += _branch_routes(branches, ends, boxes, frames, outer)
    return trimmed(boxes, frames, routes)


def _inside(graph: Graph, cluster: Cluster) -> Placed:
    members = set(cluster.members)
    nodes = {node.id: node for node in graph.nodes if node.id in members}
    pairs = unique(
        (e.source, e.target)
        for e in graph.edges
        if not e.branch and e.source in members and e.target in members
    )
    return place(list(nodes), {id: node_size(node) for id, node in nodes.items()}, pairs)


def _frame_size(cluster: Cluster, placed: Placed) -> tuple[float, float]:
    label = text_width(cluster.label, 10, bold=True) + 36
    height = placed.height + TOP + BOTTOM if placed.boxes else 30.0
    return max(placed.width + 2 * SIDE, label, 90.0), height


def _inner_route(
    edge: Edge,
    boxes: Mapping[str, Box],
    inner: Mapping[str, Placed],
    home: Mapping[str, str],
    frames: Mapping[str, Box],
) -> Route:
    id = home[edge.source]
    placed, frame = inner[id], frames[id]
    dx, dy = frame.x + (frame.width - placed.width) / 2, frame.y + TOP
    via = [Point(p.x + dx, p.y + dy) for p in placed.via.get((edge.source, edge.target), [])]
    start, end = boxes[edge.source], boxes[edge.target]
    route = node_route(edge, start, via, end)
    if not edge.refused:
        return route
    # A reason stands left of both boxes: between them there is room for less than its lines.
    left = min(start.x, end.x) - label_size(edge)[0] - 4
    return Route(edge, route.points, Point(min(left, route.label.x), route.label.y))


def _branch_routes(
    branches: Sequence[Edge],
    ends: Mapping[Edge, tuple[str, str]],
    boxes: Mapping[str, Box],
    frames: Mapping[str, Box],
    outer: Placed,
) -> list[Route]:
    entering: dict[str, int] = {}
    right = max(box.x + box.width for box in frames.values())
    routes: list[Route] = []
    back = 0
    for edge in branches:
        source, target = ends[edge]
        start = boxes.get(edge.source) or frames[edge.source]
        if frames[source].y < frames[target].y:
            number = entering[target] = entering.get(target, 0) + 1
            arriving = sum(1 for s, t in ends.values() if t == target and frames[s].y < frames[t].y)
            via = outer.via.get((source, target), [])
            routes.append(_onward(edge, start, via, frames[target], number / (arriving + 1)))
        else:
            floor = _floor(source, frames, outer) + 8 + 4 * back
            routes.append(_back(edge, start, floor, frames[target], right + BULGE * (back + 1)))
            back += 1
    return routes


def _floor(frame: str, frames: Mapping[str, Box], outer: Placed) -> float:
    """Where the frames of one layer end."""
    layer = (box for id, box in frames.items() if outer.rank[id] == outer.rank[frame])
    return max(box.y + box.height for box in layer)


def _onward(edge: Edge, start: Box, via: Sequence[Point], end: Box, share: float) -> Route:
    head = Point(end.x + end.width * share, end.y)
    towards = via[0].x if via else head.x
    reach = max(-0.35, min(0.35, (towards - start.centre.x) / max(start.width, 1)))
    if edge.label:
        reach = -0.3 if edge.label == "true" else 0.3
    tail = Point(start.centre.x + reach * start.width, start.y + start.height)
    points = smooth([tail, *via, head])
    return Route(edge, points, label_place(points, edge))


def _back(edge: Edge, start: Box, floor: float, end: Box, x: float) -> Route:
    """Down below the frames of its layer, up beside all frames, into the side of an earlier one."""
    tail = Point(start.centre.x, start.y + start.height)
    head = Point(end.x + end.width, end.y + min(end.height / 2, 14))
    low, high = Point(x, floor), Point(x, head.y)
    middle = Point(x, (floor + head.y) / 2)
    turn = Point((tail.x + x) / 2, floor)
    points = (tail, Point(tail.x, floor), turn, turn, low, low, middle, high, high, head)
    return Route(edge, points, Point(tail.x + 6, floor - 4))

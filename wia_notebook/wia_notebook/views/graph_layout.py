"""Where the boxes and lines of a graph go: the built-in layered layout, used with no Graphviz.

Frames are laid out first, each as a graph of its own, and then stand as one box in the outer
graph; so a frame never overlaps what is not in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
from wia_notebook.views.graph_measure import node_size
from wia_notebook.views.graph_model import Cluster, Edge, Graph

FRAME_TOP, FRAME_SIDE = 20.0, 16.0


def layered_layout(graph: Graph) -> Layout:
    """Place a graph in layers, in the order data flows."""
    home = {member: cluster.id for cluster in graph.clusters for member in cluster.members}
    inner = {c.id: _place_cluster(graph, c) for c in graph.clusters}
    outer_ids = list(dict.fromkeys(home.get(node.id, node.id) for node in graph.nodes))
    sizes = {node.id: node_size(node) for node in graph.nodes if node.id not in home}
    for id, placed in inner.items():
        sizes[id] = (placed.width + 2 * FRAME_SIDE, placed.height + 2 * FRAME_TOP)
    pairs = unique(
        (home.get(e.source, e.source), home.get(e.target, e.target)) for e in graph.edges
    )
    outer = place(outer_ids, sizes, pairs)
    boxes: dict[str, Box] = {}
    for id, box in outer.boxes.items():
        if id not in inner:
            boxes[id] = box
            continue
        for member, member_box in inner[id].boxes.items():
            boxes[member] = member_box.shifted(box.x + FRAME_SIDE, box.y + FRAME_TOP)
    frames = {id: outer.boxes[id] for id in inner}
    routes = tuple(_route(edge, boxes, frames, home, outer, inner) for edge in graph.edges)
    return trimmed(boxes, frames, routes)


def _place_cluster(graph: Graph, cluster: Cluster) -> Placed:
    members = set(cluster.members)
    nodes = {node.id: node for node in graph.nodes if node.id in members}
    pairs = unique(
        (e.source, e.target) for e in graph.edges if e.source in members and e.target in members
    )
    return place(list(nodes), {id: node_size(node) for id, node in nodes.items()}, pairs)


def _route(
    edge: Edge,
    boxes: Mapping[str, Box],
    frames: Mapping[str, Box],
    home: Mapping[str, str],
    outer: Placed,
    inner: Mapping[str, Placed],
) -> Route:
    start, end = boxes[edge.source], boxes[edge.target]
    source_home, target_home = home.get(edge.source), home.get(edge.target)
    if source_home is not None and source_home == target_home:
        frame = frames[source_home]
        between = inner[source_home].via.get((edge.source, edge.target), [])
        via = [Point(p.x + frame.x + FRAME_SIDE, p.y + frame.y + FRAME_TOP) for p in between]
    else:
        pair = (source_home or edge.source, target_home or edge.target)
        via = list(outer.via.get(pair, []))
    towards = via[0] if via else end.centre
    tail = Point(start.centre.x + _lean(start, towards) * start.width, start.y + start.height)
    first = inner[target_home].rank[edge.target] == 0 if target_home is not None else True
    if target_home is not None and target_home != source_home and not first:
        return Route(edge, *_side_entry(edge, tail, via, end, frames[target_home]))
    return node_route(edge, start, via, end)


def node_route(edge: Edge, start: Box, via: Sequence[Point], end: Box) -> Route:
    """A line from a box down to another, through the points that keep it clear of those between."""
    towards = via[0] if via else end.centre
    tail = Point(start.centre.x + _lean(start, towards) * start.width, start.y + start.height)
    came_from = via[-1] if via else tail
    points = smooth([tail, *via, Point(end.centre.x + _lean(end, came_from) * end.width, end.y)])
    return Route(edge, points, label_place(points, edge))


def _lean(box: Box, other: Point) -> float:
    """How far from a box's middle, in widths, a line to ``other`` touches it."""
    return max(-0.32, min(0.32, (other.x - box.centre.x) / max(box.width, 1) * 0.5))


def _side_entry(
    edge: Edge, tail: Point, via: Sequence[Point], end: Box, frame: Box
) -> tuple[tuple[Point, ...], Point]:
    """A line from outside to an op in the middle of a frame comes in from the side."""
    last = via[-1] if via else tail
    to_right = last.x >= end.centre.x
    x = end.x + end.width if to_right else end.x
    turn = frame.x + frame.width + 10 if to_right else frame.x - 10
    corner = Point(max(last.x, turn) if to_right else min(last.x, turn), max(frame.y, last.y + 8))
    target = Point(x, end.centre.y)
    points = [*smooth([tail, *via, corner])]
    points += [Point(corner.x, (corner.y + target.y) / 2 + 20), Point(turn, target.y), target]
    return tuple(points), label_place(points, edge)


def unique(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pairs, each once, without those that lead from a node to itself."""
    return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]

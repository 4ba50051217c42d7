"""Where the boxes and lines of a graph go: the built-in layered layout, used with no Graphviz.

Frames are laid out first, each as a graph of its own, and then stand as one box in the outer
graph; so a frame never overlaps what is not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wia_notebook.views.graph import Cluster, Edge, Graph, Node
from wia_notebook.views.graph_measure import label_size, node_size

GAP_X, GAP_Y, MARGIN = 28.0, 26.0, 14.0
FRAME_TOP, FRAME_SIDE = 20.0, 16.0


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


@dataclass
class _Placed:
    width: float
    height: float
    boxes: dict[str, Box]
    rank: dict[str, int]
    via: dict[tuple[str, str], list[Point]] = field(
        default_factory=dict[tuple[str, str], "list[Point]"]
    )


def layered_layout(graph: Graph) -> Layout:
    """Place a graph in layers, in the order data flows."""
    home = {member: cluster.id for cluster in graph.clusters for member in cluster.members}
    inner = {c.id: _place_cluster(graph, c) for c in graph.clusters}
    outer_ids = list(dict.fromkeys(home.get(node.id, node.id) for node in graph.nodes))
    sizes = {node.id: node_size(node) for node in graph.nodes if node.id not in home}
    for id, placed in inner.items():
        sizes[id] = (placed.width + 2 * FRAME_SIDE, placed.height + 2 * FRAME_TOP)
    pairs = _unique(
        (home.get(e.source, e.source), home.get(e.target, e.target)) for e in graph.edges
    )
    outer = _place(outer_ids, sizes, pairs)
    boxes: dict[str, Box] = {}
    for id, box in outer.boxes.items():
        if id not in inner:
            boxes[id] = box
            continue
        for member, member_box in inner[id].boxes.items():
            boxes[member] = member_box.shifted(box.x + FRAME_SIDE, box.y + FRAME_TOP)
    frames = {id: outer.boxes[id] for id in inner}
    routes = tuple(_route(edge, boxes, frames, home, outer, inner) for edge in graph.edges)
    return _trimmed(boxes, frames, routes)


def _place_cluster(graph: Graph, cluster: Cluster) -> _Placed:
    members = set(cluster.members)
    nodes = {node.id: node for node in graph.nodes if node.id in members}
    pairs = _unique(
        (e.source, e.target) for e in graph.edges if e.source in members and e.target in members
    )
    return _place(list(nodes), {id: node_size(node) for id, node in nodes.items()}, pairs)


def _place(
    ids: Sequence[str], sizes: Mapping[str, tuple[float, float]], pairs: Sequence[tuple[str, str]]
) -> _Placed:
    """Longest-path ranks, virtual nodes on long edges, barycentre order, centred columns."""
    rank = _ranks(ids, pairs)
    rows: list[list[str]] = [[] for _ in range(max(rank.values(), default=0) + 1)]
    for id in ids:
        rows[rank[id]].append(id)
    widths = {id: sizes[id][0] for id in ids}
    up: dict[str, list[str]] = {id: [] for id in ids}
    down: dict[str, list[str]] = {id: [] for id in ids}
    chains: dict[tuple[str, str], list[str]] = {}
    for source, target in pairs:
        chain = [source]
        for level in range(rank[source] + 1, rank[target]):
            virtual = f"\0{source}\0{target}\0{level}"
            widths[virtual], up[virtual], down[virtual] = 12.0, [], []
            rows[level].append(virtual)
            chain.append(virtual)
        chain.append(target)
        for a, b in zip(chain, chain[1:], strict=False):
            down[a].append(b)
            up[b].append(a)
        chains[source, target] = chain[1:-1]
    _order(rows, up, down)
    x = _columns(rows, widths, up, down)
    tops, height = _tops(rows, sizes)
    boxes: dict[str, Box] = {}
    via: dict[tuple[str, str], list[Point]] = {}
    for level, row in enumerate(rows):
        tall = max((sizes[id][1] for id in row if id in sizes), default=0)
        for id in row:
            if id in sizes:
                w, h = sizes[id]
                boxes[id] = Box(x[id] - w / 2, tops[level] + (tall - h) / 2, w, h)
    for pair, chain in chains.items():
        levels = range(rank[pair[0]] + 1, rank[pair[1]])
        middle = [tops[level] + _tallest(rows[level], sizes) / 2 for level in levels]
        via[pair] = [Point(x[virtual], y) for virtual, y in zip(chain, middle, strict=True)]
    right = max((box.x + box.width for box in boxes.values()), default=0)
    left = min((box.x for box in boxes.values()), default=0)
    shifted = {id: box.shifted(-left, 0) for id, box in boxes.items()}
    moved = {pair: [Point(p.x - left, p.y) for p in points] for pair, points in via.items()}
    return _Placed(right - left, height, shifted, rank, moved)


def _ranks(ids: Sequence[str], pairs: Sequence[tuple[str, str]]) -> dict[str, int]:
    rank = {id: 0 for id in ids}
    outs: dict[str, list[str]] = {id: [] for id in ids}
    waiting = {id: 0 for id in ids}
    for source, target in pairs:
        outs[source].append(target)
        waiting[target] += 1
    ready = [id for id in ids if not waiting[id]]
    for id in ready:
        for target in outs[id]:
            rank[target] = max(rank[target], rank[id] + 1)
            waiting[target] -= 1
            if not waiting[target]:
                ready.append(target)
    for id in reversed(ready):  # a source stands right above its first reader
        if outs[id] and not any(target == id for _, target in pairs):
            rank[id] = min(rank[target] for target in outs[id]) - 1
    return rank


def _order(
    rows: list[list[str]], up: Mapping[str, list[str]], down: Mapping[str, list[str]]
) -> None:
    for sweep in range(8):
        downward = sweep % 2 == 0
        neighbours = up if downward else down
        levels = range(1, len(rows)) if downward else range(len(rows) - 2, -1, -1)
        for level in levels:
            fixed = rows[level - 1 if downward else level + 1]
            place = {id: index for index, id in enumerate(fixed)}
            own = {id: index for index, id in enumerate(rows[level])}

            def weight(id: str, place: dict[str, int] = place, own: dict[str, int] = own) -> float:
                near = [place[n] for n in neighbours[id] if n in place]
                return sum(near) / len(near) if near else own[id]

            rows[level].sort(key=weight)


def _columns(
    rows: list[list[str]],
    widths: Mapping[str, float],
    up: Mapping[str, list[str]],
    down: Mapping[str, list[str]],
) -> dict[str, float]:
    """The x of every node's middle: pulled to its neighbours, kept apart from its row."""
    x: dict[str, float] = {}
    for row in rows:
        cursor = 0.0
        for id in row:
            x[id] = cursor + widths[id] / 2
            cursor += widths[id] + GAP_X
        for id in row:
            x[id] -= (cursor - GAP_X) / 2
    for sweep in range(12):
        levels = rows if sweep % 2 == 0 else rows[::-1]
        for row in levels:
            wish: dict[str, float] = {}
            for id in row:
                near = (up if sweep % 2 == 0 else down)[id] or (down if sweep % 2 == 0 else up)[id]
                wish[id] = sum(x[n] for n in near) / len(near) if near else x[id]
            _spread(row, widths, wish, x)
    return x


def _spread(
    row: Sequence[str], widths: Mapping[str, float], wish: Mapping[str, float], x: dict[str, float]
) -> None:
    """Least movement from ``wish`` that keeps a row's order and gaps (pool adjacent blocks)."""
    blocks: list[tuple[float, int, list[str]]] = []
    offset: dict[str, float] = {}
    cursor = 0.0
    for index, id in enumerate(row):
        if index:
            cursor += (widths[row[index - 1]] + widths[id]) / 2 + GAP_X
        offset[id] = cursor
        blocks.append((wish[id] - cursor, 1, [id]))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n, ids), (b, m, more) = blocks[-2], blocks[-1]
            blocks[-2:] = [((a * n + b * m) / (n + m), n + m, ids + more)]
    for base, _, ids in blocks:
        for id in ids:
            x[id] = base + offset[id]


def _tallest(row: Sequence[str], sizes: Mapping[str, tuple[float, float]]) -> float:
    return max((sizes[id][1] for id in row if id in sizes), default=0)


def _tops(
    rows: Sequence[Sequence[str]], sizes: Mapping[str, tuple[float, float]]
) -> tuple[list[float], float]:
    tops: list[float] = []
    cursor = 0.0
    for row in rows:
        tops.append(cursor)
        cursor += _tallest(row, sizes) + GAP_Y
    return tops, max(0.0, cursor - GAP_Y)


def _route(
    edge: Edge,
    boxes: Mapping[str, Box],
    frames: Mapping[str, Box],
    home: Mapping[str, str],
    outer: _Placed,
    inner: Mapping[str, _Placed],
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
    came_from = via[-1] if via else tail
    points = _smooth([tail, *via, Point(end.centre.x + _lean(end, came_from) * end.width, end.y)])
    return Route(edge, points, _label_place(points, edge))


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
    points = [*_smooth([tail, *via, corner])]
    points += [Point(corner.x, (corner.y + target.y) / 2 + 20), Point(turn, target.y), target]
    return tuple(points), _label_place(points, edge)


def _smooth(stops: Sequence[Point]) -> tuple[Point, ...]:
    points = [stops[0]]
    for a, b in zip(stops, stops[1:], strict=False):
        middle = (a.y + b.y) / 2
        points += [Point(a.x, middle), Point(b.x, middle), b]
    return tuple(points)


def _label_place(points: Sequence[Point], edge: Edge) -> Point:
    """Beside the middle of the first piece: right of it, a refusal to the left."""
    a, b, c, d = points[:4]
    middle_x, middle_y = (a.x + 3 * b.x + 3 * c.x + d.x) / 8, (a.y + 3 * b.y + 3 * c.y + d.y) / 8
    width, height = label_size(edge)
    if edge.refused:
        return Point(middle_x - width - 4, middle_y - height / 2 + 8)
    return Point(middle_x + 6, middle_y + 3)


def _trimmed(
    boxes: Mapping[str, Box], frames: Mapping[str, Box], routes: Sequence[Route]
) -> Layout:
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


def _unique(pairs: object) -> list[tuple[str, str]]:
    return [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]  # type: ignore[call-overload]


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
    if any(_overlap(a, b) for index, a in enumerate(placed) for b in placed[:index]):
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
        routes.append(Route(edge, points, _label_place(points, edge)))
    return _trimmed(boxes, {}, routes)


def _overlap(a: Box, b: Box) -> bool:
    across = a.x < b.x + b.width and b.x < a.x + a.width
    return across and a.y < b.y + b.height and b.y < a.y + a.height


def _group_box(node: Node, frame: Box) -> Box:
    """A group's own size, in the middle of the frame it comes from."""
    width, height = node_size(node)
    middle = frame.centre
    return Box(middle.x - width / 2, middle.y - height / 2, width, height)


def _clipped(
    points: Sequence[Point], start: Box, end: Box, others: Sequence[Box]
) -> tuple[Point, ...]:
    """A line from the edge of one box to that of another: straight on, or where the old one went."""
    tail = Point(_near(points[0].x, start), start.y + start.height)
    if end.y < tail.y + 8:
        to_right = points[-2].x >= end.centre.x
        side, y = end.x + end.width if to_right else end.x, end.centre.y
        return (tail, Point(tail.x, y), Point(side + (24 if to_right else -24), y), Point(side, y))
    entry = points[-1].x if end.x < points[-1].x < end.x + end.width else end.centre.x
    head = Point(_near(entry, end), end.y)
    direct = _smooth([tail, head])
    if not any(other.holds(point) for point in _sampled(direct) for other in others):
        return direct
    return _smooth([tail, *(p for p in points[3:-1:3] if tail.y < p.y < end.y), head])


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

"""Boxes in layers, in the order data flows: ranks, crossings, columns."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wia_notebook.views.graph_geometry import Box, Point

GAP_X, GAP_Y = 28.0, 26.0
SWEEPS = 8


@dataclass
class Placed:
    """Boxes with the rank of each, and the points that lines over several ranks go through."""

    width: float
    height: float
    boxes: dict[str, Box]
    rank: dict[str, int]
    via: dict[tuple[str, str], list[Point]] = field(
        default_factory=dict[tuple[str, str], "list[Point]"]
    )


def place(
    ids: Sequence[str], sizes: Mapping[str, tuple[float, float]], pairs: Sequence[tuple[str, str]]
) -> Placed:
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
        for a, b in itertools.pairwise(chain):
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
    return Placed(right - left, height, shifted, rank, moved)


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
    for sweep in range(SWEEPS):
        downward = sweep % 2 == 0
        neighbours = up if downward else down
        levels = range(1, len(rows)) if downward else range(len(rows) - 2, -1, -1)
        for level in levels:
            fixed = rows[level - 1 if downward else level + 1]
            place = {id: index for index, id in enumerate(fixed)}
            own = {id: index for index, id in enumerate(rows[level])}

            weights: dict[str, float] = {}
            for id in rows[level]:
                near = [place[n] for n in neighbours[id] if n in place]
                weights[id] = sum(near) / len(near) if near else own[id]
            rows[level].sort(key=weights.__getitem__)


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

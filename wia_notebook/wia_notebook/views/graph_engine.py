"""Graph placement by the first engine that exists; every picture is drawn by ``graph_svg``.

Order: ``$WIA_DOT``, a system ``dot``, ``graphviz-pure``, pygraphviz, the built-in layout. An
engine only says where things go, so the look is the same with each of them.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wia_compiler.base.settings import Settings

from wia_notebook.views.graph_block_layout import block_layout
from wia_notebook.views.graph_geometry import Box, Layout, Point, Route
from wia_notebook.views.graph_layout import layered_layout
from wia_notebook.views.graph_measure import label_size, node_size
from wia_notebook.views.graph_model import Edge, Graph, Node

TIMEOUT_S = 5
MAX_ENGINE_NODES = 60
"""Larger graphs go to the built-in layout: 5 ms for 85 nodes, where Graphviz takes 0.2 s.

So do graphs with several frames, which dot sets side by side with lines running upwards, and those
of kernels that branch, whose lines end at frames.
"""


def find_engine() -> str:
    """What will place graphs: a path of a ``dot`` executable, ``pygraphviz`` or ``builtin``."""
    chosen = Settings.read().dot
    beside = Path(sys.executable).parent
    candidates = (
        chosen,
        shutil.which("dot"),
        shutil.which("graphviz-pure"),
        str(beside / "graphviz-pure"),
        str(beside / "graphviz-pure.exe"),
        str(Path(sys.prefix) / "Scripts" / "graphviz-pure.exe"),
    )
    if chosen == "builtin":
        return chosen
    for candidate in candidates:
        if candidate and Path(candidate).is_file():
            return candidate
    return "pygraphviz" if importlib.util.find_spec("pygraphviz") else "builtin"


def place(graphs: Sequence[Graph], *, engine: str | None = None) -> list[Layout]:
    """A layout for each graph; an engine that fails or is slow gives way to the built-in one."""
    engine = engine or find_engine()
    small = [
        g
        for g in graphs
        if len(g.nodes) <= MAX_ENGINE_NODES and len(g.clusters) <= 1 and not g.has_blocks
    ]
    placed: dict[Graph, Layout] = {}
    if engine != "builtin" and small:
        try:
            found = _run(engine, small)
            placed = {graph: _layout(graph, data) for graph, data in zip(small, found, strict=True)}
        except (
            OSError,
            ValueError,
            KeyError,
            IndexError,
            RuntimeError,
            subprocess.SubprocessError,
        ):
            placed = {}
    return [placed[graph] if graph in placed else _built_in(graph) for graph in graphs]


def _built_in(graph: Graph) -> Layout:
    return block_layout(graph) if graph.has_blocks else layered_layout(graph)


def dot_text(graph: Graph, name: str = "kernel") -> str:
    """The graph as DOT, with the sizes our drawing needs; labels are quoted, nothing is a link."""
    names = {node.id: f"n{index}" for index, node in enumerate(graph.nodes)}
    compound = "compound=true " if graph.has_blocks else ""
    lines = [
        f"digraph {_quoted(name)} {{",
        f"  graph [{compound}rankdir=TB nodesep=0.36 ranksep=0.34 pad=0.1];",
        "  node [shape=box fixedsize=true];",
        "  edge [fontsize=10];",
    ]
    home = {member: cluster for cluster in graph.clusters for member in cluster.members}
    for node in graph.nodes:
        if node.id not in home:
            lines.append(f"  {_node(names[node.id], node)}")
    for index, cluster in enumerate(graph.clusters):
        lines.append(f"  subgraph cluster_{index} {{")
        lines.append(f"    label={_quoted(cluster.label)}; labeljust=l; margin=14; fontsize=10;")
        lines += [f"    {_node(names[n.id], n)}" for n in graph.nodes if home.get(n.id) is cluster]
        if not cluster.members:
            lines.append(f'    empty_{index} [label="" style=invis width=0.1 height=0.1];')
        lines.append("  }")
    lines += [_edge(edge, graph, names) for edge in graph.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _node(name: str, node: Node) -> str:
    width, height = node_size(node)
    return f"{name} [label={_quoted(node.title)} width={width / 72:.3f} height={height / 72:.3f}];"


def _edge(edge: Edge, graph: Graph, names: Mapping[str, str]) -> str:
    """An edge; where one end is a frame, it goes by a node inside and is cut at the frame."""
    settings = [f"label={_room(edge)}"] if edge.refused or edge.label else []
    ends: list[str] = []
    for word, id, place in (("ltail", edge.source, -1), ("lhead", edge.target, 0)):
        if id in names:
            ends.append(names[id])
            continue
        number = next(n for n, cluster in enumerate(graph.clusters) if cluster.id == id)
        members = graph.clusters[number].members
        ends.append(names[members[place]] if members else f"empty_{number}")
        settings.append(f"{word}=cluster_{number}")
    listed = f" [{' '.join(settings)}]" if settings else ""
    return f"  {ends[0]} -> {ends[1]}{listed};"


def _room(edge: Edge) -> str:
    """An empty label of exactly the size that our drawing puts there."""
    width, height = label_size(edge)
    size = f'FIXEDSIZE="TRUE" WIDTH="{width:.0f}" HEIGHT="{height:.0f}"'
    return f'<<TABLE BORDER="0" {size}><TR><TD></TD></TR></TABLE>>'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def _run(engine: str, graphs: Sequence[Graph]) -> list[dict[str, Any]]:
    if engine == "pygraphviz":
        return [_pygraphviz(dot_text(graph)) for graph in graphs]
    done = subprocess.run(
        [engine, "-Kdot", "-Tjson0"],
        input="".join(map(dot_text, graphs)).encode(),
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    text = done.stdout.decode()
    decoder, found, position = json.JSONDecoder(), list[dict[str, Any]](), 0
    while len(found) < len(graphs):
        data, position = decoder.raw_decode(text, text.index("{", position))
        found.append(data)
    return found


def _pygraphviz(text: str) -> dict[str, Any]:
    import pygraphviz  # pyright: ignore[reportMissingImports]

    drawn = pygraphviz.AGraph(string=text).draw(format="json0", prog="dot")
    return json.loads(drawn)


def _layout(graph: Graph, data: Mapping[str, Any]) -> Layout:
    """What Graphviz answered, in our pixels: y downwards, ids instead of names."""
    _, _, width, top = (float(part) for part in data["bb"].split(","))
    margin = 12.0

    def point(text: str) -> Point:
        x, y = text.split(",")[:2]
        return Point(float(x) + margin, top - float(y) + margin)

    objects = list(data["objects"])
    ids = {f"n{index}": node.id for index, node in enumerate(graph.nodes)}
    boxes: dict[str, Box] = {}
    frames: dict[str, Box] = {}
    node_of: dict[int, str] = {}
    for item in objects:
        if item["name"] in ids:
            w, h = float(item["width"]) * 72, float(item["height"]) * 72
            centre = point(item["pos"])
            node_of[item["_gvid"]] = ids[item["name"]]
            boxes[ids[item["name"]]] = Box(centre.x - w / 2, centre.y - h / 2, w, h)
        elif item["name"].startswith("cluster_"):
            x0, y0, x1, y1 = (float(part) for part in item["bb"].split(","))
            cluster = graph.clusters[int(item["name"].removeprefix("cluster_"))]
            frames[cluster.id] = Box(x0 + margin, top - y1 + margin, x1 - x0, y1 - y0)
    edges = {(edge.source, edge.target): edge for edge in graph.edges}
    routes: list[Route] = []
    for item in data.get("edges", []):
        edge = edges[node_of[item["tail"]], node_of[item["head"]]]
        routes.append(_route(edge, item, point))
    return Layout(width + 2 * margin, top + 2 * margin, boxes, frames, tuple(routes))


def _route(edge: Edge, item: Mapping[str, Any], point: Any) -> Route:
    parts = item["pos"].split()
    tip = next((point(part[2:]) for part in parts if part.startswith("e,")), None)
    points = [point(part) for part in parts if not part.startswith(("e,", "s,"))]
    if tip is not None:  # the spline stops where Graphviz would put its arrow: go on to the tip
        last = points[-1]
        middle = Point((last.x + tip.x) / 2, (last.y + tip.y) / 2)
        points += [middle, middle, tip]
    if "lp" in item:
        middle = point(item["lp"])
        width, height = label_size(edge)
        label = Point(middle.x - width / 2 + 3, middle.y - height / 2 + 10)
    else:
        label = points[len(points) // 2]
    return Route(edge, tuple(points), label)

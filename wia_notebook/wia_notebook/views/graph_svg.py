"""A placed graph as SVG: colours by class, so that one drawing serves both themes."""

from __future__ import annotations

from html import escape

from wia_notebook import theme
from wia_notebook.views.graph_geometry import Box, Layout, Route
from wia_notebook.views.graph_measure import (
    CHIP_GAP,
    CHIP_HEIGHT,
    chip_rows,
    chip_width,
    hidden_chips,
    label_lines,
)
from wia_notebook.views.graph_model import Cluster, Graph, Node, op_id

_FAMILY_CSS = "".join(
    f".f-{f}{{--ink:var(--wia-{f});--ground:var(--wia-{f}-bg)}}" for f in theme.FAMILIES
)
CSS = (
    f".wia-graph text{{font-family:{theme.SANS};fill:var(--wia-dim);font-size:10px}}"
    ".wia-graph .box{fill:var(--ground);stroke:var(--ink);stroke-width:1.3}"
    ".wia-graph .group>.box{stroke-width:2}"
    ".wia-graph .title{fill:var(--ink);font-size:12.5px;font-weight:600}"
    ".wia-graph .chip text{fill:var(--ink);font-size:10.5px}"
    ".wia-graph .end .box{stroke:var(--wia-line)}"
    ".wia-graph .end .title{font-size:11px;font-weight:400}"
    ".wia-graph .constant .box{stroke:var(--wia-line)}"
    ".wia-graph .constant .title{font-size:10.5px;font-weight:400}"
    ".wia-graph .end.out .box{stroke:var(--wia-dim)}"
    ".wia-graph .note{fill:var(--wia-good)}"
    ".wia-graph .edge path{fill:none;stroke:var(--wia-edge);stroke-width:1.3}"
    ".wia-graph .edge .head{fill:var(--wia-edge);stroke:none}"
    ".wia-graph .edge text,.wia-graph .legend{paint-order:stroke;stroke:var(--wia-bg);"
    "stroke-width:3px;stroke-linejoin:round}"
    ".wia-graph .edge text{font-size:9.5px}"
    ".wia-graph .refused path{stroke:var(--wia-bad);stroke-width:1.6;stroke-dasharray:3 3}"
    ".wia-graph .refused .head{fill:var(--wia-bad)}"
    ".wia-graph .refused .why{fill:var(--wia-bad);font-size:10px}"
    ".wia-graph .frame rect{fill:var(--wia-fusion-bg);stroke:var(--wia-fusion);stroke-width:1.2}"
    ".wia-graph .planned rect{stroke-dasharray:5 4}"
    ".wia-graph .block rect{fill:var(--wia-panel);stroke:var(--wia-line);stroke-width:1.2}"
    ".wia-graph .branch path{stroke:var(--wia-loop);stroke-width:1.8}"
    ".wia-graph .branch .head{fill:var(--wia-loop)}"
    ".wia-graph .branch text{fill:var(--wia-loop);font-size:10.5px;font-weight:600}"
    ".wia-graph .legend{fill:var(--wia-fusion);stroke-width:5px}"
    ".wia-graph .legend.name{fill:var(--wia-loop);font-weight:600;stroke:none}"
    f"{_FAMILY_CSS}"
)


def draw(graph: Graph, layout: Layout, *, title: str) -> str:
    """The picture: each op is ``<g class="node" data-op="ID">``; ``title`` is its spoken name."""
    parts = [_frame(c, layout.frames[c.id]) for c in graph.clusters]
    parts += [_edge(route) for route in layout.routes]
    parts += [_frame_label(c, layout.frames[c.id]) for c in graph.clusters]
    parts += [_node(node, layout.boxes[node.id]) for node in graph.nodes]
    width, height = round(layout.width), round(layout.height)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="wia-graph" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img"><title>{escape(title)}</title>'
        f"<desc>{escape(description(graph))}</desc>{''.join(parts)}</svg>"
    )


def standalone(svg: str) -> str:
    """The same picture with its colours inside, for a file or an ``<img>``."""
    start = svg.index(">") + 1
    ground = '<rect width="100%" height="100%" fill="var(--wia-bg)"/>'
    return f"{svg[:start]}<style>{theme.picture_css()}{CSS}</style>{ground}{svg[start:]}"


def description(graph: Graph) -> str:
    """The graph in words, for those who do not see it."""
    titles = {node.id: node.title for node in graph.nodes}
    titles |= {cluster.id: cluster.label for cluster in graph.clusters}
    reads: dict[str, list[str]] = {}
    for edge in graph.edges:
        if not edge.branch:
            reads.setdefault(edge.target, []).append(titles[edge.source])
    lines: list[str] = []
    for node in graph.nodes:
        if node.kind == "argument":
            continue
        inside = f" holding {', '.join(chip.label for chip in node.chips)}" if node.chips else ""
        lines.append(f"{node.title}{inside} reads {', '.join(reads.get(node.id, [])) or 'nothing'}")
    refusals = [
        f"{titles[e.source]} into {titles[e.target]} refused: {e.refused}"
        for e in graph.edges
        if e.refused
    ]
    home = {member: each.label for each in graph.clusters for member in each.members}
    ways = [
        f"{home.get(e.source, titles[e.source])} goes to {titles[e.target]}"
        + (f" where its condition is {e.label}" if e.label else "")
        for e in graph.edges
        if e.branch
    ]
    return "; ".join((*lines, *refusals, *ways))


def _frame(cluster: Cluster, box: Box) -> str:
    kind = "frame" + " planned" * cluster.planned + " block" * cluster.block
    is_op = not cluster.planned and not cluster.block
    op = f' data-op="{escape(cluster.id, quote=True)}"' if is_op else ""
    return f'<g class="{kind}"{op}>{_rect(box, 14)}</g>'


def _frame_label(cluster: Cluster, box: Box) -> str:
    """A frame's name, set into its upper edge."""
    x, y = box.x + 14, box.y + (15.5 if cluster.block else 3.5)
    name = " name" * cluster.block
    return f'<text class="legend{name}" x="{x:.1f}" y="{y:.1f}">{escape(cluster.label)}</text>'


def _edge(route: Route) -> str:
    points = route.points
    path = f"M{points[0].x:.1f} {points[0].y:.1f}C" + " ".join(
        f"{p.x:.1f} {p.y:.1f}" for p in points[1:]
    )
    kind = "edge" + " refused" * bool(route.edge.refused) + " branch" * route.edge.branch
    return f'<g class="{kind}"><path d="{path}"/>{_head(route)}{_label(route)}</g>'


def _label(route: Route) -> str:
    x, y = route.label
    lines = label_lines(route.edge)
    if not lines:
        return ""
    if not route.edge.refused:
        return f'<text x="{x:.1f}" y="{y:.1f}">{escape(lines[0])}</text>'
    spans = "".join(
        f'<tspan x="{x:.1f}" dy="{12 if index else 0}">{escape(line)}</tspan>'
        for index, line in enumerate(lines)
    )
    return (
        f'<text class="why" x="{x:.1f}" y="{y:.1f}"><title>{escape(route.edge.refused)}</title>'
        f"{spans}</text>"
    )


def _head(route: Route) -> str:
    """The arrow's tip, along the end of the line."""
    before, tip = route.points[-2], route.points[-1]
    dx, dy = tip.x - before.x, tip.y - before.y
    length = (dx * dx + dy * dy) ** 0.5 or 1.0
    ux, uy = dx / length, dy / length
    x, y = tip.x - 7 * ux, tip.y - 7 * uy
    corners = [(tip.x, tip.y), (x - 3.5 * uy, y + 3.5 * ux), (x + 3.5 * uy, y - 3.5 * ux)]
    return '<path class="head" d="M' + "L".join(f"{a:.1f} {b:.1f}" for a, b in corners) + 'z"/>'


def _node(node: Node, box: Box) -> str:
    kind = {
        "argument": "end",
        "result": "end out",
        "op": "node",
        "constant": "node constant",
        "group": "node group",
    }[node.kind]
    op = f' data-op="{escape(op_id(node.id), quote=True)}"'
    tooltip = f"<title>{escape(node.tooltip)}</title>" if node.tooltip else ""
    head = f'<g class="{kind} f-{node.family}"{op}>{tooltip}'
    if node.kind == "group":
        return f"{head}{_rect(box, 12, 'box')}{_group(node, box)}</g>"
    centre = box.centre
    radius = 8 if node.kind == "op" else min(11, box.height / 2)
    title_y = box.y + 16 if node.subtitle else centre.y + 4
    texts = _text(centre.x, title_y, node.title, "title")
    if node.subtitle:
        texts += _text(centre.x, box.y + 30, node.subtitle)
    return f"{head}{_rect(box, radius, 'box')}{texts}</g>"


def _group(node: Node, box: Box) -> str:
    middle = box.centre.x
    parts = [_text(middle, box.y + 20, node.title, "title")]
    if node.subtitle:
        parts.append(_text(middle, box.y + 35, node.subtitle))
    y = box.y + 44
    for row in chip_rows(node):
        x = middle - (sum(chip_width(c) + CHIP_GAP for c in row) - CHIP_GAP) / 2
        for chip in row:
            w = chip_width(chip)
            parts.append(
                f'<g class="chip f-{chip.family}" data-op="{escape(chip.id, quote=True)}">'
                f"{_rect(Box(x, y, w, CHIP_HEIGHT), 6, 'box')}"
                f"{_text(x + w / 2, y + 15, chip.label)}</g>"
            )
            x += w + CHIP_GAP
        y += CHIP_HEIGHT + CHIP_GAP
    more = f"and {hidden_chips(node)} more" if hidden_chips(node) else ""
    note = " · ".join(part for part in (more, node.note) if part)
    if note:
        parts.append(_text(middle, y + 9, note, "note"))
    return "".join(parts)


def _rect(box: Box, radius: float, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return (
        f'<rect{name} x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="{radius:g}"/>'
    )


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    name = f' class="{kind}"' if kind else ""
    return f'<text{name} x="{x:.1f}" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'

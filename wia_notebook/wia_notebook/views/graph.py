"""The data-flow graph of one stage, from its table of ops."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping, Sequence

from wia_compiler.base.record import Decision, OpRow, Stage

from wia_notebook.views import units
from wia_notebook.views.graph_model import Chip, Cluster, Edge, Graph, Node, op_id
from wia_notebook.views.graph_shape import CONTAINERS, CONTROL, HIDDEN, Shape

MAX_NODES = 300
"""Above this many ops a picture says less than a table: ``summary_rows`` takes over."""

REPEAT_ABOVE = 12
"""Above this many boxes an argument stands beside each reader, or its lines cross all others."""


def has_data_flow(stage: Stage) -> bool:
    """Whether the stage is a data-flow graph (the high level) rather than loops or a listing."""
    return stage.level == "high" and bool(stage.ops)


def op_rows(stage: Stage) -> list[OpRow]:
    """The rows that stand for work: no functions, declarations, yields, branches or constants."""
    skipped = (*CONTAINERS, *HIDDEN, *CONTROL, "wia.constant")
    return [row for row in stage.ops if row.name not in skipped]


def launches(stage: Stage) -> int:
    """How many kernels the stage would launch, each once: top-level ops and groups that compute.

    Constants, sizes, branches and what declares an array have the family "other".
    """
    return sum(1 for row in Shape(stage).top if row.family != "other")


def graph_of(
    stage: Stage,
    *,
    names: Sequence[str] = (),
    collapse: bool,
    saved: Mapping[str, str] | None = None,
) -> Graph:
    """The graph of a stage.

    ``collapse`` draws a fused group as one box with a chip for each member, else as a frame
    around them. ``names`` are the kernel's outputs in order; ``saved`` maps a group's id to what
    fusing it saved.
    """
    shape = Shape(stage)
    nodes: list[Node] = []
    clusters: list[Cluster] = []
    home: dict[str, str] = {}
    for row in shape.top:
        members = shape.members(row.id)
        if row.name == "func.return":
            continue
        if not members:
            nodes.append(op_node(row))
        elif collapse:
            nodes.append(group_node(row, members, (saved or {}).get(row.id, "")))
            home.update({member.id: row.id for member in shape.inside(row.id)})
        else:
            nodes.extend(op_node(member) for member in members)
            clusters.append(
                Cluster(row.id, _group_title(row), tuple(member.id for member in members))
            )
    edges = _edges(shape, home, names)
    constants = {node.id: node for node in nodes if node.kind == "constant"}
    edges = _repeated(edges, constants, arguments=len(nodes) > REPEAT_ABOVE)
    copies = dict.fromkeys(
        e.source for e in edges if "#" in e.source and op_id(e.source) in constants
    )
    nodes += [dataclasses.replace(constants[op_id(id)], id=id) for id in copies]
    clusters = [_with_constants(cluster, edges, constants) for cluster in clusters]
    used = {edge.source for edge in edges} | {edge.target for edge in edges}
    ends = [
        _end_node(id, stage)
        for id in sorted(used, key=shape.end_order)
        if id.startswith(("arg:", "out:"))
    ]
    arguments = [node for node in ends if node.kind == "argument"]
    results = [node for node in ends if node.kind == "result"]
    known = {node.id for node in (*arguments, *nodes, *results)}
    kept = tuple(edge for edge in edges if edge.source in known and edge.target in known)
    return Graph((*arguments, *nodes, *results), kept, tuple(clusters))


def plan_of(before: Stage, after: Stage, *, names: Sequence[str] = ()) -> Graph:
    """The graph of ``before`` with what the pass ``after`` did: planned groups and refusals."""
    graph = graph_of(before, names=names, collapse=False)
    shape = Shape(after)
    clusters: list[Cluster] = list(graph.clusters)
    constants = {node.id for node in graph.nodes if node.kind == "constant" and "#" not in node.id}
    ids = {node.id for node in graph.nodes} - constants
    framed = {member for cluster in clusters for member in cluster.members}
    for row in shape.top:
        origins = [origin for member in shape.members(row.id) for origin in member.origins]
        members = tuple(dict.fromkeys(id for id in origins if id in ids and id not in framed))
        if len(members) > 1:
            made = Cluster(f"plan:{row.id}", "will become one kernel", members, planned=True)
            clusters.append(_with_constants(made, graph.edges, constants))
    return with_refusals(Graph(graph.nodes, graph.edges, tuple(clusters)), after)


def with_refusals(graph: Graph, after: Stage) -> Graph:
    """The graph with the reasons why ``after`` did not fuse along its edges."""
    refused = {pair: d.reason for d in after.decisions if not d.taken for pair in _pairs(d)}
    edges = [
        dataclasses.replace(e, refused=refused.get((e.source, e.target), "")) for e in graph.edges
    ]
    return dataclasses.replace(graph, edges=tuple(edges))


def savings(before: Stage, after: Stage) -> dict[str, str]:
    """For each group of ``after``: the traffic and launches that fusing it took away.

    A value that nobody outside reads is neither written once nor read by each of its readers.
    """
    shape, sizes = Shape(after), {row.id: row.size_bytes for row in op_rows(before)}
    consumers = _consumers(before)
    saved: dict[str, str] = {}
    for row in shape.top:
        members = {origin for member in shape.members(row.id) for origin in member.origins}
        inner = [
            id for id in members if id in sizes and consumers.get(id) and consumers[id] <= members
        ]
        traffic = sum((1 + len(consumers[id])) * sizes[id] for id in inner)
        launches_saved = len([id for id in members if id in sizes]) - 1
        if launches_saved > 0:
            parts = [f"saves {units.size(traffic)} of traffic"] if traffic else []
            parts.append(units.plural(launches_saved, "launch"))
            saved[row.id] = " · ".join(parts)
    return saved


def summary_rows(stage: Stage) -> list[tuple[str, str, int]]:
    """Of a stage too large to draw: (family, op, count), most frequent first."""
    counts: dict[tuple[str, str], int] = {}
    for row in op_rows(stage):
        key = (row.family, row.label)
        counts[key] = counts.get(key, 0) + 1
    return sorted(((f, label, n) for (f, label), n in counts.items()), key=lambda r: (-r[2], r[1]))


def _edges(shape: Shape, home: Mapping[str, str], names: Sequence[str]) -> list[Edge]:
    edges: dict[tuple[str, str], Edge] = {}

    def add(source: str, target: str, label: str) -> None:
        start, end = home.get(source, source), home.get(target, target)
        if start != end:
            edges.setdefault((start, end), Edge(start, end, label))

    for row in shape.rows.values():
        if row.name in (*CONTAINERS, *HIDDEN):
            continue
        if row.name == "func.return":
            for index, operand in enumerate(row.operands):
                name = names[index] if index < len(names) else f"result{index}"
                # The first result of a kernel with several, then the next: rows do not number them.
                makers, seen = shape.producers(operand), row.operands[:index].count(operand)
                add(makers[seen % len(makers)], f"out:{name}", "")
            continue
        if shape.members(row.id):
            continue
        for maker in (each for operand in row.operands for each in shape.producers(operand)):
            producer = shape.rows.get(maker)
            is_value = producer is not None and producer.size_bytes >= 1024
            label = units.size(producer.size_bytes) if producer is not None and is_value else ""
            add(maker, row.id, label)
    return list(edges.values())


def _repeated(edges: Sequence[Edge], constants: Container[str], *, arguments: bool) -> list[Edge]:
    """The edges with a constant of its own (``7#2``) for each reader; also arguments, if told."""
    seen: dict[str, int] = {}
    made: list[Edge] = []
    for edge in edges:
        source = edge.source
        if source in constants or (arguments and source.startswith("arg:")):
            seen[source] = seen.get(source, 0) + 1
            source = source if seen[source] == 1 else f"{source}#{seen[source]}"
        made.append(Edge(source, edge.target, edge.label, edge.refused))
    return made


def _with_constants(cluster: Cluster, edges: Sequence[Edge], constants: Container[str]) -> Cluster:
    """The frame with the constants that its ops read, and no others."""
    members = [id for id in cluster.members if op_id(id) not in constants]
    read = [e.source for e in edges if op_id(e.source) in constants and e.target in members]
    return dataclasses.replace(cluster, members=tuple(dict.fromkeys((*members, *read))))


def op_node(row: OpRow) -> Node:
    """The box of an op, or the pill of a constant."""
    if row.name == "wia.constant":
        return Node(
            row.id, "constant", row.label, family=row.family, tooltip=f"constant {row.label}"
        )
    parts = [units.sizes_text(row.result_type)]
    if row.flops:
        parts.append(units.scaled(row.flops, "FLOP"))
    subtitle = " · ".join(part for part in parts if part)
    tooltip = f"{row.name} → {units.type_text(row.result_type)}" if row.result_type else row.name
    return Node(row.id, "op", row.label, subtitle, row.family, tooltip=tooltip + _lines(row, ", "))


def group_node(row: OpRow, members: Sequence[OpRow], saved: str) -> Node:
    """The box of a fused group, with a chip for each member."""
    chips = tuple(Chip(member.id, member.label, member.family) for member in members)
    subtitle = _lines(row, "").lstrip() + (
        f" · {units.scaled(row.flops, 'FLOP')}" if row.flops else ""
    )
    return Node(
        row.id, "group", _group_title(row), subtitle.strip(" ·"), "fusion", chips, saved, row.name
    )


def _group_title(row: OpRow) -> str:
    return row.label or "fused"


def _lines(row: OpRow, lead: str) -> str:
    lines = sorted({line for span in row.spans for line in range(span.line, span.end_line + 1)})
    if not lines:
        return ""
    text = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]}–{lines[-1]}"
    return lead + text


def _end_node(id: str, stage: Stage) -> Node:
    kind, _, name = op_id(id).partition(":")
    if kind == "arg":
        return Node(id, "argument", name, family="movement", tooltip=f"parameter {name}")
    return Node(id, "result", name, family="movement", tooltip=f"output {name}")


def _pairs(decision: Decision) -> list[tuple[str, str]]:
    subjects = decision.subjects
    return [(a, b) for index, a in enumerate(subjects) for b in subjects[index + 1 :]]


def _consumers(stage: Stage) -> dict[str, set[str]]:
    consumers: dict[str, set[str]] = {}
    for row in stage.ops:
        for operand in row.operands:
            consumers.setdefault(operand, set()).add(row.id)
    return consumers

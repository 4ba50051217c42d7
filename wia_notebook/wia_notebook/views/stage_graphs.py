"""Which pictures a record has: each stage's graph, and for a fusing pass the plan before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wia_compiler.base.record import Stage, Trace

from wia_notebook.views import graph as graphs
from wia_notebook.views import graph_engine, graph_svg, units
from wia_notebook.views.graph_blocks import block_graph, has_blocks
from wia_notebook.views.graph_collapse import collapsed
from wia_notebook.views.graph_geometry import Layout
from wia_notebook.views.graph_model import Graph


@dataclass(frozen=True)
class Picture:
    """One drawing: SVG (empty where the graph is too large), DOT, what it holds, and a note."""

    svg: str
    dot: str
    counts: str
    note: str = ""


@dataclass(frozen=True)
class StagePictures:
    """The graph of a stage, and of the stage before it with the pass's plan drawn in."""

    graph: Picture
    plan: Picture | None = None


def pictures(
    trace: Trace, outputs: Sequence[str], *, engine: str | None = None
) -> dict[str, StagePictures]:
    """The pictures of every stage that has a data-flow graph, by stage name.

    All graphs of a record are placed in one call of the engine; equal graphs are drawn once.
    """
    jobs: dict[str, tuple[Stage, Graph, Graph | None]] = {}
    previous: Stage | None = None
    for stage in trace.stages:
        if graphs.has_data_flow(stage):
            jobs[stage.name] = (stage, *_graphs(previous, stage, outputs))
            previous = stage
    wanted = [g for _, g, plan in jobs.values() for g in (g, plan) if g is not None]
    small = [g for g in dict.fromkeys(wanted) if _count(g) <= graphs.MAX_NODES]
    layouts = dict(zip(small, graph_engine.place(small, engine=engine), strict=True))
    drawn: dict[str, StagePictures] = {}
    before: Stage | None = None
    for name, (stage, graph, plan) in jobs.items():
        layout = layouts.get(graph)
        if plan is not None and before is not None and plan in layouts and not plan.has_blocks:
            layout = (
                collapsed(layouts[plan], plan, graph, _places(before, stage, graph, plan)) or layout
            )
        picture = _picture(trace, stage, graph, layout)
        drawn[name] = StagePictures(
            picture,
            _picture(trace, before, plan, layouts.get(plan))
            if plan is not None and before is not None
            else None,
        )
        before = stage
    return drawn


def _count(graph: Graph) -> int:
    """The ops and groups of a graph."""
    return sum(1 for node in graph.nodes if node.kind not in ("argument", "result"))


def groups_of(stage: Stage) -> set[str]:
    """Ids of the stage's fused groups."""
    return {row.id for row in stage.ops if row.family == "fusion"}


def _graphs(
    before: Stage | None, stage: Stage, outputs: Sequence[str]
) -> tuple[Graph, Graph | None]:
    if has_blocks(stage):
        return _block_graphs(before, stage, outputs)
    fuses = (
        before is not None
        and stage.changed
        and bool(stage.decisions)
        and bool(groups_of(stage) or any(not d.taken for d in stage.decisions))
    )
    opened = before is not None and bool(groups_of(before)) and not stage.decisions
    if not fuses or before is None:
        return graphs.graph_of(stage, names=outputs, collapse=not opened), None
    saved = graphs.savings(before, stage)
    after = graphs.graph_of(stage, names=outputs, collapse=True, saved=saved)
    return after, graphs.plan_of(before, stage, names=outputs)


def _block_graphs(
    before: Stage | None, stage: Stage, outputs: Sequence[str]
) -> tuple[Graph, Graph | None]:
    if before is None:
        return block_graph(stage, names=outputs), None
    graph = block_graph(stage, names=outputs, saved=graphs.savings(before, stage))
    plan = graphs.with_refusals(block_graph(before, names=outputs), stage)
    refuses = stage.changed and any(edge.refused for edge in plan.edges)
    return graph, plan if refuses else None


def _places(before: Stage, stage: Stage, graph: Graph, plan: Graph) -> Mapping[str, str]:
    """For each node of ``graph`` the node or frame of ``plan`` that it comes from."""
    rows = {row.id: row for row in stage.ops}
    frames = {cluster.id for cluster in plan.clusters}
    places: dict[str, str] = {}
    for node in graph.nodes:
        if node.kind in ("argument", "result"):
            places[node.id] = node.id
        elif f"plan:{node.id}" in frames:
            places[node.id] = f"plan:{node.id}"
        elif node.kind == "op" and len(rows[node.id].origins) == 1:
            places[node.id] = rows[node.id].origins[0]
        elif node.kind == "group":
            origins = {o for row in stage.ops if row.parent == node.id for o in row.origins}
            places[node.id] = origins.pop() if len(origins) == 1 else ""
    return places if len(set(places.values())) == len(places) else {}


def _picture(trace: Trace, stage: Stage, graph: Graph, layout: Layout | None) -> Picture:
    ops, kernels = len(graphs.op_rows(stage)), graphs.launches(stage)
    visible = ops - len(groups_of(stage))
    counts = f"{units.plural(visible, 'op')} · {units.plural(kernels, 'launch')}"
    if layout is None:
        limit = f"more than a picture can show ({graphs.MAX_NODES})"
        note = f"{_count(graph)} ops are {limit}; the table lists them"
        return Picture("", graph_engine.dot_text(graph, trace.kernel), counts, note)
    title = f"data flow of {trace.kernel} at stage {stage.name}"
    svg = graph_svg.draw(graph, layout, title=title)
    return Picture(svg, graph_engine.dot_text(graph, trace.kernel), counts)

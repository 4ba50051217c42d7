"""Pictures of kernels that branch: a frame for each block, lines of control between them."""

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.record import Decision, OpRow, Stage
from wia_notebook.views import graph_svg
from wia_notebook.views.graph import with_refusals
from wia_notebook.views.graph_block_layout import block_layout
from wia_notebook.views.graph_blocks import block_graph, frame_id, has_blocks
from wia_notebook.views.graph_engine import dot_text, place
from wia_notebook.views.graph_geometry import overlap
from wia_notebook.views.graph_measure import label_size
from wia_notebook.views.graph_model import Graph
from wia_notebook.views.nest_html import nest_of
from wia_notebook.views.stage_graphs import pictures


def row(id: str, label: str, *operands: str, block: str, name: str = "", **more) -> OpRow:
    """A row of a stage with blocks."""
    return OpRow(id, name or f"wia.{label}", label, "other", operands, block=block, **more)


ROWS = (
    row("0", "0", block="bb0", name="wia.constant"),
    row("1", "br", "arg:A", "0", block="bb0", name="cf.br", successors=("head",)),
    row("2", "v", "arg:A", "7", block="head", name="block.argument"),
    row("3", "n", "0", "8", block="head", name="block.argument"),
    row("4", "lt", "3", block="head"),
    row("5", "condition", "4", block="head"),
    row("6", "cond_br", "5", block="head", name="cf.cond_br", successors=("body", "end")),
    row("7", "matmul", "arg:A", "2", block="body", names=("w",)),
    row("8", "add", "3", block="body"),
    row("9", "br", "7", "8", block="body", name="cf.br", successors=("head",)),
    row("10", "exp", "7", block="end"),
    row("11", "return", "10", block="end", name="func.return"),
)
STAGE = Stage("dce", "high", "mlir", "", ops=ROWS)


@pytest.fixture(scope="module")
def graph() -> Graph:
    return block_graph(STAGE, names=("C",))


def test_a_frame_holds_what_a_block_reads_computes_and_passes_on(graph: Graph) -> None:
    assert has_blocks(STAGE)
    frames = {cluster.label: cluster.members for cluster in graph.clusters}
    assert list(frames) == ["entry", "^head", "^body", "^end"]
    titles = {
        label: sorted(graph.node(id).title for id in members) for label, members in frames.items()
    }
    assert titles == {
        "entry": sorted(["A", "→ v", "0", "→ n"]),
        "^head": sorted(["v", "n", "lt", "cond_br"]),
        "^body": sorted(["A", "v", "n", "matmul", "add", "→ v", "→ n"]),
        "^end": sorted(["w", "exp", "C"]),  # w is a value of another block, by its name
    }


def test_data_stays_in_its_frame_and_control_leads_from_frame_to_frame(graph: Graph) -> None:
    home = {member: cluster.id for cluster in graph.clusters for member in cluster.members}
    branches = [edge for edge in graph.edges if edge.branch]
    for edge in graph.edges:
        if not edge.branch:
            assert home[edge.source] == home[edge.target]
    assert [(edge.source, edge.target, edge.label) for edge in branches] == [
        (frame_id("bb0"), frame_id("head"), ""),
        ("6", frame_id("body"), "true"),
        ("6", frame_id("end"), "false"),
        (frame_id("body"), frame_id("head"), ""),
    ]
    assert ("4", "6") in {(edge.source, edge.target) for edge in graph.edges}


def test_frames_do_not_overlap_and_hold_their_boxes(graph: Graph) -> None:
    layout = block_layout(graph)
    frames = list(layout.frames.values())
    assert not any(overlap(a, b) for n, a in enumerate(frames) for b in frames[:n])
    for cluster in graph.clusters:
        frame = layout.frames[cluster.id]
        for member in cluster.members:
            box = layout.boxes[member]
            assert frame.x <= box.x and box.x + box.width <= frame.x + frame.width
            assert frame.y <= box.y and box.y + box.height <= frame.y + frame.height
    assert len(layout.routes) == len(graph.edges)
    for route in layout.routes:
        assert (len(route.points) - 1) % 3 == 0
        assert all(0 <= p.x <= layout.width and 0 <= p.y <= layout.height for p in route.points)


def test_a_loop_leads_back_beside_all_frames(graph: Graph) -> None:
    layout = block_layout(graph)
    right = max(frame.x + frame.width for frame in layout.frames.values())
    (back,) = [r for r in layout.routes if r.edge.branch and r.edge.source == frame_id("body")]
    assert max(point.x for point in back.points) > right
    assert back.points[-1].y < back.points[0].y


def test_every_engine_leaves_blocks_to_the_built_in_layout(graph: Graph) -> None:
    (layout,) = place([graph], engine="/nowhere/dot")
    assert layout == block_layout(graph)


def test_the_picture_says_where_control_goes(graph: Graph) -> None:
    svg = graph_svg.draw(graph, block_layout(graph), title="k")
    assert svg.count('class="edge branch"') == 4
    assert svg.count('class="frame block"') == 4
    assert ">true</text>" in svg and ">false</text>" in svg
    assert "^head goes to ^body where its condition is true" in svg
    assert 'data-op="7"' in svg and "block:" not in svg.replace("frame block", "")


def test_dot_cuts_branches_at_the_frames(graph: Graph) -> None:
    text = dot_text(graph)
    assert "compound=true" in text
    assert text.count("lhead=cluster_1") == 2
    assert text.count("ltail=") == 2


def test_a_block_that_holds_nothing() -> None:
    rows = (
        row("0", "cond_br", "arg:p", block="bb0", name="cf.cond_br", successors=("a", "a")),
        row("1", "br", block="a", name="cf.br", successors=("b",)),
        row("2", "return", "arg:x", block="b", name="func.return"),
    )
    graph = block_graph(Stage("dce", "high", "mlir", "", ops=rows))
    layout = block_layout(graph)
    assert set(layout.frames) == {frame_id(name) for name in ("bb0", "a", "b")}
    assert "empty_1" in dot_text(graph)


TEXT = """kernel k(input A: tensor, input v: tensor, output w: tensor) {
    w = v;
    for i in 0..3 {
        w = A @ w;
        if (reduce_sum(w) > 1.0) { w = w / 2.0; } else { w = relu(w) + v; }
    }
}"""


def test_every_stage_of_a_real_kernel_is_drawn() -> None:
    build = wia.compile(TEXT)["k"].build(np.ones((8, 8), np.float32), np.ones(8, np.float32))
    drawn = pictures(build.trace, ["w"])
    assert "fusion" in drawn and "decompose" in drawn
    for stages in drawn.values():
        assert stages.graph.svg.startswith("<svg")
        assert "goes to" in stages.graph.svg


def test_why_two_ops_were_not_fused_stands_beside_their_line() -> None:
    build = wia.compile(TEXT)["k"].build(np.ones((8, 8), np.float32), np.ones(8, np.float32))
    (refused, *_) = [d for d in build.stage("fusion").decisions if not d.taken and d.subjects]
    plan = pictures(build.trace, ["w"])["fusion"].plan
    assert plan is not None
    assert 'class="edge refused"' in plan.svg
    assert refused.reason.split()[0] in plan.svg
    graph = with_refusals(block_graph(STAGE), Stage("fusion", "high", "mlir", "", decisions=(
        Decision("vertical", "lt → cond_br", False, "a branch reads it", subjects=("4", "6")),
    )))  # fmt: skip
    layout = block_layout(graph)
    (route,) = [route for route in layout.routes if route.edge.refused]
    assert route.edge.refused == "a branch reads it"
    right = route.label.x + label_size(route.edge)[0]
    assert right <= min(layout.boxes["4"].x, layout.boxes["6"].x)


def test_the_host_function_is_shown_block_by_block() -> None:
    build = wia.compile(TEXT)["k"].build(np.ones((8, 8), np.float32), np.ones(8, np.float32))
    (host, *_) = nest_of(build.stage("loops"))["boxes"]
    notes = {box["label"]: box["note"] for box in host["children"]}
    assert notes["^test"] == "then ^body if true, ^done if false"
    assert notes["^done"] == "then returns"
    assert [box["label"] for box in host["children"] if "^body" in box["label"]] == ["^body"]
    body = next(box for box in host["children"] if box["label"] == "^body")
    assert "k_matmul" in {box["label"] for box in body["children"]}

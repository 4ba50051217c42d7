"""Graphs of stages: what is a node, an edge, a group, and where everything is placed."""

import dataclasses
import xml.etree.ElementTree as ElementTree

import pytest
from notebook_sample import sample_trace
from wia_compiler.base.record import OpRow, Stage
from wia_notebook.views import graph, graph_engine, graph_svg
from wia_notebook.views.graph_collapse import collapsed
from wia_notebook.views.graph_layout import layered_layout
from wia_notebook.views.stage_graphs import pictures

TRACE = sample_trace()
BEFORE, AFTER = TRACE.stage("canonicalize"), TRACE.stage("fusion")


def test_a_group_is_one_box_with_its_members():
    drawn = graph.graph_of(AFTER, names=("Y",), collapse=True)
    group = drawn.node("0")
    assert group.kind == "group"
    assert [chip.label for chip in group.chips] == ["conv2d", "add", "relu"]
    assert group.subtitle.startswith("lines 8–10")
    assert {(e.source, e.target) for e in drawn.edges} == {
        ("arg:X", "0"),
        ("arg:W", "0"),
        ("arg:b", "0"),
        ("0", "5"),
        ("0", "6"),
        ("5", "6"),
        ("6", "out:Y"),
    }


def test_an_open_group_is_a_frame_and_its_results_come_from_inside():
    drawn = graph.graph_of(AFTER, names=("Y",), collapse=False)
    assert drawn.clusters[0].members == ("1", "2", "3")
    assert ("3", "5") in {(edge.source, edge.target) for edge in drawn.edges}


def test_the_plan_frames_what_will_fuse_and_says_what_was_refused():
    plan = graph.plan_of(BEFORE, AFTER, names=("Y",))
    assert plan.clusters[0].planned and plan.clusters[0].members == ("0", "1", "2")
    refused = [edge for edge in plan.edges if edge.refused]
    assert [(e.source, e.target, e.refused) for e in refused] == [
        ("2", "3", "div also reads it, and 1.18 < 1.5")
    ]


def test_savings_count_both_ways_of_traffic_that_stays_inside():
    # conv2d's and add's results are written and read no more; relu's is still read by others.
    assert graph.savings(BEFORE, AFTER) == {"0": "saves 411 MB of traffic · 2 launches"}


def test_launches_and_large_results_are_counted():
    assert (graph.launches(BEFORE), graph.launches(AFTER)) == (5, 3)
    size = OpRow("77", "wia.size", "size", "other")
    assert graph.launches(dataclasses.replace(BEFORE, ops=(*BEFORE.ops, size))) == 5
    labels = {(e.source, e.target): e.label for e in graph.graph_of(BEFORE, collapse=True).edges}
    assert labels["0", "1"] == "103 MB"
    assert labels["3", "4"] == ""  # four bytes are not worth a label


def test_nothing_overlaps_and_frames_hold_their_members():
    plan = graph.plan_of(BEFORE, AFTER, names=("Y",))
    layout = layered_layout(plan)
    frame = layout.frames["plan:0"]
    inside = set(plan.clusters[0].members)
    boxes = layout.boxes
    for a, first in boxes.items():
        assert first.x >= 0 and first.x + first.width <= layout.width
        assert first.y >= 0 and first.y + first.height <= layout.height
        assert frame.holds(first.centre) == (a in inside)
        for b, second in boxes.items():
            assert a == b or not _overlap(first, second), (a, b)


@pytest.mark.parametrize("count", [0, 1, 3, 17, 127])
def test_random_graphs_are_placed_without_overlap(count):
    rows = tuple(
        OpRow(
            str(i),
            "wia.add",
            "add",
            "elementwise",
            tuple(str(j) for j in {i // 2, i // 3} if j < i),
            "tensor<4xf32>",
        )
        for i in range(count)
    )
    drawn = graph.graph_of(Stage("import", "high", "mlir", "", ops=rows), collapse=True)
    layout = layered_layout(drawn)
    boxes = list(layout.boxes.values())
    assert len(boxes) == count
    assert not any(_overlap(a, b) for i, a in enumerate(boxes) for b in boxes[:i])
    for route in layout.routes:
        source, target = layout.boxes[route.edge.source], layout.boxes[route.edge.target]
        assert route.points[0].y == pytest.approx(source.y + source.height)
        assert route.points[-1].y == pytest.approx(target.y)


def test_after_fusion_stands_where_it_stood_before():
    plan = graph.plan_of(BEFORE, AFTER, names=("Y",))
    after = graph.graph_of(AFTER, names=("Y",), collapse=True)
    places = {
        "arg:X": "arg:X",
        "arg:W": "arg:W",
        "arg:b": "arg:b",
        "0": "plan:0",
        "5": "3",
        "6": "4",
        "out:Y": "out:Y",
    }
    before = layered_layout(plan)
    layout = collapsed(before, plan, after, places)
    assert layout is not None
    shift = {before.boxes[places[id]].y - box.y for id, box in layout.boxes.items() if id != "0"}
    assert max(shift) - min(shift) < 1e-6
    assert collapsed(before, plan, after, {**places, "0": "nowhere"}) is None


def test_every_engine_draws_the_same_nodes(monkeypatch):
    drawn = graph.plan_of(BEFORE, AFTER, names=("Y",))
    monkeypatch.delenv("WIA_DOT", raising=False)
    for engine in {"builtin", graph_engine.find_engine()}:
        (layout,) = graph_engine.place([drawn], engine=engine)
        assert set(layout.boxes) == {node.id for node in drawn.nodes}
        assert len(layout.routes) == len(drawn.edges)
        assert not any(
            _overlap(a, b)
            for i, a in enumerate(layout.boxes.values())
            for b in list(layout.boxes.values())[:i]
        )


def test_an_engine_that_fails_gives_way(tmp_path, monkeypatch):
    broken = tmp_path / "dot"
    broken.write_text("#!/bin/sh\necho not json\n")
    broken.chmod(0o755)
    monkeypatch.setenv("WIA_DOT", str(broken))
    assert graph_engine.find_engine() == str(broken)
    drawn = graph.graph_of(AFTER, collapse=True)
    assert graph_engine.place([drawn])[0] == layered_layout(drawn)
    monkeypatch.setenv("WIA_DOT", str(tmp_path / "absent"))
    assert graph_engine.find_engine() != str(tmp_path / "absent")


def test_dot_text_quotes_what_comes_from_the_user():
    hostile = dataclasses.replace(BEFORE.ops[0], label='"]; a [href="x"] \\ <b>')
    stage = dataclasses.replace(BEFORE, ops=(hostile, *BEFORE.ops[1:]))
    drawn = graph.graph_of(stage, collapse=True)
    text = graph_engine.dot_text(drawn)
    assert '\\"]; a [href=\\"x\\"] \\\\ <b>' in text
    (layout,) = graph_engine.place([drawn])
    svg = graph_svg.draw(drawn, layout, title="x")
    root = ElementTree.fromstring(svg)
    assert not any(name.endswith("href") for element in root.iter() for name in element.attrib)


def test_the_picture_is_well_formed_and_says_itself_in_words():
    drawn = pictures(TRACE, ("Y",), engine="builtin")["fusion"]
    root = ElementTree.fromstring(graph_svg.standalone(drawn.graph.svg))
    space = "{http://www.w3.org/2000/svg}"
    assert root.find(f"{space}title").text == "data flow of conv_block at stage fusion"
    words = root.find(f"{space}desc").text
    assert "fused_conv_add_relu holding conv2d, add, relu reads X, W, b" in words
    assert (
        "refused: div also reads it"
        in ElementTree.fromstring(drawn.plan.svg).find(f"{space}desc").text
    )
    assert {g.attrib["data-op"] for g in root.iter(f"{space}g") if "data-op" in g.attrib} >= {
        "0",
        "1",
        "2",
        "3",
        "5",
        "6",
    }


@pytest.mark.parametrize("name", ["graph", "plan"])
def test_golden_pictures(golden, name):
    drawn = pictures(TRACE, ("Y",), engine="builtin")["fusion"]
    golden(f"views/conv_block.{name}.svg", graph_svg.standalone(getattr(drawn, name).svg))


def test_in_large_graphs_an_argument_stands_beside_each_reader():
    rows = tuple(
        OpRow(
            str(i),
            "wia.add",
            "add",
            "elementwise",
            (str(i - 1), "arg:A") if i else ("arg:A",),
            "tensor<4xf32>",
        )
        for i in range(graph.REPEAT_ABOVE + 1)
    )
    drawn = graph.graph_of(Stage("import", "high", "mlir", "", ops=rows), collapse=True)
    arguments = [node for node in drawn.nodes if node.kind == "argument"]
    assert len(arguments) == len(rows) == graph.REPEAT_ABOVE + 1 and {
        node.title for node in arguments
    } == {"A"}
    svg = graph_svg.draw(drawn, layered_layout(drawn), title="x")
    assert svg.count('data-op="arg:A"') == len(rows)


def test_a_constant_stands_beside_each_reader_and_in_its_frame():
    def row(id, name, operands, origins=(), parent=None):
        label = "2.0" if name == "wia.constant" else name.partition(".")[2]
        family = "fusion" if name == "wia.fused" else "elementwise"
        return OpRow(id, name, label, family, operands, "tensor<4xf32>", (), origins, parent)

    before = Stage(
        "dce",
        "high",
        "mlir",
        "",
        ops=(
            row("0", "wia.constant", ()),
            row("1", "wia.mul", ("arg:A", "0")),
            row("2", "wia.exp", ("1",)),
            row("3", "wia.mul", ("2", "0")),
            row("4", "wia.exp", ("3",)),
            row("5", "func.return", ("4",)),
        ),
    )
    after = Stage(
        "fusion",
        "high",
        "mlir",
        "",
        ops=(
            row("0", "wia.fused", ("arg:A",)),
            row("1", "wia.constant", (), ("0",), "0"),
            row("2", "wia.mul", ("arg:A", "1"), ("1",), "0"),
            row("3", "wia.exp", ("2",), ("2",), "0"),
            row("4", "wia.fused", ("0",)),
            row("5", "wia.constant", (), ("0",), "4"),
            row("6", "wia.mul", ("0", "5"), ("3",), "4"),
            row("7", "wia.exp", ("6",), ("4",), "4"),
        ),
    )
    plan = graph.plan_of(before, after, names=("Y",))
    assert [set(cluster.members) for cluster in plan.clusters] == [
        {"0", "1", "2"},
        {"0#2", "3", "4"},
    ]
    layout = layered_layout(plan)
    first, second = layout.frames["plan:0"], layout.frames["plan:4"]
    assert first.y + first.height < second.y


def test_a_graph_too_large_to_read_becomes_a_table():
    rows = tuple(
        OpRow(
            str(i),
            "wia.add",
            "add" if i % 3 else "exp",
            "elementwise",
            (str(i - 1),) if i else (),
            "tensor<4xf32>",
        )
        for i in range(graph.MAX_NODES + 1)
    )
    stage = Stage("import", "high", "mlir", "", ops=rows)
    drawn = pictures(dataclasses.replace(TRACE, stages=(stage,)), ())["import"].graph
    assert drawn.svg == "" and "more than a picture can show" in drawn.note
    assert graph.summary_rows(stage) == [("elementwise", "add", 200), ("elementwise", "exp", 101)]


def _overlap(a, b):
    return (
        a.x < b.x + b.width
        and b.x < a.x + a.width
        and a.y < b.y + b.height
        and b.y < a.y + a.height
    )


@pytest.mark.parametrize("collapse", [False, True])
def test_a_kernel_with_several_results_gives_each_of_them_once(collapse):
    rows = (
        OpRow("0", "wia.fused", "fused_mul_tanh_exp", "fusion", ("arg:x",), "f32[4], f32[4]"),
        OpRow("1", "wia.mul", "mul", "elementwise", ("arg:x", "arg:x"), "f32[4]", parent="0"),
        OpRow("2", "wia.tanh", "tanh", "elementwise", ("1",), "f32[4]", parent="0"),
        OpRow("3", "wia.exp", "exp", "elementwise", ("1",), "f32[4]", parent="0"),
        OpRow("4", "func.return", "return", "other", ("0", "0", "0")),
    )
    stage = Stage("fusion", "high", "mlir", "", ops=rows)
    drawn = graph.graph_of(stage, names=["h", "a", "b"], collapse=collapse)
    results = [node.id for node in drawn.nodes if node.kind == "result"]
    assert sorted(results) == ["out:a", "out:b", "out:h"]
    into = [edge.target for edge in drawn.edges if edge.target.startswith("out:")]
    assert sorted(into) == ["out:a", "out:b", "out:h"]

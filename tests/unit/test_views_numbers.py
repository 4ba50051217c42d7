"""Tables and charts: decisions, resources, ribbon, roofline."""

import json
import xml.etree.ElementTree as ElementTree

import pytest
from notebook_sample import DECISIONS, RESOURCES, sample_roofline, sample_trace
from wia_compiler.base.record import Decision
from wia_notebook.views import decisions, resources, ribbon, roofline
from wia_notebook.views.roofline import Ceiling, Point, Roofline
from wia_notebook.views.roofline_figure import roofline_figure


def test_every_number_of_a_decision_is_shown():
    table = decisions.decision_table(DECISIONS)
    assert table.columns == (
        "candidate",
        "kind",
        "registers",
        "other users",
        "benefit",
        "cost",
        "decision",
    )
    assert table.rows[2] == (
        "relu → reduce_sum",
        "vertical",
        "12 / 64",
        "1",
        "1.18",
        "1.00",
        "✕ refused: div also reads it, and 1.18 < 1.5",
    )
    assert table.taken == (True, True, False)


def test_a_ratio_stands_beside_its_threshold_and_names_beside_their_count():
    decision = Decision(
        "vertical",
        "a → b",
        False,
        "b reads it too",
        {
            "other_users": 2,
            "other_user_names": "c, d",
            "ratio": 1.2,
            "threshold": 1.5,
            "saved_bytes": 16_777_216,
            "row_elements": 17,
        },
    )
    table = decisions.decision_table([decision])
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert row["other users"] == "2 (c, d)"
    assert row["benefit ÷ cost"] == "1.20 < 1.50"
    assert row["traffic saved"] == "16.8 MB"
    assert row["row elements"] == "17"
    assert "row elements" not in [table.columns[index] for index in table.short]


def test_rows_without_a_number_have_a_dash_and_html_is_escaped():
    both = [*DECISIONS, Decision("schedule", "<x>", True, "", {"threads": 256})]
    assert decisions.decision_table(both).rows[3][2:5] == ("–", "–", "–")
    assert "&lt;x&gt;" in decisions.decisions_html(both)


def test_what_would_change_a_decision_is_a_line_of_its_own_and_rare_numbers_share_a_column():
    common = {"ratio": 1.2, "threshold": 1.5, "saved_bytes": 512, "benefit": 20_480.0, "cost": 17.0}
    rare = {f"number_{n}": n for n in range(8)}
    refused = {**common, "would_fuse_if": "b read <a> once", "other_users": 0, "registers": 3}
    table = decisions.decision_table(
        [
            Decision("vertical", "a → b", False, "no", refused),
            Decision("fold", "c → d", True, "yes", {**common, **rare}),
            Decision("pattern", "P: e", False, "no", {"would_fire_if": "e were f"}),
        ]
    )
    assert table.columns[-2:] == ("other numbers", "decision")
    assert table.rows[0][-1] == "✕ refused: no\nwould fuse if b read <a> once"
    assert table.rows[1][-1] == "✓ folded: yes"
    assert table.rows[2][-1] == "✕ refused: no\nwould fire if e were f"
    assert table.rows[0][-2] == "–"
    assert table.rows[1][-2].startswith("number 0 0, number 1 1, number 2 2")
    row = dict(zip(table.columns, table.rows[0], strict=True))
    assert (row["benefit"], row["cost"]) == ("20.5 KB", "17 B")
    html = decisions.decisions_html([Decision("vertical", "a → b", False, "no", refused)])
    assert "refused: no<br>would fuse if b read &lt;a&gt; once" in html


def test_gauges_have_their_limits():
    found = {gauge.label: gauge for gauge in resources.gauges(RESOURCES)}
    assert found["Registers per thread"].fraction == pytest.approx(54 / 255)
    assert found["Shared memory"].of == "of 227 KiB a block"
    assert found["Occupancy"].of == "limited by registers"
    assert found["Spills"].value == "none" and not found["Spills"].warning
    spilled = resources.gauges({"spill_store_bytes": 64, "spill_load_bytes": 0})
    assert spilled[0].warning and spilled[0].value == "64 B"
    assert resources.gauges({}) == []


def test_capacities_and_plain_numbers_are_gauges_too():
    found = {
        gauge.label: gauge
        for gauge in resources.gauges(
            {
                "vmem_bytes": 1_000_000,
                "vmem_capacity_bytes": 4_000_000,
                "accumulator_rows": 17,
                "accumulator_capacity_rows": 4096,
                "code_bytes": 2050,
                "vector_bits": 512,
            }
        )
    }
    assert found["VMEM"].fraction == 0.25 and found["VMEM"].of == "of 4 MB"
    assert found["Accumulator"].of == "of 4\u202f096 rows"
    assert found["Code"].value == "2.05 KB" and found["Vectors"].of == "bits"


def test_what_is_not_a_gauge_is_a_row_and_entries_are_a_table():
    rows = dict(resources.rows({**RESOURCES, "stack_bytes": 24, "missing": "needs ptxas"}))
    assert rows["stack bytes"] == "24 B" and rows["missing"] == "needs ptxas"
    head, cells = resources.entry_table(RESOURCES)
    assert head[0] == "kernel" and cells == [["conv_block_0", "54", "32.8 KB", "62.5 %"]]
    assert resources.entry_table({}) == ([], [])
    assert "conv_block_0" in resources.resources_html(RESOURCES)


def test_the_ribbon_opens_levels_and_says_what_changed_nothing():
    steps = ribbon.steps(sample_trace())
    assert [s.opens_level for s in steps if s.opens_level] == [
        "source",
        "high",
        "mid",
        "low",
        "machine",
    ]
    assert [s.title for s in steps if not s.changed] == ["inline", "canonicalize"]
    assert next(s for s in steps if s.name == "infer-shapes").title == "infer shapes"
    assert next(s for s in steps if s.name == "fusion").time == "900 µs"
    assert next(s for s in steps if s.name == "inline").detail == "no change"


def test_roofline_golden(golden):
    svg = roofline.roofline_svg(sample_roofline())
    ElementTree.fromstring(svg)
    golden("views/conv_block.roofline.svg", roofline.standalone(svg))


def test_the_roofline_names_its_ceilings_and_its_point():
    svg = roofline.roofline_svg(sample_roofline())
    for text in (
        "DRAM 38.2 GB/s",
        "f32 FMA 105 GFLOP/s",
        "conv_block: 41 GFLOP/s, 39 % of roof",
        "FLOP per byte",
    ):
        assert text in svg
    assert svg.count('class="roof"') == 2 and svg.count('class="roof other"') == 1


def test_main_ceilings_are_those_that_bound():
    shown = Roofline(
        "k",
        (
            Ceiling("a", "memory", 1e9),
            Ceiling("b", "memory", 2e9, main=True),
            Ceiling("c", "compute", 5e9),
        ),
        (),
    )
    assert shown.main("memory").name == "b" and shown.main("compute").name == "c"
    assert Roofline("k", (), ()).main("memory") is None


@pytest.mark.parametrize(
    "shown",
    [
        Roofline("none", (), ()),
        Roofline("copy", (Ceiling("DRAM", "memory", 1e10),), ()),
        Roofline("tiny", (Ceiling("FMA", "compute", 1e11),), (Point("tiny", 1e-4, 1.0),)),
        Roofline(
            "odd",
            (Ceiling("DRAM", "memory", 1e10), Ceiling("FMA", "compute", 1e11)),
            (Point("odd", 1e3, 1e-3),),
        ),
    ],
)
def test_rooflines_that_lack_something_still_draw(shown):
    ElementTree.fromstring(roofline.roofline_svg(shown))
    json.dumps(roofline_figure(shown))


def test_the_figure_is_plain_and_small():
    figure = roofline_figure(sample_roofline())
    assert len(json.dumps(figure)) < 4000
    assert figure["layout"]["xaxis"]["type"] == figure["layout"]["yaxis"]["type"] == "log"
    assert "width" not in figure["layout"] and figure["layout"]["autosize"]
    names = [trace["name"] for trace in figure["data"]]
    assert "DRAM 38.2 GB/s" in names and any("39 % of roof" in name for name in names)
    dashes = {trace["name"]: trace["line"]["dash"] for trace in figure["data"] if "line" in trace}
    assert {note["text"] for note in figure["layout"]["annotations"]} == {
        name for name in names if "GB/s" not in name
    }
    assert dashes == {
        "DRAM 38.2 GB/s": "solid",
        "L2 210 GB/s": "dash",
        "f32 FMA 105 GFLOP/s": "solid",
    }

"""Counts by line: sums are the run's, columns are of one kind, predictions say where they guess."""

import json

import numpy as np
import pytest
import wia_compiler as wia
from ptx_texts import element, entry, launch
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.sass import parse_sass
from wia_compiler.backends.gpu.sass_table import SassRow, sass_rows
from wia_compiler.backends.gpu.tools import assemble, disassemble
from wia_compiler.profiler.lines import COLUMNS, line_table
from wia_compiler.profiler.sass_counts import NO_LINE, PREDICATED, copies_note, predict, units_of

PROGRAM = """kernel layer(input A: tensor, input B: tensor, output C: tensor) {
    x = A @ B;
    y = relu(x);
    C = softmax(y, dim=1);
}"""
KINDS = {"simulated", "ptxas", "predicted", "measured"}


def profiled(shape=(48, 40), target="gpu:sm_80"):
    a = np.ones(shape, np.float32)
    build = wia.compile(PROGRAM).layer.build(a, a.T.copy(), target=target)
    return build, build.profile(a, a.T.copy())


@pytest.mark.parametrize("shape", [(48, 40), (1, 1), (3, 17), (127, 33)])
def test_sums_of_lines_are_the_runs_totals(shape):
    _, profile = profiled(shape)
    counters, table = profile.counters, profile.lines
    for totals in (table.totals, table.by_source().totals):
        for name in ("ptx_inst_executed", "ptx_thread_inst_executed", "flops"):
            assert totals[name] == counters[name]
        assert (
            totals["ptx_thread_inst_executed_pred_on"]
            == (counters["ptx_thread_inst_executed_pred_on"])
        )
        assert totals["branches"] == counters["ptx_branches"]
        assert totals["branches_divergent"] == counters["ptx_branches_divergent"]
        assert totals["shared_bank_conflicts"] == counters["shared_memory_bank_conflicts"]
        sectors = "derived__memory_l2_theoretical_sectors_global"
        assert totals["global_sectors"] == counters[sectors]
        for what, column in (("requests", "global_requests"), ("sectors", "global_sectors")):
            each = [
                value
                for name, value in counters.items()
                if name.startswith(f"l1tex__t_{what}_pipe_lsu_mem_global_op_")
            ]
            assert totals[column] == sum(each)
        wavefronts = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
        assert totals["shared_wavefronts"] == sum(
            value for name, value in counters.items() if name.startswith(wavefronts)
        )


def test_every_column_says_who_counted():
    _, profile = profiled()
    table = profile.lines
    assert set(table.columns.values()) == KINDS
    for row in table.rows:
        assert set(row.counts) == set(COLUMNS)
        assert row.counts["sass_inst_measured"] is None
    assert "not available: no GPU" in table.unavailable["sass_inst_measured"]
    assert "ptx_inst_executed (simulated)" in str(table)
    with pytest.raises(wia.ArgumentError, match="no column 'inst_executed': expected one of ptx_"):
        table.rows[0]["inst_executed"]
    with pytest.raises(wia.ArgumentError, match="nothing was counted on line 1 of the ptx"):
        table.row(1)


def test_lines_of_the_source_have_what_their_statements_became():
    build, profile = profiled()
    source = profile.lines.by_source()
    by_lines = {row.source_lines: row for row in source.rows}
    assert {line for lines in by_lines for line in lines} == {2, 3, 4}
    product = [row for lines, row in by_lines.items() if 2 in lines]
    assert sum(row["flops"] for row in product) >= 2 * 48 * 48 * 40
    softmax = by_lines[(4,)]
    assert softmax.text == "C = softmax(y, dim=1);" and softmax["shared_wavefronts"] >= 0
    spans = build.stage("ptx").line_spans
    for row in profile.lines.rows:
        assert row.spans == spans.get(row.line, ())
        assert row.text == build.assembly("ptx").split("\n")[row.line - 1].strip()


def test_tables_go_through_json():
    _, profile = profiled()
    table = profile.lines
    for each in (table, table.by_source(), table.by_sass()):
        data = json.loads(each.to_json())
        assert data == json.loads(json.dumps(each.to_data()))
        assert data["columns"] == dict(COLUMNS) and len(data["rows"]) == len(each.rows)
        assert data["totals"] == each.totals


def test_targets_without_counts_by_line_say_so():
    a = np.ones((4, 4), np.float32)
    profile = wia.compile(PROGRAM).layer.profile(a, a)
    with pytest.raises(wia.TargetError, match="cpu: nothing counts by line here"):
        _ = profile.lines


def text_of(body: str) -> str:
    """The text that ``launch`` runs."""
    return entry(body, *(() if "%d1" in body else (".param .u64 x",)))


def rows_of(body: str) -> tuple[SassRow, ...]:
    sass = parse_sass(disassemble(assemble(text_of(body), "sm_90").cubin))
    return sass_rows(sass.text, sass.ptx_lines)


ADD = f"""
    {element("%d2", "%d0", 4)} {element("%d3", "%d1", 4)}
    ld.global.f32 %f1, [%d2];
    ld.global.f32 %f2, [%d3];
    add.rn.f32 %f3, %f1, %f2;
    st.global.f32 [%d3], %f3;
"""


@needs_ptxas
def test_straight_code_is_predicted_exactly():
    x = np.ones(256, np.float32)
    done = launch(ADD, x, x.copy(), block=64, grid=4)
    rows = rows_of(ADD)
    predicted = predict(rows, done.lines, done.flow)
    counts = {}
    for each in predicted:
        counts[each.row.base] = counts.get(each.row.base, 0) + each.warps
    assert counts["LDG"] == 16 and counts["STG"] == counts["FADD"] == 8
    assert not any(each.notes for each in predicted if each.row.ptx_line is not None)
    table = line_table(text_of(ADD), [(rows[0].entry, done)], sass=rows)
    assert table.totals["sass_instructions"] == sum(row.ptx_line is not None for row in rows)
    assert table.by_sass().totals["sass_inst_predicted"] == sum(each.warps for each in predicted)


def loop(pragma: str) -> str:
    return f"""
        {element("%d2", "%d0", 4)} mov.f32 %f1, 0f00000000; mov.u32 %r1, 0;
    again: {pragma}
        ld.global.f32 %f2, [%d2];
        fma.rn.f32 %f1, %f1, %f2, %f2;
        add.u64 %d2, %d2, 4;
        add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 32; @%p1 bra again;
        st.global.f32 [%d2], %f1;
    """


@needs_ptxas
def test_an_unrolled_loop_is_divided_by_its_copies_and_says_so():
    x = np.ones(256, np.float32)
    done = launch(loop(""), x)
    rows = rows_of(loop(""))
    loads = [row for row in rows if row.base == "LDG"]
    assert len(loads) > 1, "ptxas unrolls"
    predicted = [each for each in predict(rows, done.lines, done.flow) if each.row in loads]
    assert sum(each.warps for each in predicted) == 32
    assert all(each.notes == (copies_note(len(loads)),) for each in predicted)
    kept = loop('.pragma "nounroll";')
    rows, done = rows_of(kept), launch(kept, x.copy())
    (load,) = [each for each in predict(rows, done.lines, done.flow) if each.row.base == "LDG"]
    assert (load.warps, load.notes) == (32, ())


@needs_ptxas
def test_a_branch_that_became_predicates_is_told():
    body = f"""
        {element("%d2", "%d0", 4)} ld.global.f32 %f1, [%d2];
        setp.lt.f32 %p1, %f1, 0f00000000;
        @%p1 bra skip;
        add.rn.f32 %f1, %f1, %f1;
    skip:
        st.global.f32 [%d2], %f1;
    """
    x = np.full(64, -1, np.float32)
    done = launch(body, x, block=64)
    rows = rows_of(body)
    assert not any(row.base == "BRA" for row in rows)
    table = line_table(text_of(body), [(rows[0].entry, done)], sass=rows)
    (branch,) = [row for row in table.rows if "bra skip" in row.text]
    (add,) = [row for row in table.rows if row.text.startswith("add.rn.f32")]
    assert PREDICATED in branch.notes and PREDICATED in add.notes
    assert add["ptx_inst_executed"] == 0 and add["sass_inst_predicted"] == 2


def test_rows_without_a_line_run_once_and_rare_ones_never():
    x = np.ones(64, np.float32)
    done = launch(ADD, x, x.copy(), block=64)
    rows = [
        SassRow("k", 0, 1, "", "LDC", ("R1",), "lsu"),
        SassRow("k", 16, 2, "", "FFMA", ("R1",), "fma", 9, rare=True),
    ]
    first, second = predict(rows, done.lines, done.flow)
    assert (first.warps, first.notes) == (2, (NO_LINE,)) and second.warps == 0
    assert predict(rows, {}, None)[0].warps == 0
    assert units_of([first, second]) == ({"fp32": 0}, 2)


@needs_ptxas
def test_measured_executions_stand_beside_the_predicted_ones():
    x = np.ones(256, np.float32)
    done = launch(ADD, x, x.copy(), block=64, grid=4)
    rows = rows_of(ADD)
    name = rows[0].entry
    counted = {(name, row.offset): 8 for row in rows}
    table = line_table(text_of(ADD), [(name, done)], sass=rows, measured=counted)
    assert table.totals["sass_inst_measured"] == 8 * table.totals["sass_instructions"]
    (load, _) = [row for row in table.rows if row.text.startswith("ld.global")]
    assert load["sass_inst_measured"] == load["sass_inst_predicted"] == 8
    assert table.by_sass().totals["sass_inst_measured"] == 8 * len(rows)


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_the_library_product_is_predicted_within_a_tenth(architecture):
    """Loops stay as they are written, so that the PTX's counts hold for the SASS."""
    a = np.ones((128, 64), np.float32)
    build = wia.compile(
        "kernel mm(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
    )
    build = build.mm.build(a, a.T.copy(), target=f"gpu:{architecture}")
    table = build.profile(a, a.T.copy()).lines
    totals = table.totals
    assert totals["sass_inst_predicted"] == pytest.approx(totals["ptx_inst_executed"], rel=0.1)
    rows = {(row.entry, row.offset): row for row in build.sass}
    stored = sum(
        each.counts["sass_inst_predicted"]
        for each, row in zip(table.by_sass().rows, rows.values(), strict=True)
        if row.base == "FFMA"
    )
    ffma = sum(row["ptx_inst_executed"] for row in table.rows if row.text.startswith("fma.rn.f32"))
    assert stored == ffma > 0


def test_without_the_assembler_two_columns_are_empty(monkeypatch):
    from wia_compiler.backends.gpu import machine_code

    monkeypatch.setattr(machine_code, "find_tool", lambda name: None)
    a = np.ones((9, 11), np.float32)
    build = wia.compile(PROGRAM.replace("layer", "bare")).bare.build(
        a, a.T.copy(), target="gpu:sm_89", debug=True
    )
    if "sass" in build.formats:
        pytest.skip("it was built before, with the assembler, and is in the cache")
    table = build.profile(a, a.T.copy()).lines
    assert table.totals["sass_inst_predicted"] is None
    assert "pip install" in table.unavailable["sass_inst_predicted"]
    assert table.by_sass().rows == ()

"""SASS as a table: parts of an instruction, units, labels, what is rare, where it comes from."""

import json

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.sass_table import (
    PIPES,
    SassRow,
    pipe_of,
    sass_rows,
    split_operands,
    target_of,
)
from wia_compiler.base.source import Span

TEXT = """k:
        /*0000*/  LDC R1, c[0x0][0x28];
        /*0010*/  @!P0 LDG.E.128 R4, desc[UR4][R2.64+0x10];
        /*0020*/  @P1 BRA `(.L_x_0);
        /*0030*/  MOV R8, 0x50;
        /*0040*/  CALL.REL.NOINC `($__internal_0_$__cuda_div);
.L_x_1:
.L_x_0:
        /*0050*/  @UP2 UIADD3 UR4, UR4, 0x1, URZ;
        /*0060*/  EXIT;
$__internal_0_$__cuda_div:
        /*0070*/  FMUL R0, R0, R1;
.L_x_2:
        /*0080*/  RET.REL.NODEC R8 `(k);
other:
        /*0000*/  EXIT;
"""


def test_each_instruction_is_a_row():
    rows = sass_rows(TEXT, {2: 7, 3: 9, 13: 4}, {3: (Span(1, 2, 3, 4),)})
    assert [row.entry for row in rows] == ["k"] * 9 + ["other"]
    assert [row.offset for row in rows] == [*range(0, 0x90, 0x10), 0]
    load = rows[1]
    assert load == SassRow(
        "k", 0x10, 3, "!P0", "LDG.E.128", ("R4", "desc[UR4][R2.64+0x10]"), "lsu", 9,
        (Span(1, 2, 3, 4),),
    )  # fmt: skip
    assert load.base == "LDG" and load.text == "@!P0 LDG.E.128 R4, desc[UR4][R2.64+0x10]"
    assert TEXT.splitlines()[load.line - 1].endswith(f"{load.text};")
    assert [row.ptx_line for row in rows[:3]] == [7, 9, None]
    assert rows[5].labels == (".L_x_1", ".L_x_0") and rows[5].predicate == "UP2"
    assert rows[6].text == "EXIT"


def test_what_only_rare_numbers_reach_is_marked():
    rows = sass_rows(TEXT, {})
    assert [row.offset for row in rows if row.rare] == [0x30, 0x40, 0x70, 0x80]
    assert target_of(rows[2]) == ".L_x_0"
    assert target_of(rows[4]) == "$__internal_0_$__cuda_div"
    assert target_of(rows[0]) is None


PARTS = """k:
        /*0000*/  @P0 BRA `(.L_x_0);
        /*0010*/  FADD R3, R4, R5;
        /*0020*/  @P1 BRA `(.L_x_1);
        /*0030*/  MOV R8, 0x50;
        /*0040*/  CALL.REL.NOINC `($__internal_0_$__cuda_div);
        /*0050*/  BRA `(.L_x_2);
.L_x_1:
        /*0060*/  MUFU.RCP R3, R6;
.L_x_2:
        /*0070*/  EXIT;
.L_x_0:
        /*0080*/  EXIT;
$__internal_0_$__cuda_div:
        /*0090*/  RET.REL.NODEC R4 `(k);
"""


def test_of_nested_branches_the_innermost_is_the_rare_one():
    """A branch around a whole part of the code, which divides, does not make that part rare."""
    assert [row.offset for row in sass_rows(PARTS, {}) if row.rare] == [0x30, 0x40, 0x50, 0x90]


def test_remarks_are_no_operands():
    (row,) = sass_rows('k:\n        /*0000*/  LDL R3, [R1+0x8] (*"SpillRefill"*);\n', {})
    assert row.operands == ("R3", "[R1+0x8]")


def test_plain_data_goes_through_json():
    rows = sass_rows(TEXT, {3: 9}, {3: (Span(1, 2, 3, 4),)})
    data = json.loads(json.dumps([row.to_data() for row in rows]))
    assert data[1]["operands"] == ["R4", "desc[UR4][R2.64+0x10]"]
    assert data[1]["spans"] == [[1, 2, 3, 4]] and data[1]["ptx_line"] == 9
    assert set(data[0]) == set(SassRow.__dataclass_fields__)


@pytest.mark.parametrize(
    ("opcode", "pipe"),
    [
        ("FFMA.FTZ", "fma"), ("IMAD.WIDE.U32", "fma"), ("IADD3.X", "alu"), ("LOP3.LUT", "alu"),
        ("MUFU.EX2", "xu"), ("I2F.S8", "xu"), ("DFMA", "fp64"), ("HFMA2.MMA", "fp16"),
        ("HMMA.16816.F32", "tensor"), ("HGMMA.64x128x16.F32", "tensor"), ("LDSM.16.M88.4", "lsu"),
        ("SHFL.BFLY", "lsu"), ("BAR.SYNC.DEFER_BLOCKING", "adu"), ("BRA.U", "cbu"),
        ("UIADD3", "uniform"), ("UTMALDG.2D", "tma"), ("S2UR", "uniform"),
    ],
)  # fmt: skip
def test_units_have_nsights_names(opcode, pipe):
    assert pipe_of(opcode) == pipe


def test_no_opcode_stands_in_two_units():
    listed = [opcode for opcodes in PIPES.values() for opcode in opcodes]
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("R1", ["R1"]),
        ("R4, c[0x0][0x28], -R2.reuse", ["R4", "c[0x0][0x28]", "-R2.reuse"]),
        ("{R1, R2}, [R3+0x4]", ["{R1, R2}", "[R3+0x4]"]),
    ],
)
def test_operands_are_split_outside_of_brackets(text, parts):
    assert list(split_operands(text)) == parts


KERNEL = """kernel k(input A: tensor, input B: tensor, output C: tensor) {
    x = A @ B;
    C = x / 3.0;
}"""


@needs_ptxas
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_rows_lead_to_ptx_and_source(architecture):
    a = np.ones((64, 48), np.float32)
    build = wia.compile(KERNEL).k.build(a, a.T.copy(), target=f"gpu:{architecture}")
    rows, ptx = build.sass, build.assembly("ptx").split("\n")
    assert len(rows) == build.resources["instructions"]
    words = {
        "LDG": "ld.global",
        "STG": "st.global",
        "LDS": "ld.shared",
        "FFMA": "f32",
        "BAR": "bar",
    }
    for row in rows:
        wanted = words.get(row.base)
        if wanted is not None and not row.rare:
            assert row.ptx_line is not None
            assert wanted in ptx[row.ptx_line - 1], row
    stores = [row for row in rows if row.base == "STG"]
    assert stores and all({span.line for span in row.spans} >= {3} for row in stores)
    loads = [row for row in rows if row.base == "LDG"]
    assert loads and all({span.line for span in row.spans} >= {2} for row in loads)
    traced = sum(bool(row.spans) for row in rows if not row.rare)
    assert traced > 0.9 * sum(not row.rare for row in rows)
    assert any(row.rare for row in rows) == any("CALL" in row.opcode for row in rows)


def test_a_target_without_sass_says_so():
    build = wia.compile(KERNEL).k.build(wia.spec((4, 4), "f32"), wia.spec((4, 4), "f32"))
    with pytest.raises(wia.TargetError, match="no 'sass' text for target cpu"):
        _ = build.sass

"""The instruction table, its documentation, and texts that print and read back."""

from pathlib import Path

import pytest
from unit.tpu_programs import matmul_text
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.tpu.instructions import TABLE, Work
from wia_compiler.dialects.tpu.machine import SPEC, SystolicMachine
from wia_compiler.dialects.tpu.program import Axis, Index, Instruction, Window
from wia_compiler.simulators.tpu.reader import read_program

PAGE = Path(__file__).parents[2] / "docs" / "tpu_isa.md"


def test_the_page_shows_the_table() -> None:
    rows = [f"| `{row.form}` | {row.unit} | {row.cycles_text} | {row.doc} |" for row in TABLE]
    page = PAGE.read_text(encoding="utf-8")
    for row in rows:
        assert row in page, f"docs/tpu_isa.md lacks:\n{row}"
    section = page.partition("## Instructions")[2].partition("## Numbers")[0]
    assert section.count("\n| `") == len(rows), "docs/tpu_isa.md shows an instruction too many"


def test_the_program_of_the_page_reads_and_prints_back() -> None:
    page = PAGE.read_text(encoding="utf-8")
    text = page.split("```")[1].strip()
    program = read_program(Source(text), SPEC)
    assert str(program).strip() == text


def test_every_program_prints_as_a_text_that_reads_to_the_same_program() -> None:
    program = read_program(Source(matmul_text(1000, 130, 257)), SPEC)
    again = read_program(Source(str(program)), SPEC)
    assert str(again) == str(program)
    assert again.tensors == program.tensors and again.buffers == program.buffers


def test_windows_print_as_they_are_written() -> None:
    starts = (Index(3), Index(1, (("i", 1), ("j", 2))))
    window = Window("A", (Axis(starts[0]), Axis(starts[1], 8, True)), transposed=True)
    assert str(window) == "A[3, %i + 2*%j + 1 : 8 clip] transposed"
    assert window.limits == (8, 1)
    assert str(Instruction("loop", ("k", 257, 128))) == "loop %k, 257, 128"


@pytest.mark.parametrize(
    ("mnemonic", "work", "cycles"),
    [
        ("load_weights", Work(rows=3), 128),
        ("systolic_execute", Work(rows=1), 255),
        ("systolic_execute", Work(rows=1000), 1254),
        ("vector_add", Work(rows=9, columns=128), 2),
        ("activate", Work(rows=1, columns=1025), 2),
        ("dma_in", Work(hbm_bytes=513), 2),
        ("store_output", Work(hbm_bytes=0), 0),
        ("clear", Work(rows=100), 0),
    ],
)
def test_what_an_instruction_costs(mnemonic, work, cycles) -> None:
    (row,) = [row for row in TABLE if row.mnemonic == mnemonic]
    assert row.cycles(SPEC, work) == cycles


def test_the_machine_is_the_chapters_array_at_the_rate_of_a_tpu_v2_core() -> None:
    assert SPEC.size == "128x128"
    assert SPEC.peak_flops == pytest.approx(23e12, rel=0.01)
    assert SPEC.hbm_bandwidth == pytest.approx(358e9, rel=0.01)
    with pytest.raises(ValueError, match="positive"):
        SystolicMachine("x", 128, 0, 1, 1, 1, 1, 1)


IR = (Path(__file__).parents[1] / "golden" / "tpu" / "dialect.mlir").read_text(encoding="utf-8")


def test_the_dialect_prints_and_parses_back() -> None:
    module = parse_ir(IR)
    module.verify()
    printed = print_ir(module)
    assert printed.strip() == IR.strip()
    assert print_ir(parse_ir(printed)) == printed

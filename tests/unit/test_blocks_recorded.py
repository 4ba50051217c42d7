"""Blocks in the record, in the verifier's table and in LLVM IR."""

import numpy as np
import pytest
import wia_compiler as wia
from llvm_running import load_module
from wia_compiler.base.record import Stage, Trace
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.kernel_function import kernel_function
from wia_compiler.passes.verify_blocks import verify_blocks
from xdsl.utils.exceptions import VerifyException

TEXT = """kernel k(input A: tensor, input v: tensor, output w: tensor) {
    w = v;
    for i in 0..3 {
        w = A @ w;
    }
    if (reduce_sum(w) > 1.0) { w = w / 2.0; }
}"""


@pytest.fixture(scope="module")
def trace() -> Trace:
    """The record of a kernel with a loop and a branch."""
    return wia.compile(TEXT)["k"].build(wia.spec((8, 8), "f32"), wia.spec((8,), "f32")).trace


def row(stage: Stage, label: str, block: str = ""):
    """The one row of that label."""
    (found,) = [r for r in stage.ops if r.label == label and block in ("", r.block)]
    return found


def test_rows_say_in_which_block_they_stand(trace: Trace) -> None:
    stage = trace.stage("infer-shapes")
    assert row(stage, "matmul").block == "body"
    assert row(stage, "div").block == "then"
    lines = stage.text.split("\n")
    for each in stage.ops:
        assert each.line and (each.label in lines[each.line - 1] or each.family == "other")


def test_a_branch_says_where_it_leads(trace: Trace) -> None:
    stage = trace.stage("infer-shapes")
    assert row(stage, "cond_br", "test").successors == ("body", "done")
    backs = [r for r in stage.ops if r.name == "cf.br" and r.block == "body"]
    assert [r.successors for r in backs] == [("test",)]


def test_an_argument_reads_what_every_branch_passes(trace: Trace) -> None:
    stage = trace.stage("infer-shapes")
    w = row(stage, "w", "test")
    assert (w.name, w.result_type, w.size_bytes) == ("block.argument", "tensor<8xf32>", 32)
    assert set(w.operands) == {"arg:v", row(stage, "matmul").id}
    assert f"^{w.block}(" in stage.text.split("\n")[w.line - 1]
    assert w.id in row(stage, "matmul").operands


def test_arguments_and_branches_keep_where_they_came_from(trace: Trace) -> None:
    before, after = trace.stage("infer-shapes"), trace.stage("fusion")
    assert before.op(row(after, "w", "test").origins[0]).label == "w"
    for each in after.ops:
        if each.name in ("cf.cond_br", "block.argument", "cf.br"):
            assert each.origins, each


def test_only_work_is_counted(trace: Trace) -> None:
    assert trace.stage("infer-shapes").summary.endswith("6 ops")
    (note,) = [d for d in trace.decisions if d.kind == "count"]
    assert note.numbers["blocks"] == 7
    assert "the body of a loop is counted once" in note.reason


def test_the_record_reads_back(trace: Trace) -> None:
    again = Trace.from_json(trace.to_json())
    assert again.stage("dce").ops == trace.stage("dce").ops


def check(body: str, *, typed: bool = True) -> None:
    """Verify the blocks of a function with that body."""
    text = (
        f"func.func @k(%x: tensor<f32>, %p: tensor<i1>) -> tensor<f32> {{\n"
        f"%c = wia.condition %p : (tensor<i1>) -> i1\n{body}\n}}"
    )
    module = parse_ir(text)
    verify_blocks(kernel_function(module, "k"), typed=typed)


RETURN = "func.return %x : tensor<f32>"
EXP = "wia.exp %x : (tensor<f32>) -> tensor<f32>"


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (f"cf.cond_br %c, ^a, ^b\n^a:\n{RETURN}\n^b:\n{RETURN}", "one func.return, found 2"),
        (f"{RETURN}\n^a:\ncf.br ^a", "a block that control does not reach"),
        (
            f"cf.br ^a(%x : tensor<f32>)\n^a(%y: tensor<2xf32>):\n{RETURN}",
            "passes tensor<f32> for an argument of tensor<2xf32>",
        ),
        (f"cf.br ^a\n^a(%y: tensor<f32>):\n{RETURN}", "passes 0 values to a block of 1 arguments"),
        (
            f"cf.cond_br %c, ^a, ^b\n^a:\n%e = {EXP}\ncf.br ^b\n^b:\nfunc.return %e : tensor<f32>",
            "func.return reads a value %e that is not made yet",
        ),
        (f"%d = arith.constant true\ncf.cond_br %d, ^a, ^a\n^a:\n{RETURN}", "by a wia.condition"),
    ],
)
def test_what_blocks_must_not_be(body: str, fault: str) -> None:
    with pytest.raises(VerifyException, match=fault):
        check(body)


def test_what_blocks_may_be() -> None:
    check(f"cf.cond_br %c, ^a, ^b\n^a:\n%e = {EXP}\ncf.br ^b\n^b:\n{RETURN}")
    check(f"{RETURN}\n^a:\ncf.br ^a", typed=False)


BLOCKS = """func.func @k(%count: memref<i64>, %out: memref<1xi64>) attributes {wia.host} {
  %n = memref.load %count[] : memref<i64>
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %index = arith.constant 0 : index
  cf.br ^head(%zero, %one, %zero : i64, i64, i64)
^head(%a: i64, %b: i64, %i: i64):
  %more = arith.cmpi slt, %i, %n : i64
  cf.cond_br %more, ^body, ^end(%a : i64)
^body:
  %c = arith.addi %a, %b : i64
  %j = arith.addi %i, %one : i64
  %big = arith.cmpi sgt, %c, %n : i64
  cf.cond_br %big, ^head(%b, %c, %j : i64, i64, i64), ^head(%b, %c, %j : i64, i64, i64)
^end(%r: i64):
  %same = arith.cmpi eq, %r, %r : i64
  cf.cond_br %same, ^last(%r : i64), ^last(%zero : i64)
^last(%s: i64):
  memref.store %s, %out[%index] : memref<1xi64>
  func.return
}"""


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_blocks_with_arguments_run(count: int) -> None:
    """Also where both ways lead to one block, with other values."""
    out = np.zeros(1, np.int64)
    load_module(parse_ir(BLOCKS), "k", 2)([np.array(count)], [out])
    a, b = 0, 1
    for _ in range(count):
        a, b = b, a + b
    assert out[0] == a

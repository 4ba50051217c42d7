"""The record: stages, rows, provenance, decisions, and that unchanged stages cost nothing."""

import itertools
from dataclasses import dataclass, field

import pytest
from bare_target import BARE_FACTS
from building import Builder, context, kernel, specs
from wia_compiler.base.record import Level, Stage, Trace
from wia_compiler.base.signature import KernelSignature
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.text import parse_ir
from wia_compiler.dialects.types import tensor_type
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp, make_op
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.lower_to_nests import LowerToNestsPass
from wia_compiler.passes.pipeline import high_passes
from wia_compiler.passes.recorder import Recorder
from wia_compiler.passes.recording.source_stage import kernel_lines, source_stage
from wia_compiler.passes.verifier import verify_high_level
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException


def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
    product = b.op("matmul", x, w, hint="h")
    shifted = b.op("add", product, 1.0)
    return b.op("softmax", b.op("relu", shifted))


def recorded(module: ModuleOp, verify: bool = True, **inputs: str) -> list[Stage]:
    recorder = Recorder(module, context(), verify)
    recorder.note("import", "high")
    for step in (*high_passes(specs(**inputs)), LowerToNestsPass()):
        recorder.run(step)
    return recorder.stages


@pytest.fixture(scope="module")
def stages() -> dict[str, Stage]:
    made = recorded(kernel(["x", "w"], body), x="4x8xf32", w="8x3xf32")
    return {stage.name: stage for stage in made}


def test_stages_are_those_of_the_page_in_order(stages: dict[str, Stage]) -> None:
    assert list(stages) == [
        "import",
        "inline",
        "infer-shapes",
        "expand",
        "canonicalize",
        "fold-constants",
        "cse",
        "dce",
        "fusion",
        "decompose",
        "loops",
    ]
    assert [stages[name].level for name in ("import", "decompose", "loops")] == [
        "high",
        "high",
        "mid",
    ]


def test_only_stages_that_changed_something_say_so(stages: dict[str, Stage]) -> None:
    changed = {name for name, stage in stages.items() if stage.changed}
    assert changed == {"import", "infer-shapes", "fusion", "decompose", "loops"}
    assert stages["cse"].text is stages["infer-shapes"].text
    assert stages["cse"].summary == "no change"
    assert all(row.origins == (row.id,) for row in stages["cse"].ops)


def test_summaries_count_ops(stages: dict[str, Stage]) -> None:
    assert stages["infer-shapes"].summary == "4 ops"
    assert stages["fusion"].summary == "4 → 2 ops"
    assert stages["loops"].summary.endswith("leaves")


def test_texts_read_back_and_rows_know_their_lines(stages: dict[str, Stage]) -> None:
    for stage in stages.values():
        assert str(parse_ir(stage.text)) == stage.text
        lines = stage.text.split("\n")
        for row in stage.ops:
            assert row.name in lines[row.line - 1], (stage.name, row)


def test_rows_follow_the_data(stages: dict[str, Stage]) -> None:
    rows = {row.label: row for row in stages["infer-shapes"].ops}
    assert rows["matmul"].operands == ("arg:x", "arg:w")
    assert rows["add"].operands == (rows["matmul"].id, rows["1.0"].id)
    assert rows["return"].operands == (rows["softmax"].id,)
    assert rows["matmul"].result_type == "tensor<4x3xf32>"
    assert (rows["matmul"].flops, rows["matmul"].size_bytes) == (2 * 4 * 8 * 3, 48)
    assert [rows[name].family for name in ("matmul", "add", "softmax", "1.0")] == [
        "contraction",
        "elementwise",
        "reduction",
        "other",
    ]
    assert rows["add"].spans == (Span(3, 1, 3, 9),)


def test_rows_inside_of_kernels_have_a_parent_and_reach_through_it(
    stages: dict[str, Stage],
) -> None:
    fusion = stages["fusion"]
    fused = next(row for row in fusion.ops if row.label == "fused_matmul_add_relu")
    inside = {row.label: row for row in fusion.ops if row.parent == fused.id}
    assert set(inside) == {"1.0", "matmul", "add", "relu"}
    assert inside["matmul"].operands == ("arg:x", "arg:w")
    assert fused.flops == 192 + 12 + 12
    softmax = next(row for row in fusion.ops if row.label == "softmax")
    assert softmax.operands == (fused.id,)


def test_origins_lead_back_to_the_first_stage(stages: dict[str, Stage]) -> None:
    before = {row.id: row.label for row in stages["dce"].ops}
    fused = next(row for row in stages["fusion"].ops if row.label == "fused_matmul_add_relu")
    assert sorted(before[id] for id in fused.origins) == ["1.0", "add", "matmul", "relu"]
    before = {row.id: row.label for row in stages["fusion"].ops}
    decomposed = {row.label: row for row in stages["decompose"].ops}
    assert [before[id] for id in decomposed["exp"].origins] == ["softmax"]
    assert [before[id] for id in decomposed["max"].origins] == ["relu"]
    before = {row.id: row.label for row in stages["decompose"].ops}
    leaf = next(row for row in stages["loops"].ops if row.label == "contract")
    assert [before[id] for id in leaf.origins] == ["matmul"]
    call = next(
        row
        for row in stages["loops"].ops
        if row.label.endswith("fused_matmul_add_relu") and row.name == "func.call"
    )
    assert [before[id] for id in call.origins] == ["fused_matmul_add_relu"]


def test_every_row_comes_from_somewhere(stages: dict[str, Stage]) -> None:
    names = list(stages)
    for previous, name in itertools.pairwise(names):
        known = {row.id for row in stages[previous].ops}
        for row in stages[name].ops:
            assert set(row.origins) <= known
            if row.name not in ("func.return", "func.func"):
                assert row.origins, (name, row)


def test_loops_and_leaves_are_rows_of_a_tree(stages: dict[str, Stage]) -> None:
    loops = stages["loops"]
    by_id = {row.id: row for row in loops.ops}
    leaf = next(row for row in loops.ops if row.label == "contract")
    chain: list[str] = []
    parent = leaf.parent
    while parent is not None:
        chain.append(by_id[parent].name)
        parent = by_id[parent].parent
    assert chain[-1] == "func.func"
    assert set(chain[:-1]) == {"tile.for"}
    assert leaf.family == "contraction"
    assert {"arg:x", "arg:w"} <= set(leaf.operands)
    assert all(row.name not in ("arith.mulf", "tile.yield") for row in loops.ops)
    assert loops.line_spans[leaf.line] == leaf.spans


def test_a_record_is_plain_data(stages: dict[str, Stage]) -> None:
    trace = Trace("k", "k(x, w)", "bare", "", tuple(stages.values()))
    assert Trace.from_json(trace.to_json()) == trace


@dataclass(frozen=True)
class Doubling:
    """A pass for these tests: doubles what the kernel gives."""

    fails: bool = False
    name: str = "doubling"
    level: Level = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        if self.fails:
            raise RuntimeError("no")
        context.copied_tokens[99] = (0,)
        last = module.body.block.first_op.body.block.last_op  # pyright: ignore
        op = make_op("add", [last.operands[0]] * 2)  # pyright: ignore
        last.parent.insert_op_before(op, last)  # pyright: ignore
        last.operands[0] = op.result  # pyright: ignore


def test_an_error_of_a_pass_names_its_stage() -> None:
    recorder = Recorder(kernel(["x"], lambda b, x: b.op("exp", x)), context())
    with pytest.raises(RuntimeError) as raised:
        recorder.run(Doubling(fails=True))
    assert raised.value.__notes__ == ["in stage 'doubling' of kernel 'k'"]


def test_decisions_and_ids_are_those_of_one_stage() -> None:
    recorder = Recorder(kernel(["x"], lambda b, x: b.op("exp", x)), context())
    recorder.note("import", "high")
    op = next(op for op in recorder.module.walk() if isinstance(op, TensorOp))
    assert recorder.context.id_of(op) == "0"
    recorder.run(Doubling())
    stage = recorder.stages[-1]
    assert stage.changed
    assert recorder.context.copied_tokens == {}
    assert [row.label for row in stage.ops] == ["exp", "add", "return"]


@dataclass(frozen=True)
class Renaming:
    """Changes an attribute in place, and nothing else."""

    name: str = "renaming"
    level: Level = "high"
    notes: list[str] = field(default_factory=list[str])

    def run(self, module: ModuleOp, context: PassContext) -> None:
        from wia_compiler.dialects.types import to_attribute

        for op in module.walk():
            if isinstance(op, TensorOp):
                op.attributes["dim"] = to_attribute(1)


def test_a_change_of_an_attribute_is_seen() -> None:
    module = kernel(["x"], lambda b, x: b.op("softmax", x, dim=0))
    recorder = Recorder(module, context())
    recorder.note("import", "high")
    recorder.run(Renaming())
    recorder.run(Renaming())
    assert [stage.changed for stage in recorder.stages[-2:]] == [True, False]


def test_invalid_ir_is_refused_where_it_arises() -> None:
    module = kernel(["x"], lambda b, x: b.op("exp", x))
    step: Pass = high_passes(specs(x="4xf32"))[1]
    recorder = Recorder(module, context(), verify_always=True)
    recorder.run(step)

    @dataclass(frozen=True)
    class Breaking:
        name: str = "cse"
        level: Level = "high"

        def run(self, module: ModuleOp, context: PassContext) -> None:
            for op in module.walk():
                if isinstance(op, TensorOp):
                    op.result._type = tensor_type((5,), op.result_spec.dtype)  # pyright: ignore

    with pytest.raises(VerifyException) as raised:
        recorder.run(Breaking())
    assert "stage 'cse' of kernel 'k' left invalid IR" in raised.value.__notes__


@pytest.mark.parametrize(
    ("stage", "promise"),
    [
        ("infer-shapes", "static types"),
        ("dce", "every value is used"),
        ("decompose", "primitive ops only"),
    ],
)
def test_the_table_of_promises_is_checked(stage: str, promise: str) -> None:
    module = kernel(["x"], lambda b, x: b.op("relu", x))
    if stage != "infer-shapes":
        high_passes(specs(x="4xf32"))[1].run(module, context())
    if stage == "dce":
        function = module.body.block.first_op
        block = function.body.block  # pyright: ignore
        block.insert_op_before(ConstantOp(1.0, block.args[0].type), block.first_op)
    with pytest.raises(VerifyException, match=promise):
        verify_high_level(module, "k", stage)
    verify_high_level(module, "k", "import")


def test_a_kernel_with_two_contractions_breaks_a_promise() -> None:
    module = kernel(["x"], lambda b, x: b.op("matmul", b.op("matmul", x, x), x))
    high_passes(specs(x="4x4xf32"))[1].run(module, context())
    from wia_compiler.passes.fusing.build import fuse

    ops = [op for op in module.walk() if isinstance(op, TensorOp)]
    fuse(ops, ops[-1:], set())
    assert any(isinstance(op, FusedOp) for op in module.walk())
    with pytest.raises(VerifyException, match="one contraction"):
        verify_high_level(module, "k", "fusion")


TEXT = """\
// two kernels
kernel a(input X: tensor) { } // }
kernel b(input X: tensor, // { not a brace
         output Y: tensor) {
  /* } */ Y = X;   # }
}  kernel c() {}
"""


@pytest.mark.parametrize(
    ("name", "line", "column", "lines"),
    [("a", 2, 8, (2, 2)), ("b", 3, 8, (3, 6)), ("c", 6, 11, (6, 6))],
)
def test_the_source_stage_is_the_kernel_alone(
    name: str, line: int, column: int, lines: tuple[int, int]
) -> None:
    span = Span(line, column, line, column + 1)
    signature = KernelSignature(name, (), Source(TEXT), 0, span)
    first, found = kernel_lines(signature)
    assert (first, first + len(found) - 1) == lines
    stage = source_stage(signature)
    assert stage.line_spans[1][0].line == first
    assert (stage.level, stage.language) == ("source", "wia")
    assert BARE_FACTS.name == "bare"

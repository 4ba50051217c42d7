"""From a kernel's text to nests through the page of passes: what a compilation gives."""

import numpy as np
import pytest
from bare_target import BareTarget
from building import specs
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import print_ir
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import ImportedProgram, import_program
from wia_compiler.passes.pipeline import Compiled, compile_kernel, high_passes, mid_passes
from wia_compiler.passes.target import ArraySpec
from wia_compiler.passes.verifier import HIGH_STAGES

TEXT = """\
kernel scale(input X: tensor<M, K, f32>, output Y: tensor<M, K, f32>) { Y = X * 2.0; }

kernel k(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, input bias: tensor,
         input unused: tensor, alpha: f32, output C: tensor) {
    let h = scale(A) @ B;      // one product
    C = relu(h + bias) * alpha;
}

kernel other(input A: tensor) { return A + 1.0; }
"""


def imported(text: str = TEXT) -> ImportedProgram:
    return import_program(parse(Source(text, "cell")))


def compiled(text: str = TEXT, kernel: str = "k", **inputs: str) -> Compiled:
    return compile_kernel(imported(text), kernel, specs(**inputs), BareTarget())


INPUTS = {"A": "3x17xf32", "B": "17x5xf32", "bias": "5xf32", "unused": "1000xf64", "alpha": "f32"}


def test_a_compilation_gives_its_outputs_and_costs() -> None:
    made = compiled(**INPUTS)
    (output,) = made.outputs
    assert (output.name, str(output.spec), output.strides) == ("C", "tensor<3x5xf32>", None)
    assert [argument.name for argument in made.inputs] == list(INPUTS)
    assert made.flops == 3 * 17 + 2 * 3 * 17 * 5 + 3 * (3 * 5)
    assert made.bytes == 4 * (3 * 17 + 17 * 5 + 5 + 1 + 3 * 5)
    assert made.trace.signature == (
        "k(A: tensor<3x17xf32>, B: tensor<17x5xf32>, bias: tensor<5xf32>, "
        "unused: tensor<1000xf64>, alpha: tensor<f32>)"
    )
    assert (made.trace.source, made.trace.source_name, made.trace.target) == (TEXT, "cell", "bare")


def test_the_trace_holds_every_stage_of_the_page() -> None:
    trace = compiled(**INPUTS).trace
    stages = [name for name in HIGH_STAGES if name != "expand"]  # no op here is written out
    assert [stage.name for stage in trace.stages] == ["source", *stages, "loops", "text"]
    steps = [step.name for step in (*high_passes(()), *mid_passes(()))]
    assert steps == [*HIGH_STAGES[1:], "loops"]
    assert trace.stage("source").text == "\n".join([*TEXT.split("\n")[2:6], "}"])
    assert "@other" not in trace.stage("import").text
    assert "@scale" in trace.stage("import").text
    assert "@scale" not in trace.stage("inline").text
    assert trace.stage("fusion").summary == "5 → 2 ops"
    assert {decision.kind for decision in trace.decisions} >= {"inline", "vertical"}


def test_spans_point_into_the_users_text() -> None:
    trace = compiled(**INPUTS).trace
    lines = TEXT.split("\n")
    for stage in trace.stages[1:-1]:
        for row in stage.ops:
            for span in row.spans:
                assert 1 <= span.line <= len(lines)
    matmul = next(row for row in trace.stage("decompose").ops if row.label == "matmul")
    (span,) = matmul.spans
    assert lines[span.line - 1][span.column - 1 : span.end_column - 1] == "scale(A) @ B"
    mul = next(row for row in trace.stage("fusion").ops if row.name == "wia.mul")
    texts = [lines[s.line - 1][s.column - 1 : s.end_column - 1] for s in mul.spans]
    assert texts == ["X * 2.0", "scale(A)"]


def test_a_program_is_compiled_again_for_other_arguments() -> None:
    program = imported()
    before = print_ir(program.module)
    for rows in (1, 0, 127):
        inputs = specs(**{**INPUTS, "A": f"{rows}x17xf32"})
        made = compile_kernel(program, "k", inputs, BareTarget())
        assert made.outputs[0].spec.shape == (rows, 5)
    assert print_ir(program.module) == before
    assert (
        compile_kernel(program, "other", specs(A="2xf16"), BareTarget()).outputs[0].name
        == "result0"
    )


def test_compiling_is_deterministic() -> None:
    texts = {tuple(stage.text for stage in compiled(**INPUTS).trace.stages) for _ in range(3)}
    assert len(texts) == 1


def test_faults_carry_the_users_line() -> None:
    with pytest.raises(CompileError) as raised:
        compiled(**{**INPUTS, "B": "16x5xf32", "bias": "4xf32"})
    first, second, *_ = raised.value.diagnostics
    assert first.message == "size K is 17 on axis 1 of A, and 16 on axis 0 of B"
    rendered = str(raised.value)
    assert "--> cell:" in rendered
    assert "input B: tensor<K, N, f32>" in rendered
    assert "scale(A) @ B" in second.render()


def test_strides_reach_the_nests_and_repeated_elements_count_once() -> None:
    spec = TensorSpec((4, 8), specs(A="f32")[0].spec.dtype)
    text = "kernel k(input A: tensor, output C: tensor) { C = A + A; }"
    program = imported(text)
    plain = compile_kernel(program, "k", [ArraySpec("A", spec)], BareTarget())
    rows = compile_kernel(program, "k", [ArraySpec("A", spec, (0, 1))], BareTarget())
    assert plain.bytes - rows.bytes == 4 * (4 * 8 - 8)
    assert "strided" in rows.trace.stage("loops").text
    back = compile_kernel(program, "k", [ArraySpec("A", spec, (-8, 1))], BareTarget())
    assert back.bytes == plain.bytes


def test_the_target_is_asked_with_inputs_then_outputs() -> None:
    target = BareTarget()
    compile_kernel(imported(), "k", specs(**INPUTS), target)
    assert [argument.name for argument in target.asked[0]] == [*INPUTS, "C"]


def test_two_hundred_ops_stay_linear() -> None:
    """Every stage's work is counted, not timed: rows and decisions grow as the program does."""

    def program(count: int) -> str:
        lines = "".join(f"    t = exp(t) * {n + 2}.0;\n" for n in range(count))
        return (
            f"kernel k(input A: tensor, output C: tensor) {{\n    let t = A;\n{lines}    C = t;\n}}"
        )

    small, large = (compiled(program(count), A="64xf32").trace for count in (20, 100))
    for name in ("fusion", "decompose"):
        assert len(large.stage(name).ops) < 6 * len(small.stage(name).ops)
    assert len(large.stage("fusion").decisions) == 199
    assert all(decision.taken for decision in large.stage("fusion").decisions)


def test_every_dtype_goes_through() -> None:
    for dtype in ("f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8"):
        made = compiled(
            "kernel k(input A: tensor, output C: tensor) { C = relu(A) + 1; }", A=f"17x{dtype}"
        )
        assert str(made.outputs[0].spec) == f"tensor<17x{dtype}>"
    assert np.dtype(np.float32) == made.outputs[0].spec.dtype.numpy or dtype == "u8"

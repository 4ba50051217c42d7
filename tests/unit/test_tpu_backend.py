"""From a kernel's text to numbers on the systolic array: sizes, layouts, dtypes, epilogues."""

import csv
import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from unit.tpu_kernels import (
    TARGET,
    as_bf16,
    assert_close,
    compile_text,
    product,
    result,
    run_text,
)
from wia_compiler.backends.tpu.target import make_target, targets
from wia_compiler.base.errors import TargetError
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.tpu.machine import SPEC
from wia_compiler.simulators.tpu.reader import read_program

rng = np.random.default_rng(11)
BF16 = ml_dtypes.bfloat16
MATMUL = "kernel k(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
TABLE = Path(__file__).parents[1] / "golden" / "tpu" / "scalesim_ws_128.csv"
SMALL_ROWS = [
    row
    for row in csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines())
    if int(row["M"]) * int(row["N"]) * int(row["K"]) <= 128 * 128 * 512
]


def normal(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.parametrize("row", SMALL_ROWS, ids=lambda row: f"{row['M']}-{row['N']}-{row['K']}")
def test_compiled_matmuls_cost_what_scale_sim_says(row: dict[str, str]) -> None:
    m, n, k = (int(row[name]) for name in "MNK")
    ran = run_text(MATMUL, A=normal(m, k), B=normal(k, n))
    assert ran.counters["cycles"] == int(row["compute_cycles"])
    overall, mapping = float(row["overall_util_pct"]), float(row["mapping_eff_pct"])
    # A single column or row has no axis of its own: its one weight or row is the same work.
    assert ran.counters["utilization_percent"] == pytest.approx(overall, rel=1e-12)
    assert ran.counters["mapping_percent"] == pytest.approx(mapping, rel=1e-12)


def test_enough_rows_go_through_the_compiler() -> None:
    assert len(SMALL_ROWS) >= 20


@pytest.mark.parametrize("size", [0, 1, 3, 17, 127, 129, 1000])
def test_odd_sizes(size: int) -> None:
    a, b = normal(size, size), normal(size, 130 if size == 1000 else size)
    assert_close(result("A @ B", A=a, B=b), product(a, b), size, a, b)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((0, 5), (5, 3)),
        ((4, 5), (5, 0)),
        ((4, 0), (0, 3)),
        ((130,), (130, 200)),
        ((200, 130), (130,)),
        ((300,), (300,)),
        ((3, 40, 130), (3, 130, 150)),
        ((3, 40, 130), (130, 150)),
        ((40, 130), (2, 130, 15)),
        ((2, 1, 5, 7), (1, 3, 7, 6)),
        ((2, 3, 0, 7), (7, 6)),
        ((2100, 3), (3, 2)),
    ],
)
def test_ranks_batches_and_empty_operands(left, right) -> None:
    a, b = normal(*left), normal(*right)
    assert_close(result("A @ B", A=a, B=b), product(a, b), left[-1], a, b)


def test_more_rows_than_accumulators_load_the_weights_again() -> None:
    a, b = normal(2049, 130), normal(130, 3)
    ran = run_text(MATMUL, A=a, B=b)
    assert ran.counters["weight_loads"] == 4
    assert ran.counters["cycles"] == 2 * (128 + 2048 + 254) + 2 * (128 + 1 + 254) - 1
    assert_close(ran.outputs[0], product(a, b), 130, a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, BF16])
def test_dtypes_of_a_matmul(dtype) -> None:
    a, b = normal(40, 300, dtype=dtype), normal(300, 20, dtype=dtype)
    found = result("A @ B", A=a, B=b)
    assert found.dtype == dtype
    assert_close(found, product(a, b), 300, a, b)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.T,
        lambda x: x[::-1],
        lambda x: x[:, ::-2],
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: np.asfortranarray(x),
    ],
)
def test_strided_operands(view) -> None:
    a = view(normal(40, 40))
    b = normal(a.shape[1], 7)
    assert_close(result("A @ B", A=a, B=b), product(a, b), a.shape[1], a, b)


def test_transposed_operands_and_results() -> None:
    a, b = normal(150, 33), normal(140, 150)
    found = result("transpose(transpose(A, 0, 1) @ transpose(B, 0, 1), 0, 1)", A=a, B=b)
    assert_close(found.T, product(a.T, b.T), 150, a.T, b.T)


@pytest.mark.parametrize("shape", [(140,), (1,), (33, 1), (33, 140), (1, 140), ()])
def test_bias_of_any_broadcast_shape(shape) -> None:
    a, b, c = normal(33, 150), normal(150, 140), normal(*shape)
    found = result("relu(A @ B + c)", A=a, B=b, c=c)
    sums = np.float32(1) * result("A @ B", A=a, B=b)
    np.testing.assert_array_equal(found, np.maximum(sums + c, 0))


def test_bf16_rounds_after_every_op() -> None:
    a, b, c = (normal(*shape, dtype=BF16) for shape in ((33, 150), (150, 140), (140,)))
    found = result("relu(A @ B + c)", A=a, B=b, c=c)
    sums = result("A @ B", A=a, B=b)
    wide = (sums.astype(np.float32) + c.astype(np.float32)).astype(BF16)
    expected = np.maximum(wide.astype(np.float32), 0).astype(BF16)
    np.testing.assert_array_equal(found.view(np.int16), expected.view(np.int16))


def test_layers_pass_their_results_through_hbm() -> None:
    a, b, d = normal(150, 150), normal(150, 7), normal(7, 200)
    text = """kernel k(input A: tensor, input B: tensor, input D: tensor, output C: tensor) {
        h = relu(A @ B);
        C = relu(h @ D);
    }"""
    ran = run_text(text, A=a, B=b, D=d)
    hidden = np.maximum(result("A @ B", A=a, B=b), 0)
    np.testing.assert_array_equal(ran.outputs[0], np.maximum(result("A @ B", A=hidden, B=d), 0))
    assert ".hbm h f32 150x7 temporary" in ran.compiled.artifact.assembly["tpu"]


def test_two_outputs() -> None:
    text = """kernel k(input A: tensor, input B: tensor, output C: tensor, output D: tensor) {
        C = A @ B;
        D = relu(C);
    }"""
    first, second = run_text(text, A=normal(50, 60), B=normal(60, 7)).outputs
    np.testing.assert_array_equal(second, np.maximum(first, 0))


ELEMENTWISE = {
    "A + B": lambda a, b: a + b,
    "relu(A)": lambda a, b: np.maximum(a, 0),
    "max(0.0, A)": lambda a, b: np.maximum(a, 0),
    "A + 1.5": lambda a, b: a + np.float32(1.5),
    "relu(A + B) + relu(A + 1.0) + (relu(B) + A)": lambda a, b: (
        (np.maximum(a + b, 0) + np.maximum(a + np.float32(1), 0)) + (np.maximum(b, 0) + a)
    ),
    "((A + B) + (B + A)) + ((A + A) + (B + B))": lambda a, b: (
        ((a + b) + (b + a)) + ((a + a) + (b + b))
    ),
}


@pytest.mark.parametrize("expression", ELEMENTWISE)
def test_elementwise_kernels(expression) -> None:
    a, b = normal(17, 129), normal(17, 129)
    a.flat[:3] = np.nan, np.inf, -np.inf
    found = result(f"{expression} + (B + B)", A=a, B=b)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, ELEMENTWISE[expression](a, b) + (b + b))


@pytest.mark.parametrize("shape", [(0,), (), (1,), (1000,), (3, 0, 5), (3, 5, 130)])
def test_elementwise_kernels_of_any_shape(shape) -> None:
    a, b = normal(*shape), normal(*shape)
    np.testing.assert_array_equal(result("relu(A + B)", A=a, B=b), np.maximum(a + b, 0))


def test_rows_and_columns_are_repeated() -> None:
    a, b, c = normal(130, 1), normal(1, 150), normal(3, 1, 1)
    np.testing.assert_array_equal(result("A + B + c", A=a, B=b, c=c), (a + b) + c)


def test_a_strided_sum_is_cut_into_tiles() -> None:
    a, b = normal(300, 4000)[:, ::2], normal(2000, 300).T
    np.testing.assert_array_equal(result("A + B", A=a, B=b), a + b)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("A", lambda a: a),
        ("transpose(A, 0, 1)", lambda a: a.T),
        ("reshape(relu(A), shape=[30])", lambda a: np.maximum(a, 0).reshape(30)),
        ("reshape(A, shape=[2, 15])", lambda a: a.reshape(2, 15)),
        # The first reshape is a view of the host function, the second a view of that.
        (
            "reshape(relu(reshape(A, shape=[3, 10])), shape=[6, 5])",
            lambda a: np.maximum(a, 0).reshape(6, 5),
        ),
        ("broadcast(A, shape=[4, 5, 6])", lambda a: np.broadcast_to(a, (4, 5, 6))),
        ("cast(A, bf16)", lambda a: a.astype(BF16)),
        ("cast(cast(A, f16), f32)", lambda a: a.astype(np.float16).astype(np.float32)),
    ],
)
def test_copies_casts_and_other_shapes(expression, expected) -> None:
    a = normal(5, 6)
    np.testing.assert_array_equal(result(expression, A=a), expected(a))


def test_a_pointwise_convolution_is_a_product() -> None:
    x, w = normal(2, 3, 9, 8), normal(4, 3, 1, 1)
    found = result("relu(conv2d(X, W))", X=x, W=w)
    expected = np.einsum("ncyx,fc->nfyx", as_bf16(x), as_bf16(w[:, :, 0, 0]))
    np.testing.assert_allclose(found, np.maximum(expected, 0), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("expression", "dtype", "message"),
    [
        ("exp(A)", np.float32, "tpu:spec cannot spell exp"),
        ("A * A", np.float32, "tpu:spec cannot spell mul"),
        ("A - A + relu(A)", np.float32, "tpu:spec cannot spell sub"),
        ("max(A, 1.0)", np.float32, "tpu:spec cannot spell max with anything but 0"),
        ("softmax(A)", np.float32, "tpu:spec cannot spell a reduction"),
        ("where(A < 0.0, A, A + A)", np.float32, "tpu:spec cannot spell"),
        (
            "reshape(transpose(A, 0, 1), shape=[400])",
            np.float32,
            "tpu:spec cannot move A: its index (i mod 20) takes no rectangle of memory",
        ),
        ("A + A", np.float64, "tpu:spec computes on f32, bf16 and f16, found f64"),
        ("A @ A", np.int32, "tpu:spec computes on f32, bf16 and f16, found i32"),
        ("relu(A)", np.int8, "tpu:spec computes on f32, bf16 and f16, found i8"),
    ],
)
def test_what_it_cannot_spell_is_refused_at_its_line(expression, dtype, message) -> None:
    text = f"kernel k(input A: tensor, output C: tensor) {{\n    C = {expression};\n}}"
    with pytest.raises(TargetError) as error:
        compile_text(text, A=np.ones((20, 20), dtype))
    said = str(error.value).splitlines()
    assert said[0].startswith(f"error: {message}")
    assert said[1].startswith("  --> <wia>:2:")
    assert said[2] == f"   2 |     C = {expression};"
    assert "help: tpu:spec can spell matmul, add, relu (max with 0) and casts" in said[4]


def test_a_convolution_is_refused_by_name() -> None:
    text = "kernel k(input X: tensor, input W: tensor, output C: tensor) {\n  C = conv2d(X, W);\n}"
    with pytest.raises(TargetError, match="tpu:spec cannot spell conv2d") as error:
        compile_text(text, X=normal(1, 3, 9, 9), W=normal(4, 3, 3, 3))
    assert "   2 |   C = conv2d(X, W);\n     |       ^^^^^^^^^^^^" in str(error.value)


def test_many_operands_take_fewer_rows_so_that_buffers_fit() -> None:
    names = "ABDEFGHIJKLM"
    arrays = {name: normal(2048, 130, dtype=BF16) for name in names}
    given = {name: arrays[name].T for name in names[:6]} | {n: arrays[n].T for n in names[6:]}
    inputs = ", ".join(f"input {name}: tensor" for name in names)
    text = f"kernel k({inputs}, output C: tensor) {{ C = {' + '.join(names)}; }}"
    ran = run_text(text, **{name: np.ascontiguousarray(array) for name, array in given.items()})
    resources = ran.compiled.artifact.resources
    assert resources["vmem_bytes"] <= resources["vmem_capacity_bytes"] == SPEC.vmem_bytes


BIAS_RELU = """\
// 행렬 곱, 편향, 활성화
kernel matmul_bias_relu(input A: tensor, input B: tensor, input bias: tensor, output C: tensor) {
    P = A @ B;
    C = relu(P + bias);
}
"""


def test_the_text_of_a_layer(golden) -> None:
    compiled = compile_text(BIAS_RELU, A=normal(1000, 257), B=normal(257, 130), bias=normal(130))
    golden("tpu/matmul_bias_relu.tpu", compiled.artifact.assembly["tpu"])


def test_the_text_of_a_batch_in_bf16(golden) -> None:
    a, b = normal(3, 20, 30, dtype=BF16), normal(3, 30, 200, dtype=BF16)
    text = MATMUL.replace("A @ B", "relu(A @ B)")
    golden("tpu/batched_bf16.tpu", compile_text(text, A=a, B=b).artifact.assembly["tpu"])


def test_every_line_of_code_knows_its_source_line() -> None:
    compiled = compile_text(BIAS_RELU, A=normal(100, 257), B=normal(257, 130), bias=normal(130))
    stage = compiled.trace.stage("tpu")
    assert (stage.level, stage.language) == ("machine", "tpu")
    lines = stage.text.splitlines()
    found: dict[str, set[int]] = {}
    for number, line in enumerate(lines, start=1):
        if line.strip() and not line.startswith("."):
            spans = stage.line_spans[number]
            found.setdefault(line.split()[0], set()).update(span.line for span in spans)
    assert found["systolic_execute"] == {3}
    assert found["vector_add"] == found["activate"] == {4}
    assert found["//"] == {3, 4}
    assert "// 3 | P = A @ B;" in lines
    assert "  // 4 | C = relu(P + bias);" in lines


def test_stages_are_named_as_promised_and_print_as_ir() -> None:
    compiled = compile_text(MATMUL, A=normal(100, 257), B=normal(257, 130))
    names = [stage.name for stage in compiled.trace.stages]
    assert names[-4:] == ["loops", "schedule", "lower", "tpu"]
    for name in names[-3:-1]:
        text = compiled.trace.stage(name).text
        assert print_ir(parse_ir(text)).strip() == text.strip()
    (decision,) = [d for d in compiled.trace.decisions if d.kind == "tile"]
    assert decision.numbers["j.0"] == decision.numbers["k.0"] == 128
    assert decision.numbers["rows_limit"] == 2048


def test_an_artifact_is_plain_data_and_its_text_prints_back() -> None:
    compiled = compile_text(MATMUL, A=normal(100, 257), B=normal(257, 130))
    artifact = compiled.artifact
    json.dumps([artifact.assembly, artifact.resources, artifact.metadata])
    assert artifact.files["kernel.tpu"].decode() == artifact.assembly["tpu"]
    program = read_program(Source(artifact.assembly["tpu"]), SPEC)
    code = [line for line in artifact.assembly["tpu"].splitlines() if "//" not in line]
    assert str(program).split("\n") == [*code, ""]
    again = compile_text(MATMUL, A=normal(100, 257), B=normal(257, 130))
    assert again.artifact == artifact


def test_names_of_the_user_may_be_those_of_the_machine() -> None:
    text = """kernel k(input weight_buffer: tensor, input array: tensor, output clear: tensor) {
        clear = weight_buffer @ array;
    }"""
    a, b = normal(5, 6), normal(6, 7)
    (found,) = run_text(text, weight_buffer=a, array=b).outputs
    assert_close(found, product(a, b), 6, a, b)


def test_an_inout_parameter_is_read_and_written() -> None:
    text = "kernel k(input A: tensor, inout C: tensor) { C = relu(A + C); }"
    a, c = normal(5, 6), normal(5, 6)
    (found,) = run_text(text, A=a, C=c).outputs
    np.testing.assert_array_equal(found, np.maximum(a + c, 0))


def test_an_unused_input_of_another_dtype_is_left_alone() -> None:
    text = "kernel k(input A: tensor, input n: tensor, output C: tensor) { C = A + A; }"
    ran = run_text(text, A=normal(5, 6), n=np.zeros(3, np.int32))
    assert ran.compiled.artifact.metadata["arguments"] == ["A", None, "C"]


def test_targets_have_names_and_facts() -> None:
    assert targets() == ("tpu:spec",)
    assert make_target("tpu").name == make_target("tpu:spec").name == "tpu:spec"
    with pytest.raises(TargetError, match="no target 'tpu:v9'; TPUs are: tpu:spec"):
        make_target("tpu:v9")
    assert TARGET.facts.bytes_per_flop == pytest.approx(512 / 32768)
    assert make_target("tpu") == TARGET


def test_loading_without_a_simulator_says_how_to_get_one() -> None:
    compiled = compile_text(MATMUL, A=normal(3, 3), B=normal(3, 3))
    with pytest.raises(TargetError, match="with_simulator"):
        make_target("tpu").load(compiled.artifact)


def test_double_buffered_weights_are_an_option_of_the_target() -> None:
    a, b = normal(130, 300), normal(300, 300)
    slow = run_text(MATMUL, A=a, B=b)
    fast_target = type(TARGET)(weight_double_buffer=True, simulate=TARGET.simulate)
    out = np.empty_like(slow.outputs[0])
    counters = fast_target.load(slow.compiled.artifact)([a, b], [out])
    np.testing.assert_array_equal(out, slow.outputs[0])
    assert counters["cycles"] == 128 + 9 * 130 + 254 - 1 < slow.counters["cycles"]

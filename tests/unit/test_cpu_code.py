"""What the CPU target makes of nests: schedules, vector code, listings, resources."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.backends.cpu.emit import listing_of, resources_of
from wia_compiler.backends.cpu.host import Host, this_host
from wia_compiler.backends.cpu.schedule_products import tile_shape
from wia_compiler.backends.cpu.target import CpuTarget
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Span
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.pipeline import Compiled, compile_kernel
from wia_compiler.passes.target import ArraySpec

MATMUL = (
    "kernel mm(input a: tensor, input b: tensor, input c: tensor, output d: tensor) "
    "{ d = relu(a @ b + c); }"
)
CONVOLUTION = (
    "kernel cv(input x: tensor, input w: tensor, input b: tensor, output y: tensor) "
    "{ y = relu(conv2d(x, w, b, padding=1)); }"
)
COLUMNS = (
    "kernel cols(input x: tensor, output s: tensor, output m: tensor) "
    "{ s = reduce_sum(x, axis=0); m = softmax(x, axis=0); }"
)
DTYPES_OF = {row.numpy: row for row in DTYPES.values()}
_NARROW = {
    32: "-avx512f,-avx512vl,-avx512bw,-avx512dq,-avx512cd",
    16: "-avx,-avx2,-fma,-f16c,-avx512f",
}


def host_with(vector_bytes: int) -> Host:
    """This CPU, kept from using more than so many bytes of its vector registers."""
    host = this_host()
    if vector_bytes >= host.vector_bytes:
        return host
    features = f"{host.features},{_NARROW[vector_bytes]}"
    return dataclasses.replace(
        host, features=features, vector_bytes=vector_bytes, vector_registers=16
    )


def compiled(text: str, arrays: list[np.ndarray], host: Host | None = None) -> Compiled:
    """A kernel compiled for a host, without caches."""
    (kernel,) = wia.compile(text).values()
    names = [parameter.name for parameter in kernel.signature.inputs]
    specs = [
        ArraySpec(name, TensorSpec(array.shape, DTYPES_OF[array.dtype], name))
        for name, array in zip(names, arrays, strict=True)
    ]
    target = CpuTarget(host or this_host())
    return compile_kernel(kernel.unit.program, kernel.name, specs, target)


def run(made: Compiled, arrays: list[np.ndarray]) -> list[np.ndarray]:
    outputs = [np.full(o.spec.shape, 7, o.spec.dtype.numpy) for o in made.outputs]
    CpuTarget(this_host()).load(made.artifact)(arrays, outputs)
    return outputs


def normal(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(dtype)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("sizes", [(64, 96, 80), (33, 7, 50), (5, 3, 9), (40, 1, 100), (7, 20, 3)])
def test_register_tiles_of_every_width_and_edge(
    vector_bytes: int, sizes: tuple[int, int, int]
) -> None:
    m, k, n = sizes
    arrays = [normal(m, k), normal(k, n), normal(n)]
    (found,) = run(compiled(MATMUL, arrays, host_with(vector_bytes)), arrays)
    np.testing.assert_allclose(
        found, np.maximum(arrays[0] @ arrays[1] + arrays[2], 0), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_register_tiles_of_other_types(dtype: type) -> None:
    arrays = [normal(37, 20, dtype=dtype), normal(20, 45, dtype=dtype), normal(45, dtype=dtype)]
    made = compiled(MATMUL, arrays)
    (found,) = run(made, arrays)
    (kernel,) = wia.compile(MATMUL).values()
    expected = wia.reference(kernel, *arrays).astype(np.float64)
    eps = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=8 * eps, atol=16 * eps)


@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("shape", [(2, 3, 9, 40), (1, 1, 5, 5), (1, 2, 8, 33)])
def test_convolutions_of_every_width_and_edge(vector_bytes: int, shape: tuple[int, ...]) -> None:
    arrays = [normal(*shape), normal(5, shape[1], 3, 3), normal(5)]
    (found,) = run(compiled(CONVOLUTION, arrays, host_with(vector_bytes)), arrays)
    (kernel,) = wia.compile(CONVOLUTION).values()
    np.testing.assert_allclose(found, wia.reference(kernel, *arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 100), (50, 1), (17, 65), (64, 128), (3, 7)])
def test_folds_down_columns(shape: tuple[int, int]) -> None:
    arrays = [normal(*shape)]
    total, soft = run(compiled(COLUMNS, arrays), arrays)
    e = np.exp(arrays[0] - arrays[0].max(0))
    np.testing.assert_allclose(total, arrays[0].sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(soft, e / e.sum(0), rtol=1e-5, atol=1e-7)


def test_a_large_intermediate_lives_in_the_workspace_and_large_rows_too() -> None:
    text = "kernel two(input a: tensor, input b: tensor, output c: tensor) { c = (a @ b) @ b; }"
    arrays = [normal(50, 50), normal(50, 50)]
    made = compiled(text, arrays)
    assert made.artifact.metadata["workspace_bytes"] >= 50 * 50 * 4
    assert (
        "memref.alloc()"
        not in made.trace.stage("lower").text.replace('"register"', "").split("wia.nest")[0]
    )
    np.testing.assert_allclose(run(made, arrays)[0], arrays[0] @ arrays[1] @ arrays[1], rtol=1e-3)


def test_decisions_say_what_was_tiled_and_why() -> None:
    made = compiled(MATMUL, [normal(64, 96), normal(96, 80), normal(80)])
    (decision,) = made.trace.stage("schedule").decisions
    assert decision.taken
    lanes = this_host().vector_bytes // 4
    rows, vectors = tile_shape(64, 80, lanes, this_host().vector_registers)
    assert decision.numbers["columns"] == vectors * lanes
    assert decision.numbers["rows"] == rows
    few = compiled("kernel k(input x: tensor, output y: tensor) { y = exp(x); }", [normal(9)])
    (decision,) = few.trace.stage("schedule").decisions
    assert decision.taken
    assert "vectors along i" in decision.reason


@pytest.mark.parametrize(
    ("text", "shapes", "numbers"),
    [
        # A transposed right side is copied into panels of consecutive vectors.
        ("y = x @ transpose(w, 0, 1)", [(64, 40), (96, 40)], {"panel": "w", "rows": 8}),
        # Vectors run along the filters, where these fill one.
        (
            "y = conv2d(x, w, stride=2, padding=1)",
            [(1, 3, 64, 64), (16, 3, 3, 3)],
            {"filters": 16, "pixels": 16},
        ),
        # Channels alone: vectors run along windows, four rows of them at a time.
        (
            "y = conv2d(x, w, padding=1, groups=4)",
            [(1, 4, 8, 64), (4, 1, 3, 3)],
            {"columns": 64, "rows": 4},
        ),
        # A vector times a matrix: eight rows at a time past four vectors of sums.
        ("y = x @ w", [(1, 64), (64, 200)], {"columns": 64, "rows": 8}),
        # An axis shorter than a vector takes a part of one.
        ("y = x @ w", [(40, 64), (64, 10)], {"columns": 8}),
    ],
)
def test_each_kind_of_contraction_has_its_schedule(
    text: str, shapes: list[tuple[int, ...]], numbers: dict[str, object]
) -> None:
    source = f"kernel k(input x: tensor, input w: tensor, output y: tensor) {{ {text}; }}"
    arrays = [normal(*shape) for shape in shapes]
    host = dataclasses.replace(this_host(), vector_bytes=64, vector_registers=32)
    made = compiled(source, arrays, host)
    (decision,) = made.trace.stage("schedule").decisions
    assert decision.taken
    assert numbers.items() <= decision.numbers.items()
    (kernel,) = wia.compile(source).values()
    if this_host().vector_bytes == 64:
        (found,) = run(made, arrays)
        np.testing.assert_allclose(found, wia.reference(kernel, *arrays), rtol=1e-4, atol=1e-4)


def test_most_machine_lines_can_be_traced_to_the_source() -> None:
    """Of one CPU: address arithmetic that LLVM moves out of loops is a larger share elsewhere."""
    (kernel,) = wia.compile(MATMUL).values()
    specs = [wia.spec(shape, "f32") for shape in ((64, 96), (96, 80), (80,))]
    build = kernel.build(*specs, target="cpu:znver4")
    for name in ("llvm", "x86"):
        stage = build.stage(name)
        lines = stage.text.split("\n")
        code = [
            number
            for number, line in enumerate(lines, start=1)
            if line.startswith(("  ", "\t")) and not line.strip().startswith((".", "#"))
        ]
        traced = [number for number in code if number in stage.line_spans]
        assert len(traced) >= 0.8 * len(code), name
        spans = {span for each in stage.line_spans.values() for span in each}
        written = {MATMUL[span.column - 1 : span.end_column - 1] for span in spans}
        assert {"a @ b", "a @ b + c", "relu(a @ b + c)"} <= written


def test_the_text_is_deterministic() -> None:
    arrays = [normal(64, 96), normal(96, 80), normal(80)]
    first, second = compiled(MATMUL, arrays), compiled(MATMUL, arrays)
    for name in ("lower", "llvm", "x86"):
        assert first.trace.stage(name).text == second.trace.stage(name).text
    assert first.artifact == second.artifact


ASSEMBLY = """\t.intel_syntax noprefix
\t.file\t"<string>"
\t.text
\t.globl\tk
\t.p2align\t4
\t.type\tk,@function
k:
.Lfunc_begin0:
\t.file\t1 "cell"
\t.loc\t1 3 5 prologue_end
\tsub\trsp, 40
\tvaddps\tymm0, ymm1, ymmword ptr [rsp + 8]
\t.loc\t1 0 0
\tret
.Lfunc_end0:
\t.size\tk, .Lfunc_end0-k
\t.section\t".note.GNU-stack","",@progbits
"""


def test_listings_keep_what_a_reader_wants() -> None:
    listing = listing_of(ASSEMBLY, {(3, 5): (Span(3, 5, 3, 9),)})
    lines = listing.text.split("\n")
    assert [line.split()[0] for line in lines if line] == [".text", "k:", "sub", "vaddps", "ret"]
    assert dict(listing.line_spans) == {3: (Span(3, 5, 3, 9),), 4: (Span(3, 5, 3, 9),)}


def test_resources_count_what_the_listing_shows() -> None:
    listing = listing_of(ASSEMBLY, {}).text
    made = compiled("kernel k(input x: tensor, output y: tensor) { y = x + x; }", [normal(1000)])
    found = resources_of(listing, made.artifact.files["kernel.o"])
    assert (found["vector_bits"], found["stack_bytes"], found["stack_accesses"]) == (256, 40, 1)
    assert found["code_bytes"] > 30
    assert made.artifact.resources["vector_bits"] == 8 * this_host().vector_bytes
    assert (
        resources_of("\tmovss\txmm0, dword ptr [rdi]\n", made.artifact.files["kernel.o"])[
            "vector_bits"
        ]
        == 0
    )

"""Schedules on point code: tiles, order and vectors, and the dependences that forbid them."""

from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from loop_kernels import floats
from loop_running import kernel_of
from numpy.typing import NDArray
from wia_compiler.dialects import tile
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.points.dependence import why_in_order
from xdsl.dialects import scf


def same(text: str, schedule: str, *arrays: NDArray[Any]) -> wia.Build:
    """The build of a kernel under a schedule, whose results are those of the text bit for bit."""
    kernel = kernel_of(text)
    wanted = wia.reference(kernel, *(array.copy() for array in arrays))
    build = kernel.build(*arrays, schedule=f"schedule {kernel.name} {{ {schedule}; }}")
    results = build(*(array.copy() for array in arrays))
    np.testing.assert_array_equal(np.asarray(results), np.asarray(wanted))
    return build


def refusal(text: str, schedule: str, *arrays: NDArray[Any]) -> str:
    """The message with which a schedule is refused, without where it stands."""
    kernel = kernel_of(text)
    with pytest.raises(wia.CompileError) as raised:
        kernel.build(*arrays, schedule=f"schedule {kernel.name} {{ {schedule}; }}")
    (diagnostic,) = raised.value.diagnostics
    return diagnostic.message


WHILE = """kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {
    for i in 0..M {
        for j in 0..N {
            let x = A[i, j];
            while (x > 1.0) { x *= 0.5; }
            C[i, j] = x;
        }
    }
}"""
SKEWED = """kernel k(inout A: tensor<M, N, f32>) {
    for i in 1..M { for j in 0..N - 1 { A[i, j] = A[i - 1, j + 1] * 0.5 + 1.0; } }
}"""
WAVE = """kernel k(inout A: tensor<M, N, f32>) {
    for i in 1..M { for j in 1..N { A[i, j] = A[i - 1, j] * 0.5 + A[i, j - 1]; } }
}"""
SCHEDULES = [
    "tile i 4, j 8",
    "tile j 8",
    "tile i 8; tile i 4",
    "tile j 8, i 4",
    "reorder j, i",
    "tile i 4, j 4; unroll j 2; parallel i.0",
    "unroll_and_jam i 2",
    "tile i 4 @thread",
    "tile i 4 @outer",
    "prefetch A 8",
    "pipeline j 2",
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_changes_no_order_that_matters(schedule: str) -> None:
    for shape in ((1, 1), (3, 17), (17, 9)):
        same(WHILE, schedule, floats(*shape))


def test_tiles_are_loops_around_loops() -> None:
    build = same(WHILE, "tile i 4, j 8", floats(9, 20))
    text = build.stage("schedule").text
    assert 'in 9 step 4 axis "i.0"' in text and 'in 20 step 8 axis "j.0"' in text
    assert text.count("arith.minsi") == 2 and 'wia.axis = "j", wia.independent' in text


@pytest.mark.parametrize("schedule", ["reorder j, i", "tile i 3, j 4", "tile j 4, i 3", "tile i 4"])
def test_a_wave_may_be_tiled_and_turned(schedule: str) -> None:
    same(WAVE, schedule, floats(9, 14))


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        ("reorder j, i", "the new order would break a dependence: "),
        ("tile i 3, j 4", "the new order would break a dependence: "),
        ("parallel i", ""),
        ("vectorize i 4", ""),
        ("unroll_and_jam i 2", ""),
    ],
)
def test_a_dependence_is_named(schedule: str, told: str) -> None:
    wanted = "A[i - 1, j + 1] (line 2) reads what A[i, j] (line 2) wrote 1 iteration of i before"
    assert refusal(SKEWED, schedule, floats(6, 7)) == told + wanted
    same(SKEWED, "tile i 3", floats(6, 7))
    same(SKEWED, "unroll j 4", floats(6, 7))


def test_loops_that_hold_more_and_bounds_that_depend() -> None:
    beside = """kernel k(inout A: tensor<M, N, f32>) {
        for i in 1..M { A[i, 0] = A[i - 1, 0]; for j in 1..N { A[i, j] = A[i, j - 1]; } } }"""
    assert "holds more than one loop" in refusal(beside, "reorder j, i", floats(5, 6))
    triangle = """kernel k(inout A: tensor<N, N, f32>) {
        for i in 1..N { for j in 0..i { A[i, j] = A[i - 1, j] + 1.0; } } }"""
    assert "the bounds of loop j depend on" in refusal(triangle, "reorder j, i", floats(5, 5))
    same(triangle, "tile j 2", floats(7, 7))


def test_register_tiles_are_of_leaves() -> None:
    assert "no leaves" in refusal(WHILE, "thread_tile i 4", floats(5, 6))
    assert "no leaf reads A" in refusal(WHILE, "pack A", floats(5, 6))


def test_distances_of_several_iterations() -> None:
    far = """kernel k(inout A: tensor<N, f32>) { for i in 4..N { A[i] = A[i - 4] + 1.0; } }"""
    message = refusal(far, "vectorize i 4", floats(30))
    assert message == "A[i - 4] (line 1) reads what A[i] (line 1) wrote 4 iterations of i before"
    later = """kernel k(inout A: tensor<N, f32>) {
        for i in 0..N - 2 { let x = A[i + 2]; while (x > 1.0) { x *= 0.5; } A[i] = x; } }"""
    message = refusal(later, "parallel i", floats(30))
    assert message == "A[i] (line 2) writes what A[i + 2] (line 2) read 2 iterations of i before"


def order_of(text: str, *shapes: tuple[int, ...]) -> str | None:
    """The dependence that the last loop of the text's point code carries."""
    build = kernel_of(text).build(*(wia.spec(shape, "f32") for shape in shapes), debug=True)
    module = parse_ir(build.stage("loops").text)
    loops = [op for op in module.walk() if isinstance(op, tile.ForOp | scf.ForOp)]
    return why_in_order(loops[-1])


CASES = {
    "even and odd": ("for i in 0..N / 2 { A[2 * i] = A[2 * i + 1]; }", None),
    "halves": ("for i in 0..4 { A[i] = A[i + 4]; }", None),
    "reversed": (
        "for i in 0..N { A[i] = A[N - 1 - i]; }",
        "A[-i + 8] and A[i] may touch the same element in several iterations of i",
    ),
    "one element": (
        "for i in 0..N { A[0] = A[i]; }",
        "A[i] and A[0] may touch the same element in several iterations of i",
    ),
}


@pytest.mark.parametrize(("body", "reason"), CASES.values(), ids=CASES)
def test_which_elements_are_shared(body: str, reason: str | None) -> None:
    text = f"kernel k(inout A: tensor<N, f32>) {{ {body.replace('N / 2', '4')} }}"
    told = order_of(text, (9,))
    assert (told and told.replace(" (line 1)", "")) == reason


LANES = {
    "triangle": "let s = 0.0; for k in 0..j + 1 { s += A[k, j]; } C[j] = s;",
    "from the diagonal": "let s = 0.0; for k in j..N { s += A[k, j] * A[k, 0]; } C[j] = s;",
    "to the other side": "let s = 0.0; for k in 0..N - j { s -= A[k, j]; } C[j] = s;",
    "with steps": "let s = 0.0; for k in 0..j + 1 step 3 { s += A[k, j]; } C[j] = s;",
    "a band": """let s = 0.0;
        for k in max(j - 3, 0)..min(j + 4, N) { s += A[k, j]; }
        C[j] = s;""",
    "a branch in a recurrence": """let z = 0.0;
        for t in 0..20 { let w = z * z + A[0, j]; if (w < 4.0) { z = w; } }
        C[j] = z;""",
    "a store that some do": """for k in 0..N {
            if (A[k, j] > 0.5) { C[j] = C[j] * 0.5 + A[k, j]; }
        }""",
    "the number of the lane": """let s = 0.0;
        for k in 0..j { s = s * 0.5 + A[k, j] * cast(j - k, f32); }
        C[j] = s;""",
}


@pytest.mark.parametrize("body", LANES.values(), ids=LANES)
@pytest.mark.parametrize("columns", [1, 3, 17, 100])
def test_lanes_of_their_own_lengths(body: str, columns: int) -> None:
    text = f"""kernel k(input A: tensor<N, N, f32>, inout C: tensor<N, f32>) {{
        for j in 0..N {{ {body} }} }}"""
    a = floats(columns, columns)
    a[columns // 2, columns // 3] = np.nan
    a[0, columns - 1] = np.inf
    kernel = kernel_of(text)
    c = floats(columns)
    build = kernel.build(a, c)
    np.testing.assert_array_equal(build(a, c.copy()), wia.reference(kernel, a, c.copy()))
    if columns == 100:
        assert "vector<" in build.stage("lower").text
        same(text, "vectorize j 8", a, c)
        assert "vector<8xf32>" in same(text, "vectorize j 8", a, c).stage("lower").text


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("let s = 0.0; for k in 0..j { s += A[j, k]; } C[j] = s;", "lie apart"),
        ("let x = A[j, 0]; while (x > 1.0) { x *= 0.5; } C[j] = x;", "lie apart"),
        ("let x = A[0, j]; while (x > 1.0) { x *= 0.5; } C[j] = x;", "holds a scf.while"),
    ],
)
def test_what_cannot_be_lanes_says_why(body: str, reason: str) -> None:
    text = f"""kernel k(input A: tensor<N, N, f32>, output C: tensor<N, f32>) {{
        for j in 0..N {{ {body} }} }}"""
    assert reason in refusal(text, "vectorize j 8", floats(20, 20))


def test_vectors_inside_of_a_loop_in_order() -> None:
    text = """kernel k(inout x: tensor<N, f32>, input b: tensor<N, f32>) {
        for t in 0..5 { for i in 0..N { x[i] = x[i] * 0.5 + b[i]; } }
    }"""
    for size in (1, 16, 33, 130):
        kernel, arrays = kernel_of(text), (floats(size), floats(size))
        build = kernel.build(*arrays)
        wanted = wia.reference(kernel, *(array.copy() for array in arrays))
        np.testing.assert_array_equal(build(arrays[0].copy(), arrays[1]), wanted)
    assert "vector.maskedload" in build.stage("lower").text


def test_one_block_speaks_of_the_nest_that_computes() -> None:
    """The zeros that an output begins as are a nest of their own, which no block means."""
    text = """kernel k(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>,
                       output C: tensor<M, N, f32>) {
        for i in 0..M { for k in 0..K { for j in 0..N { C[i, j] += A[i, k] * B[k, j]; } } }
    }"""
    build = same(text, "tile i 8, j 8, k 4", floats(9, 10), floats(10, 11))
    assert build.stage("loops").text.count("wia.nest") == 2

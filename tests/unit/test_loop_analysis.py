"""Ranges of indices, checks, independence and starts of nests, as a build's record tells them."""

from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from loop_running import kernel_of, reasons, run_all
from wia_compiler.base.errors import OutOfRangeError
from wia_compiler.passes.loops.forms import Atoms, Bounds, Form

A10 = np.arange(10, dtype=np.float32)
I10 = np.arange(10)
HEAD = "input A: tensor<N, f32>, input I: tensor<M, i64>, output C: tensor<N, f32>"


def checks(body: str, *arrays: Any, head: str = HEAD, **options: Any) -> int:
    """How many accesses of a kernel are checked while it runs."""
    kernel = kernel_of(f"kernel k({head}) {{ {body} }}")
    build = kernel.build(*(arrays or (A10, I10)), **options)
    return build.stage("loops").text.count("tile.check")


PROVEN = [
    "for i in 0..N { C[i] = A[N - 1 - i]; }",
    "for i in 0..N step 3 { C[i] = A[i]; }",
    "for i in 0..N - 1 { C[i] = A[i + 1] - A[i]; }",
    "for i in 0..N { for j in 0..i { C[i - j] = A[j]; } }",
    "for i in 0..N { for j in i..N { C[j - i] = A[j]; } }",
    "for i in 0..N // 2 { C[2 * i] = A[2 * i + 1]; }",
    "for ii in 0..N step 4 { for i in ii..min(ii + 4, N) { C[i] = A[i]; } }",
    "for ii in 0..N step 4 { for i in 0..4 { if (ii + i < N) { C[ii + i] = A[ii + i]; } } }",
    "for i in 0..N { if (i >= 2 && i < N - 2) { C[i] = A[i - 2] + A[i + 2]; } }",
    "for i in 0..N { if (i < 2 || i > 7) { C[i] = 0.0; } else { C[i] = A[i - 2] + A[i + 2]; } }",
    "for i in 0..N { C[i] = i == 0 ? A[0] : A[i - 1]; }",
    "for i in 0..N { if (!(i == 0)) { C[i] = A[max(i, 1) - 1]; } }",
    "for i in 0..N { C[i] = A[min(i + 5, N - 1)] + A[clamp(i - 3, min=0, max=9)]; }",
    "for i in 0..M { let x = I[i]; if (x >= 0 && x < N) { C[x] = A[x]; } }",
    "for i in 0..M { C[I[i] % N] = A[abs(I[i]) % 10]; }",
    "for i in 0..100 { C[i % N] = A[i // 10]; }",
    "for i in 0..N { C[(i // 4) * 4] = A[i]; }",
    "let p: i64 = 0; for i in 0..N step 2 { C[p] = A[i]; p += 1; }",
    "let p: i64 = 0; for i in 0..5 { C[p] = A[p + 1]; p += 2; }",
    "let p: i64 = 9; for i in 0..N { C[p] = A[i]; p -= 1; }",
    "let k: i64 = 0; while (k < N) { C[k] = A[k]; k += 1; }",
    "let k: i64 = 0; while (k + 1 < N) { C[k] = A[k + 1]; k = k + 2; }",
    "let lo: i64 = 0; let hi: i64 = N - 1; while (lo < hi) { C[lo] = A[hi]; lo += 1; hi -= 1; }",
    "for i in 3..N { C[i - 3] = A[i]; }",
]


@pytest.mark.parametrize("body", PROVEN)
def test_proven_accesses_are_not_checked(body: str) -> None:
    assert checks(body) == 0
    run_all(f"kernel k({HEAD}) {{ {body} }}", A10, I10)


UNPROVEN = {
    "for i in 0..M { C[I[i]] = A[i]; }": 1,
    "for i in 0..M { C[I[i] + 1 - 1] = A[I[i]]; }": 2,
    "for i in 0..M { if (I[i] < N) { C[I[i]] = A[i]; } }": 1,
    "let p: i64 = 0; for i in 0..N { if (A[i] > 5.0) { C[p] = A[i]; p += 1; } }": 1,
    "let k: i64 = 0; while (A[k] < 5.0) { C[k] = A[k]; k += 1; }": 3,
}


@pytest.mark.parametrize(("body", "count"), UNPROVEN.items())
def test_what_is_not_proven_is_checked(body: str, count: int) -> None:
    assert checks(body) == count
    run_all(f"kernel k({HEAD}) {{ {body} }}", A10, I10)


def test_a_guard_that_does_not_help_is_not_believed() -> None:
    """Two reads of one element are two values: a store may lie between them."""
    body = "for i in 0..M { if (I[i] >= 0 && I[i] < N) { C[I[i]] = A[i]; } }"
    assert checks(body) == 1


def test_debug_checks_every_access() -> None:
    body = "for i in 0..N { C[i] = A[i]; }"
    assert checks(body) == 0
    assert checks(body, debug=True) == 2
    run_all(f"kernel k({HEAD}) {{ {body} }}", A10, I10, debug=True)


WRAPS = [
    "for i in 0..N { C[i + n - n] = A[i]; }",
    "for i in 0..N { C[i * n // n] = A[i]; }",
    "for i in n..n + 3 { C[i - n] = A[0]; }",
]


@pytest.mark.parametrize("body", WRAPS)
@pytest.mark.parametrize("n", [1, 2**62, 2**63 - 1, -(2**63)])
def test_arithmetic_that_might_wrap_is_not_believed(body: str, n: int) -> None:
    """i64 wraps, also in an index: what LLVM makes of it is what the reference does."""
    text = f"kernel k(input A: tensor<N, f32>, n: i64, output C: tensor<N, f32>) {{ {body} }}"
    kernel = kernel_of(text)
    results: list[Any] = []
    for run in (kernel, lambda *arrays: wia.reference(kernel, *arrays)):
        try:
            results.append(run(A10, n).tolist())
        except OutOfRangeError as error:
            results.append(error.index)
    assert results[0] == results[1]


@pytest.mark.parametrize("step", [1, 3, 2**40, 2**63 - 1, 0, -1, -(2**63)])
@pytest.mark.parametrize("bounds", [(0, 10), (5, 5), (7, 2), (-(2**63), -(2**63) + 4)])
def test_bounds_that_come_with_the_call(step: int, bounds: tuple[int, int]) -> None:
    text = """
    kernel k(low: i64, high: i64, by: i64, output n: i64, output C: tensor<1, i64>) {
        let count: i64 = 0;
        for i in low..high step by { count += 1; C[0] = i; }
        n = count;
    }"""
    low, high = bounds
    if step <= 0:
        for run in (kernel_of(text), lambda *numbers: wia.reference(kernel_of(text), *numbers)):
            with pytest.raises(OutOfRangeError, match=f"the step of i is {step}"):
                run(low, high, step)
        return
    n, c = run_all(text, low, high, step)
    places = range(low, high, step)
    assert n == len(places) and c[0] == (places[-1] if places else 0)


def test_a_loop_to_the_largest_number_ends() -> None:
    text = """
    kernel k(low: i64, output n: i64, output C: tensor<1, i64>) {
        let count: i64 = 0;
        for i in low..9223372036854775807 step 2 { count += 1; C[0] = count; }
        n = count;
    }"""
    assert run_all(text, 2**63 - 8)[0] == 4


def test_a_failed_check_tells_line_array_index_and_size() -> None:
    kernel = kernel_of("""kernel gather(input A: tensor<N, f32>, input I: tensor<M, i32>,
              output C: tensor<M, f32>) {
    for i in 0..M {
        C[i] = A[I[i]];
    }
}""")
    wanted = [
        "error: index 12 lies outside 'A', which has size 10",
        "  --> gather:4:16",
        "   4 |         C[i] = A[I[i]];",
        "     |                ^^^^^^^",
        "  help: indices go from 0 to 9; guard the access with an if",
    ]
    index = np.array([3, 12, -1], np.int32)
    for _ in range(3):  # the third call takes the short way
        with pytest.raises(OutOfRangeError) as caught:
            kernel(A10, index)
        assert str(caught.value).split("\n") == wanted
    error = caught.value
    assert (error.line, error.array, error.index, error.sizes) == (4, "A", (12,), (10,))
    assert isinstance(error, IndexError) and isinstance(error, wia.WiaError)
    np.testing.assert_array_equal(kernel(A10, np.array([1, 2, 9], np.int32)), [1, 2, 9])


def test_an_error_of_two_axes_names_the_axis() -> None:
    kernel = kernel_of("""kernel k(input A: tensor<M, N, f32>, i: i32, output s: f32) {
        s = A[1, i];
    }""")
    with pytest.raises(OutOfRangeError, match="index 7 of axis 1 lies outside 'A'"):
        kernel(np.zeros((2, 5), np.float32), 7)
    a = np.arange(10, dtype=np.float32).reshape(2, 5)
    assert kernel(a, 4) == 9


def test_stores_outside_are_dropped_and_loads_give_0() -> None:
    text = """
    kernel k(input I: tensor<M, i64>, inout C: tensor<N, f32>) {
        for i in 0..M { C[I[i]] = 7.0; }
    }"""
    c = np.zeros(4, np.float32)
    with pytest.raises(OutOfRangeError):
        kernel_of(text)(np.array([1, 99, -5, 3]), c)


INDEPENDENT = {
    "for i in 0..N { C[i] = A[i]; }": {"i": True},
    "for i in 1..N { C[i] = C[i - 1] + A[i]; }": {"i": False},
    "for i in 0..5 { C[2 * i] = A[i]; C[2 * i + 1] = A[i]; }": {"i": True},
    "for i in 0..4 { C[2 * i] = A[i]; C[2 * i + 2] = A[i]; }": {"i": False},
    "for i in 0..N { C[0] = A[i]; }": {"i": False},
    "for ii in 0..N step 4 { for i in ii..min(ii + 4, N) { C[i] = A[i]; } }": {
        "ii": True,
        "i": True,
    },
    "for ii in 0..7 step 3 { for i in ii..ii + 4 { C[i] = A[i]; } }": {"ii": False, "i": True},
    "for i in 0..N { for j in 0..N { C[i] += A[j]; } }": {"i": True, "j": False},
    "for i in 0..2 { for j in 0..5 { C[5 * i + j] = A[j]; } }": {"i": True, "j": True},
    "for i in 0..2 { for j in 0..5 { C[4 * i + j] = A[j]; } }": {"i": False, "j": True},
    "for i in 0..N { let t: tensor<2, f32> = 0; t[0] = A[i]; C[i] = t[0] + t[1]; }": {"i": True},
    "for i in 0..M { C[I[i]] = A[0]; }": {"i": False},
    "let s = 0.0; for i in 0..N { s += A[i]; } C[0] = s;": {"i": False},
    "for i in 0..N { if (i < 9) { C[i + 1] = A[i]; } }": {"i": True},
}


@pytest.mark.parametrize(("body", "wanted"), INDEPENDENT.items())
def test_independent_loops(body: str, wanted: dict[str, bool]) -> None:
    text = f"kernel k({HEAD}) {{ {body} }}"
    run_all(text, A10, I10)
    told = reasons(kernel_of(text).build(A10, I10), "loop")
    assert {name.removeprefix("loop "): taken for name, (taken, _) in told.items()} == wanted


def test_decisions_say_why() -> None:
    text = """
    kernel matmul(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>,
                  output C: tensor<M, N, f32>) {
        for i in 0..M { for j in 0..N {
            let sum = 0.0;
            for k in 0..K { sum += A[i, k] * B[k, j]; }
            C[i, j] = sum;
        } }
    }"""
    build = kernel_of(text).build(wia.spec((4, 5), "f32"), wia.spec((5, 6), "f32"))
    told = reasons(build, "loop")
    assert told["loop i"] == (
        True,
        "stores C[i, j]; reads A[i, k], B[k, j]: iterations are independent",
    )
    assert told["loop k"] == (False, "carries sum from one iteration to the next")
    assert reasons(build, "start") == {"zeros for C": (False, "every element is written")}
    loops = build.stage("loops").text
    assert loops.count("tile.for") == 2 and "k = 5 reduce" in loops and "wia.ordered" in loops
    assert build.flops == 2 * 4 * 5 * 6


WRITTEN = {
    "for i in 0..N { C[i] = A[i]; }": True,
    "for i in 0..N { C[i] = 0.0; for j in 0..N { C[i] += A[j]; } }": True,
    "for i in 0..N { C[i] += A[i]; }": False,
    "for i in 1..N { C[i] = A[i]; }": False,
    "for i in 0..N { if (A[i] > 0.0) { C[i] = A[i]; } }": False,
    "for i in 0..N step 2 { C[i] = A[i]; }": False,
    "for i in 0..N step 2 { C[i] = A[i]; C[i + 1] = A[i]; }": True,
    "for i in 0..N step 5 { C[i] = 1.0; C[i + 1] = 1.0; C[i + 4] = 1.0; }": False,
    "for ii in 0..N step 4 { for i in ii..min(ii + 4, N) { C[i] = A[i]; } }": True,
    "for ii in 0..N step 4 { for i in ii..min(ii + 3, N) { C[i] = A[i]; } }": False,
    "for ii in 0..N step 5 { for i in ii..ii + 5 { C[i] = A[i]; } }": True,
    "for k in 0..M { for i in 0..N { C[i] = A[i]; } }": True,
    "for k in M..M { for i in 0..N { C[i] = A[i]; } }": False,
    "for k in 0..I[0] { for i in 0..N { C[i] = A[i]; } }": False,
    "C[0] = C[1]; for i in 0..N { C[i] = A[i]; }": False,
}


@pytest.mark.parametrize(("body", "whole"), WRITTEN.items())
def test_zeros_are_written_where_they_are_needed(body: str, whole: bool) -> None:
    text = f"kernel k({HEAD}) {{ {body} }}"
    run_all(text, A10, I10)
    told = reasons(kernel_of(text).build(A10, I10), "start")
    assert told["zeros for C"][0] is not whole


def test_an_array_that_nothing_else_needs_is_changed_in_place() -> None:
    text = """
    kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
        for i in 0..N { C[i] = A[i]; }
        C = C * 2.0;
        for i in 0..N step 2 { C[i] += 1.0; }
    }"""
    (c,) = run_all(text, A10)
    np.testing.assert_array_equal(c, A10 * 2 + (np.arange(10) % 2 == 0))
    loops = kernel_of(text).build(A10).stage("loops").text
    assert "copy" not in loops and loops.count("memref.alloc()") == 1


def test_operands_of_a_nest_are_left_as_they_are() -> None:
    text = """
    kernel k(input A: tensor<N, f32>, output B: tensor<N, f32>, output C: tensor<N, f32>) {
        B = A * 2.0;
        C = B;
        for i in 0..N { C[i] = C[i] + 1.0; }
    }"""
    b, c = run_all(text, A10)
    np.testing.assert_array_equal(b, A10 * 2)
    np.testing.assert_array_equal(c, A10 * 2 + 1)


def test_bounds_of_sums() -> None:
    atoms = Atoms()
    n = atoms.make("n", 0, 100)
    i = atoms.make("i", -(2**63), 2**63 - 1, [Form()], [n - 1])
    bounds = Bounds([i - 4])
    assert (bounds.low(i), bounds.high(i)) == (4, 99)
    assert (bounds.low(n - i), bounds.high(n - i - 5)) == (1, 91)
    assert str(n * 2 - i + 3) == "2 * n - i + 3"
    assert str(Form()) == "0" and str(i * -1) == "-i"

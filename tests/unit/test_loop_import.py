"""Statements on elements as IR: one nest a run, variables as values, names from outside."""

import re

import numpy as np
import pytest
from loop_running import kernel_of, run_all
from wia_compiler.base.source import Source
from wia_compiler.dialects.text import print_ir
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program

A6 = np.arange(6, dtype=np.float32)


def imported(text: str) -> str:
    module = import_program(parse(Source(text))).module
    module.verify()
    return print_ir(module)


def test_a_run_of_statements_is_one_nest() -> None:
    text = imported("""
    kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>, output D: tensor<N, f32>) {
        for i in 0..N { C[i] = A[i]; }
        C[0] = 1.0;
        for i in 0..N { D[i] = C[i]; }
        D = D * 2.0;
        for i in 0..N { D[i] += 1.0; }
    }""")
    assert text.count("loop.nest") == 2
    assert text.count("loop.output") == 2


def test_a_variable_that_a_loop_changes_is_carried() -> None:
    text = imported("""
    kernel k(input A: tensor<N, f32>, output s: f32) {
        let sum = 0.0;
        let other = 1.0;
        for i in 0..N { sum += A[i] * other; }
        s = sum;
    }""")
    (loop,) = re.findall(r"loop\.for .*", text)
    assert "iter (%sum" in loop and "other" not in loop
    assert re.search(r"%sum\w* = loop\.nest", text)


def test_numbers_of_the_text_are_written_inside() -> None:
    """A literal takes the dtype of what it meets in the nest, whatever it is outside."""
    text = """
    kernel k(input A: tensor<N, f32>, input B: tensor<N, f16>, output C: tensor<N>,
             output D: tensor<N>) {
        let half = 1.0 / 2.0;
        for i in 0..N { C[i] = A[i] * half; D[i] = B[i] * half; }
    }"""
    c, d = run_all(text, A6, A6.astype(np.float16))
    assert (c.dtype, d.dtype) == (np.float32, np.float16)
    np.testing.assert_array_equal(c, A6 / 2)


def test_sides_that_name_elements_are_computed_where_they_are_needed() -> None:
    text = imported("""
    kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
        for i in 0..N {
            let both = i > 0 && i < 5;
            C[i] = both && A[i - 1] > 0.0 ? A[i - 1] : 0.0;
        }
    }""")
    assert text.count("wia.logical_and") == 1  # of two comparisons: both sides cost nothing
    assert text.count("loop.if") == 2


def test_every_op_has_its_place_in_the_text() -> None:
    build = kernel_of("""kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
    for i in 0..N {
        let x = i > 0 ? C[i - 1] : 0.0;
        C[i] = x + A[i];
    }
}""").build(A6)
    for stage in ("infer-shapes", "loops"):
        rows = [row for row in build.stage(stage).ops if row.name != "func.return"]
        assert rows and all(row.spans for row in rows), stage
    (store,) = [row for row in build.stage("loops").ops if row.name == "memref.store"]
    assert [span.line for span in store.spans] == [4]


MIXED = {
    "a result that is returned": (
        """kernel k(input A: tensor<N>) {
            let s = 0.0;
            for i in 0..N { s += A[i]; }
            return s, A * s;
        }""",
        [15.0, A6 * 15],
    ),
    "a local tensor of the kernel": (
        """kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
            let acc: tensor<N, f32> = 0;
            for i in 0..N { acc[i] = A[i] + 1.0; }
            C = acc * 2.0;
        }""",
        [(A6 + 1) * 2],
    ),
    "local tensors larger than a stack": (
        """kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
            for i in 0..N {
                let b: tensor<100, 100, f32> = 1;
                for j in 0..2 {
                    let c: tensor<50, 100, f32> = 2;
                    c[j, j] = A[i];
                    b[j, i] = c[j, i];
                }
                C[i] = b[0, i] + b[1, i];
            }
        }""",
        [np.array([2, 3, 4, 4, 4, 4], np.float32)],
    ),
    "an inout array between tensor statements": (
        """kernel k(inout A: tensor<N, f32>, output B: tensor<N, f32>) {
            for i in 0..N { A[i] = A[i] * 2.0; }
            B = A + 1.0;
            for i in 0..N { A[i] += B[i]; }
        }""",
        [A6 * 4 + 1, A6 * 2 + 1],
    ),
    "a nest in a loop over tensors": (
        """kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
            x = A;
            for step in 0..3 {
                y = x * 2.0;
                for i in 1..N { y[i] = y[i] + x[i - 1]; }
                x = y;
            }
            C = x;
        }""",
        [np.array([0, 8, 28, 54, 81, 108], np.float32)],
    ),
    "a branch over nests": (
        """kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
            if (reduce_sum(A) > 1.0) { for i in 0..N { C[i] = -A[N - 1 - i]; } }
            else { for i in 0..N { C[i] = A[i]; } }
        }""",
        [-A6[::-1]],
    ),
    "an element in a statement over tensors": (
        """kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) {
            let n = 2;
            C = A * A[n + 1] + A[0];
        }""",
        [A6 * 3],
    ),
    "a shape that the stores tell": (
        """kernel k(input A: tensor<N, f32>, output C: tensor) {
            for i in 0..N // 2 { for j in 0..2 { C[i, 2 * j] = A[i]; } }
        }""",
        [np.array([[0, 0, 0], [1, 0, 1], [2, 0, 2]], np.float32)],
    ),
    "a kernel called three times": (
        """kernel f(input x: tensor<N, f32>, output y: tensor<N, f32>) {
            for i in 0..N { y[i] = x[i] + 1.0; }
        }
        kernel k(input A: tensor<N, f32>, output C: tensor<N, f32>) { C = f(f(f(A))); }""",
        [A6 + 3],
    ),
}


@pytest.mark.parametrize(("text", "wanted"), MIXED.values(), ids=MIXED)
def test_tensors_and_elements_mix(text: str, wanted: list[np.ndarray]) -> None:
    results = run_all(text, A6)
    for have, want in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(have, want)


def test_an_array_of_many_axes_is_checked_too() -> None:
    text = """
    kernel k(input A: tensor, n: i64, output s: f32) {
        let t = 0.0;
        for i in 0..2 { t += A[i, 0, 0, 0, 0, 0, 0, n]; }
        s = t;
    }"""
    array = np.ones((2,) * 8, np.float32)
    assert run_all(text, array, 1)[0] == 2
    with pytest.raises(IndexError, match="index 2 of axis 7 lies outside 'A'"):
        kernel_of(text)(array, 2)

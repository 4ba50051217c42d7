"""Random schedules on kernels of many kinds: one that is taken changes no result."""

import numpy as np
import wia_compiler as wia
from hypothesis import given, settings
from hypothesis import strategies as st

KERNELS = {
    "add": "for i in 0..M { for j in 0..N { C[i, j] = A[i, j] + 0.5; } }",
    "rows": """for i in 0..M {
        let sum = 0.0;
        for j in 0..N { sum += A[i, j]; }
        for j in 0..N { C[i, j] = A[i, j] - sum; }
    }""",
    "squares": """for i in 0..M { for j in 0..N {
        let sum = 0.0;
        for k in 0..N { sum += A[i, k] * A[i, k]; }
        C[i, j] = sum + A[i, j];
    } }""",
    "branch": """for i in 0..M { for j in 0..N {
        let x = A[i, j];
        if (j > 0 && x > 0.0) { x += A[i, j - 1]; }
        C[i, j] = x;
    } }""",
    "running": """for j in 0..N {
        let s = 0.0;
        for i in 0..M { s = s * 0.5 + A[i, j]; C[i, j] = s; }
    }""",
    "tensor": "C = relu(A * 2.0);",
    "softmax": "C = softmax(A, axis=1);",
}
EXACT = ("add", "rows", "squares", "branch", "running", "tensor")
"""Kernels that add in the order of their text, or nothing: every bit stays."""
LOOPS = ("i", "j", "k", "i.0", "j.0", "j.1")
COUNTS = (1, 2, 3, 4, 8, 16, 33)


@st.composite
def directives(draw: st.DrawFn) -> str:
    """One line of a schedule, which may make no sense for a kernel."""
    loop, count = draw(st.sampled_from(LOOPS)), draw(st.sampled_from(COUNTS))
    lines = [
        *(f"{word} {loop} {count}" for word in ("unroll", "unroll_and_jam", "pipeline")),
        *(f"{word} {loop} {count}" for word in ("tile", "thread_tile", "vectorize")),
        *(f"unroll {loop}", f"accumulators {count}", f"accumulators {loop} {count}"),
        *(
            f"prefetch A {count}",
            f"prefetch A {count} at {loop}, L2",
            "cache A",
            f"pack A at {loop}",
        ),
        *("reorder j, i", f"parallel {loop}"),
    ]
    return draw(st.sampled_from(lines))


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(KERNELS)),
    st.sampled_from([0, 1, 3, 17]),
    st.sampled_from([1, 5, 40]),
    st.lists(directives(), min_size=1, max_size=4),
)
def test_a_schedule_is_refused_or_changes_nothing(
    name: str, rows: int, columns: int, lines: list[str]
) -> None:
    text = (
        f"kernel k(input A: tensor<M, N, f32>, output C: tensor<M, N, f32>) {{ {KERNELS[name]} }}"
    )
    kernel = wia.compile(text).k
    A = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
    wanted = wia.reference(kernel, A)
    try:
        build = kernel.build(A, schedule="; ".join(lines))
    except wia.CompileError as refusal:
        assert all(each.message for each in refusal.diagnostics)
        return
    split = any(line.startswith("accumulators") for line in lines)
    if name in EXACT and not split:
        np.testing.assert_array_equal(build(A), wanted)
    else:
        np.testing.assert_allclose(build(A), wanted, rtol=2e-5, atol=2e-5)

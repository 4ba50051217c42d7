"""Fusion in programs with branches and loops: each block by itself, a loop nest as a whole."""

import numpy as np
import pytest
import wia_compiler as wia
from fusion_building import of_kind

BRANCHES = """
kernel k(input x: tensor, input t: f32, output y: tensor, output s: tensor) {
    h = relu(x + 1.0);
    if (reduce_sum(abs(h)) > t) { y = exp(h) * 2.0; s = exp(h) + 1.0; }
    else { y = h - 1.0; s = -h; }
    y = y * 3.0;
}
"""
LOOP = """
kernel k(input x: tensor, input t: f32, output y: tensor) {
    y = x;
    while (reduce_sum(abs(y)) > t) { y = relu(y * 0.5) - 0.125 * y; }
}
"""
ELEMENTS = """
kernel k(input x: tensor<N, f32>, input t: f32, output y: tensor<N, f32>) {
    a = exp(x) * t;
    for i in 0..N { y[i] = a[i] + 1.0; }
    y = tanh(y * 2.0);
}
"""


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        (BRANCHES, ["fused_add_relu_abs_reduce_sum_gt", "fused_exp_mul_add", "fused_sub_neg"]),
        (LOOP, ["fused_abs_reduce_sum_gt", "fused_mul_relu_mul_sub"]),
        (ELEMENTS, ["fused_exp_mul", "fused_mul_tanh"]),
    ],
    ids=["branches", "loop", "elements"],
)
@pytest.mark.parametrize("limit", [0.5, 1e9])
def test_each_block_has_its_kernels(text: str, kernels: list[str], limit: float) -> None:
    x = np.random.default_rng(0).normal(size=37).astype(np.float32)
    program = wia.compile(text)
    build = program.k.build(x, np.float32(limit))
    made = [row.label for row in build.stage("fusion").ops if row.label.startswith("fused_")]
    assert made == kernels
    results = build(x, np.float32(limit))
    expected = wia.reference(program.k, x, np.float32(limit))
    for one, other in zip(listed(results), listed(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def listed(results: object) -> list[np.ndarray]:
    return [np.asarray(each) for each in (results if isinstance(results, tuple) else (results,))]


def test_a_value_that_other_blocks_read_is_written_on_the_way() -> None:
    build = wia.compile(BRANCHES).k.build(wia.spec((37,), "f32"), wia.spec((), "f32"))
    decisions = of_kind(list(build.stage("fusion").decisions), "vertical")
    (decision,) = [each for each in decisions if each.candidate == "relu → abs"]
    assert decision.taken
    assert "is written on the way, for" in decision.reason
    assert "exp of another block" in decision.reason


def test_no_candidate_spans_two_blocks() -> None:
    build = wia.compile(BRANCHES).k.build(wia.spec((37,), "f32"), wia.spec((), "f32"))
    blocks = {row.id: row.parent for row in build.stage("dce").ops}
    for decision in build.stage("fusion").decisions:
        assert len({blocks[subject] for subject in decision.subjects}) == 1

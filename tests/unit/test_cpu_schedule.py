"""What the CPU's default schedule decides, and that its decisions are shown with their reasons."""

import numpy as np
import pytest
import wia_compiler as wia


def decisions(text: str, *specs: wia.Spec) -> dict[str, str]:
    (kernel,) = wia.compile(text).values()
    made = kernel.build(*specs).stage("schedule").decisions
    return {decision.candidate: decision.reason for decision in made}


def test_a_softmax_computes_its_exponentials_once() -> None:
    text = "kernel k(input X: tensor, output Y: tensor) { Y = softmax(X, dim=1); }"
    (kernel,) = wia.compile(text).values()
    build = kernel.build(wia.spec((5, 300), "f32"))
    assert build.stage("loops").text.count("math.exp") == 2
    assert build.stage("schedule").text.count("math.exp") == 1
    (decision,) = build.stage("schedule").decisions
    assert decision.taken
    assert str(decision.numbers["schedule"]).startswith("keep")


def test_a_row_that_is_too_long_to_keep_is_computed_again() -> None:
    text = "kernel k(input X: tensor, output Y: tensor) { Y = softmax(X, dim=1); }"
    (kernel,) = wia.compile(text).values()
    build = kernel.build(wia.spec((2, 200_000), "f32"))
    assert build.stage("schedule").text.count("math.exp") == 2
    X = np.random.default_rng(1).standard_normal((2, 200_000)).astype(np.float32)
    assert np.abs(kernel(X) - wia.reference(kernel, X)).max() < 1e-6


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("kernel k(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }", 2),
        ("kernel k(input A: tensor, output C: tensor) { C = reduce_sum(A, dim=0); }", 1),
        ("kernel k(input A: tensor, output C: tensor) { C = A + A; }", 1),
    ],
)
def test_every_nest_has_a_decision_with_a_reason(text: str, specs: int) -> None:
    found = decisions(text, *[wia.spec((64, 64), "f32")] * specs)
    assert len(found) == 1
    assert all(reason and not reason.endswith(".") for reason in found.values())

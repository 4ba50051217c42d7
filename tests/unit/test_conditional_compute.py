"""The chapter's ``@conditional_compute`` as it is written, on both of its ways."""

import numpy as np
import pytest
import wia_compiler as wia
from chapter_texts import CONDITIONAL, EXPENSIVE

TEXT = EXPENSIVE + CONDITIONAL


@pytest.fixture(scope="module")
def kernel():
    """The func, as a kernel."""
    return wia.compile(TEXT)["conditional_compute"]


@pytest.mark.parametrize("threshold", [0.0, 6.0, 1e9, np.inf])
def test_both_ways(kernel, threshold: float) -> None:
    x = np.array([1.0, -2.0, 3.0], np.float32)
    expected = np.tanh(x * x) if np.abs(x).sum() > threshold else x
    np.testing.assert_allclose(kernel(x, threshold), expected, rtol=1e-6)
    np.testing.assert_allclose(wia.reference(kernel, x, threshold), expected, rtol=1e-6)


def test_nan_is_above_nothing(kernel) -> None:
    x = np.array([np.nan, 1.0], np.float32)
    np.testing.assert_array_equal(kernel(x, 0.0), x)


def test_blocks_keep_their_names_down_to_the_machine(kernel) -> None:
    build = kernel.build(wia.spec((3,), "f32"), 1.0, verify=True)
    for stage in ("import", "canonicalize", "fusion", "decompose"):
        text = build.stage(stage).text
        assert "^exit(%final:" in text, stage
        assert "^compute" in text, stage
    host = build.stage("loops").text
    assert "cf.cond_br" in host
    assert "compute:" in build.assembly("llvm")


def test_the_way_that_only_passes_on_is_no_block_of_its_own(kernel) -> None:
    """``^skip`` does nothing: who goes there goes on to ``^exit``."""
    build = kernel.build(wia.spec((3,), "f32"), 1.0)
    assert "^skip" in build.stage("infer-shapes").text
    assert "^skip" not in build.stage("canonicalize").text


def test_on_a_gpu_the_condition_is_read_back(kernel) -> None:
    build = kernel.build(wia.spec((3,), "f32"), 1.0, target="gpu:sm_90")
    blocks = build.artifact.metadata["blocks"]
    assert sum(block["condition"] is not None for block in blocks) == 1
    assert ".visible .entry" in build.assembly("ptx")

"""The kernels that WIA-AI-011, chapter 5, writes in its own notations, as written, on the CPU."""

from __future__ import annotations

import numpy as np
import pytest
import wia_compiler as wia
from chapter_texts import (
    CHAINS,
    CONDITIONAL,
    DECLARATION,
    EXPENSIVE,
    FORWARD,
    FUSION,
    MATMUL,
    MATMUL_IR,
    OPS,
)
from numpy.typing import NDArray

Array = NDArray[np.float32]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("text", [MATMUL, MATMUL_IR])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 17, 5), (0, 4, 2), (127, 33, 64)])
def test_matmul(text: str, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = normal(m, k), normal(k, n, seed=1)
    found = wia.compile(text).matmul_kernel(a, b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-5, atol=1e-4)


def test_both_notations_of_matmul_are_the_same_function() -> None:
    texts = [wia.compile(text).matmul_kernel.ir() for text in (MATMUL, MATMUL_IR)]
    assert texts[0] == texts[1]
    assert wia.compile(MATMUL).matmul_kernel.ir("chapter") in MATMUL_IR


def convolved(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))
    return np.einsum("nchwrs,fcrs->nfhw", windows, w, dtype=np.float64).astype(np.float32)


def normalised(x: Array, mean: Array, var: Array, weight: Array, bias: Array) -> Array:
    shape = (1, -1, 1, 1)
    scaled = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + np.float32(1e-5))
    return (scaled * weight.reshape(shape) + bias.reshape(shape)).astype(np.float32)


def pooled(x: Array) -> Array:
    n, c, h, w = x.shape
    blocks = x[:, :, : h // 2 * 2, : w // 2 * 2].reshape(n, c, h // 2, 2, w // 2, 2)
    return blocks.max(axis=(3, 5))


def parameters(channels: int, seed: int) -> tuple[Array, ...]:
    mean, weight, bias = (normal(channels, seed=seed + place) for place in range(3))
    return mean, np.abs(normal(channels, seed=seed + 3)) + np.float32(0.5), weight, bias


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max())
    return powers / powers.sum()


@pytest.mark.parametrize(("batch", "size"), [(1, 10), (3, 13), (2, 17)])
def test_forward_pass_with_its_free_names_bound(batch: int, size: int) -> None:
    x = normal(batch, 3, size, size)
    last = (size - 2) // 2 - 2
    weight1, weight2 = normal(4, 3, 3, 3, seed=1), normal(5, 4, 3, 3, seed=2) * np.float32(0.2)
    bn1_params, bn2_params = parameters(4, 10), parameters(5, 20)
    fc_weight = normal(batch * 5 * last**2, 7, seed=3) * np.float32(0.1)
    bindings = {
        "weight1": weight1,
        "bn1_params": bn1_params,
        "weight2": weight2,
        "bn2_params": bn2_params,
        "fc_weight": fc_weight,
    }
    kernel = wia.compile(FORWARD, bindings=bindings).forward_pass
    first = pooled(np.maximum(normalised(convolved(x, weight1), *bn1_params), 0))
    second = np.maximum(normalised(convolved(first, weight2), *bn2_params), 0)
    expected = softmax(second.reshape(-1) @ fc_weight)  # flatten joins all axes, as torch.flatten
    np.testing.assert_allclose(kernel(x), expected, rtol=2e-4, atol=1e-5)
    np.testing.assert_allclose(wia.reference(kernel, x), expected, rtol=2e-4, atol=1e-5)
    fc_weight *= -1  # bound arrays are read at each call
    expected = softmax(second.reshape(-1) @ fc_weight)
    np.testing.assert_allclose(kernel(x), expected, rtol=2e-4, atol=1e-5)


def test_forward_pass_names_what_is_not_bound() -> None:
    with pytest.raises(wia.CompileError) as caught:
        wia.compile(FORWARD, bindings={"weight1": normal(4, 3, 3, 3)})
    missing = [each.message for each in caught.value.diagnostics]
    names = ["bn1_params", "weight2", "bn2_params", "fc_weight"]
    assert missing == [f"no value named '%{name}'" for name in names]


@pytest.mark.parametrize("size", [1, 3, 17, 1000])
def test_conditional_compute_on_both_paths(size: int) -> None:
    kernel = wia.compile(CONDITIONAL + EXPENSIVE).conditional_compute
    x = normal(size)
    norm = float(np.abs(x).sum())
    np.testing.assert_allclose(kernel(x, norm * 0.9), np.tanh(x * x), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(kernel(x, norm * 1.1), x)
    np.testing.assert_array_equal(kernel(np.full(3, np.nan, np.float32), 0.0), [np.nan] * 3)


def test_the_bare_lines_of_the_fusion_section_are_one_kernel() -> None:
    kernel = wia.compile(FUSION).snippet
    x, w, bias = normal(2, 3, 9, 7), normal(4, 3, 3, 3, seed=1), normal(1, 4, 1, 1, seed=2)
    expected = np.maximum(convolved(x, w) + bias, 0)
    before, after = kernel(x, w, bias)
    np.testing.assert_allclose(before, expected, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-4)


def test_the_bare_chains_call_what_the_text_defines() -> None:
    x, y = normal(17), normal(3, 5, seed=1)
    kernel = wia.compile(CHAINS + OPS).snippet
    assert [each.name for each in kernel.signature.passed] == ["input", "input1", "input2"]
    found = kernel(x, y, -y)
    expected = np.maximum((x + 1) * 2, 0), -y, np.abs(y)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_names_of_a_snippet_that_are_bound_are_no_parameters() -> None:
    w, bias = normal(4, 3, 3, 3, seed=1), normal(1, 4, 1, 1, seed=2)
    kernel = wia.compile(FUSION, bindings={"weight": w, "bias": bias}).snippet
    x = normal(1, 3, 5, 5)
    expected = np.maximum(convolved(x, w) + bias, 0)
    np.testing.assert_allclose(kernel(x)[0], expected, rtol=1e-4, atol=1e-4)


def test_a_declaration_alone_says_what_is_missing() -> None:
    with pytest.raises(wia.CompileError, match="func @vector_add has no body"):
        wia.compile(DECLARATION)
    with_body = DECLARATION.rstrip() + " {\n    %c = add(%a, %b)\n    return %c\n}\n"
    a, b = normal(1024), normal(1024, seed=1)
    np.testing.assert_array_equal(wia.compile(with_body).vector_add(a, b), a + b)
    with pytest.raises(wia.WiaError, match="1024"):
        wia.compile(with_body).vector_add(a[:3], b[:3])

"""Pools on the CPU: windows in lanes, edges masked, against the reference to the last bit."""

import numpy as np
import pytest
import wia_compiler as wia


def compare(text: str, x: np.ndarray, tolerance: float = 0) -> None:
    (kernel,) = wia.compile(
        f"kernel k(input x: tensor, output y: tensor) {{ y = {text}; }}"
    ).values()
    found, wanted = kernel(x), wia.reference(kernel, x)
    if tolerance:
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, wanted)


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    x = (np.random.default_rng(sum(shape)).standard_normal(shape) * 50).astype(dtype)
    if x.dtype.kind == "f":
        flat = x.reshape(-1)
        flat[::7], flat[3::11], flat[5::13] = np.nan, np.inf, -np.inf
    return x


@pytest.mark.parametrize(
    ("shape", "kernel", "stride", "padding"),
    [
        ((1, 2, 28, 30), 3, 2, 1),  # a row is one vector and a part of one
        ((2, 3, 7, 7), 2, 2, 0),  # rows shorter than a vector
        ((1, 1, 3, 127), 3, 1, 1),  # an odd length, rows that share loads
        ((1, 2, 17, 1), 3, 2, 1),  # one column
        ((1, 1, 3, 1000), 3, 2, 1),  # rows longer than the registers hold
        ((2, 2, 9, 16), 5, 3, 2),  # three apart
        ((1, 1, 2, 2), 2, 1, 1),  # most of each window lies outside
        ((1, 1, 11, 50), 3, 7, 1),  # too far apart to share vectors
    ],
)
def test_largest_of_windows(shape: tuple[int, ...], kernel: int, stride: int, padding: int) -> None:
    text = f"max_pool(x, kernel_size={kernel}, stride={stride}, padding={padding})"
    compare(text, numbers(shape, "f4"))


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "i1", "u1"])
def test_dtypes(dtype: str) -> None:
    compare("max_pool(x, kernel_size=3, stride=2, padding=1)", numbers((1, 2, 9, 37), dtype))


def test_means_of_windows() -> None:
    x = np.random.default_rng(1).standard_normal((2, 3, 15, 33)).astype(np.float32)
    compare("avg_pool(x, kernel_size=3, stride=2, padding=1)", x, 1e-6)


def test_what_stands_before_and_after_a_pool_is_computed_with_it() -> None:
    x = np.random.default_rng(2).standard_normal((2, 6, 20, 33)).astype(np.float32)
    compare("max_pool(relu(x) * 2.0, kernel_size=3, stride=2, padding=1, dilation=2) + 1.0", x)
    compare("max_pool(x[:, :, ::-1, 1:32], kernel_size=[3, 5], stride=[1, 4], padding=[0, 2])", x)


def test_strided_input() -> None:
    x = np.random.default_rng(4).standard_normal((2, 6, 20, 33)).astype(np.float32)
    compare("max_pool(x, kernel_size=3, stride=2, padding=1)", x[:, ::2, :, ::-1])


def test_a_pool_is_one_nest_of_vectors_without_tests_of_elements() -> None:
    (kernel,) = wia.compile(
        "kernel k(input x: tensor, output y: tensor) "
        "{ y = max_pool(x, kernel_size=3, stride=2, padding=1); }"
    ).values()
    build = kernel.build(wia.spec((1, 4, 32, 32), "f32"))
    assert build.stage("schedule").text.count("wia.nest") == 1
    lowered = build.stage("lower").text
    assert "vector.shuffle" in lowered
    assert "memref.load" not in lowered.split("wia.nest")[1]


def test_what_is_the_same_along_a_row_is_computed_before_its_loop() -> None:
    """batch_norm: one root and division for each channel, not for each vector of its pixels."""
    (kernel,) = wia.compile(
        "kernel k(input x: tensor, input m: tensor, input v: tensor, output y: tensor) "
        "{ y = relu(batch_norm(x, m, v)); }"
    ).values()
    random = np.random.default_rng(6)
    x = random.standard_normal((2, 5, 9, 131)).astype(np.float32)
    m, v = random.standard_normal(5).astype(np.float32), random.random(5).astype(np.float32)
    np.testing.assert_allclose(
        kernel(x, m, v), wia.reference(kernel, x, m, v), rtol=2e-6, atol=1e-6
    )
    lowered = kernel.build(x, m, v).stage("lower").text.split("wia.nest")[1]
    innermost = lowered[lowered.rindex("scf.for") :]
    assert "vector.store" in innermost
    assert "math.sqrt" not in innermost and "arith.divf" not in innermost
    assert "math.sqrt" in lowered

"""``fuse_at``: what one nest computes for another, computed inside of it, to the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray

Array = NDArray[Any]

ROWS = """
kernel k(input A: tensor, input B: tensor, output C: tensor) { x = A @ B; C = softmax(x, dim=1); }
"""
CHAIN = """
kernel k(input A: tensor, input B: tensor, input W: tensor, output C: tensor) {
    x = relu(A @ B);
    C = x @ W + 1.0;
}
"""
CONVOLUTIONS = """
kernel k(input x: tensor, input w: tensor, input v: tensor, output C: tensor) {
    y = relu(conv2d(x, w, padding=1));
    C = conv2d(y, v, padding=1);
}
"""
COLUMNS = """
kernel k(input A: tensor, input B: tensor, output C: tensor) {
    x = A @ B;
    C = reduce_max(x, axis=0);
}
"""


BLUR = """
kernel blur(input A: tensor<20, 30, f32>, output C: tensor<18, 28, f32>) {
    let x: tensor<20, 28, f32> = 0;
    for i in 0..20 { for j in 0..28 { x[i, j] = A[i, j] + A[i, j + 1] + A[i, j + 2]; } }
    for i in 0..18 { for j in 0..28 { C[i, j] = x[i, j] + x[i + 1, j] + x[i + 2, j]; } }
}
"""


def sample(*shape: int, dtype: str = "f4") -> Array:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


def nests(text: str, shapes: list[tuple[int, ...]]) -> list[str]:
    specs = [wia.spec(shape, "f32") for shape in shapes]
    decisions = wia.compile(text).k.build(*specs).stage("schedule").decisions
    return [each.candidate for each in decisions if each.kind == "schedule"]


@pytest.mark.parametrize(
    ("text", "shapes", "lines"),
    [
        (ROWS, [(17, 20), (20, 33)], "fuse_at x i"),
        (ROWS, [(17, 20), (20, 33)], "tile i 4; fuse_at x i.0; thread_tile x_i 2, x_j 8"),
        (ROWS, [(3, 1), (1, 9)], "tile i 8; fuse_at x i.0"),
        (CHAIN, [(17, 20), (20, 33), (33, 9)], "tile i 4; fuse_at x i.0"),
        (CHAIN, [(17, 20), (20, 33), (33, 9)], "fuse_at x j"),
        (CHAIN, [(17, 20), (20, 33), (33, 9)], "tile i 5, k 8; fuse_at x k.0; parallel i"),
        (CHAIN, [(64, 8), (8, 16), (16, 64)], "thread_tile i 8, j 16; reorder i, j; fuse_at x i"),
        (COLUMNS, [(17, 6), (6, 40)], "tile j 16; fuse_at x j.0; vectorize x_j 16"),
    ],
)
def test_an_array_between_two_nests_is_computed_where_it_is_read(
    text: str, shapes: list[tuple[int, ...]], lines: str
) -> None:
    arrays = [sample(*shape) for shape in shapes]
    last = nests(text, shapes)[-1]
    kernel = wia.compile(f"{text}\nschedule k.{last} {{ {lines} }}").k
    build = kernel.build(*arrays, verify=True)
    text_of_nests = build.stage("schedule").text
    assert text_of_nests.count("func.call") == 1 and "%x_tile" in text_of_nests
    np.testing.assert_allclose(build(*arrays), wia.reference(kernel, *arrays), atol=1e-4)
    again = kernel.build(*arrays, schedule=build.schedule)
    assert again.stage("schedule").text == text_of_nests


@pytest.mark.parametrize(
    ("lines", "tile"),
    [
        ("fuse_at x i", "3x28"),
        ("tile i 4, j 8; fuse_at x j.0; vectorize x_j 8", "6x8"),
        ("tile i 6; fuse_at x i.0; parallel i", "8x28"),
    ],
)
def test_rows_that_loops_over_elements_share_are_computed_in_the_tile(
    lines: str, tile: str
) -> None:
    image = sample(20, 30)
    kernel = wia.compile(BLUR).blur
    build = kernel.build(image, schedule=f"schedule blur.blur_nest_1 {{ {lines} }}", verify=True)
    text = build.stage("schedule").text
    assert f"%x_tile = memref.alloc() : memref<{tile}xf32" in text
    assert "blur_fill" not in text  # every element was written: its zeros were for nothing
    assert np.array_equal(build(image), kernel(image))


@pytest.mark.parametrize("lines", ["fuse_at y f", "reorder y, f, x; fuse_at y y"])
def test_a_window_reads_zeros_where_the_array_ends(lines: str) -> None:
    arrays = [sample(*shape) for shape in ((1, 3, 9, 10), (4, 3, 3, 3), (5, 4, 3, 3))]
    kernel = wia.compile(CONVOLUTIONS).k
    build = kernel.build(*arrays, schedule=f"schedule k.k_conv2d {{ {lines} }}", verify=True)
    assert build.stage("schedule").text.count("func.call") == 1
    np.testing.assert_allclose(build(*arrays), wia.reference(kernel, *arrays), atol=1e-4)


@pytest.mark.parametrize(
    ("text", "lines", "message"),
    [
        (ROWS, "fuse_at C i", "C is an argument or a result of the kernel"),
        (CHAIN, "fuse_at W i", "W is an argument or a result of the kernel"),
        (CHAIN, "fuse_at x", "no loop is named"),
        (CHAIN, "fuse_at x q", "no loop 'q'"),
        (ROWS, "thread_tile j 8; fuse_at x j", "a leaf outside of j.0 reads x too"),
        (
            "kernel k(input A: tensor, input B: tensor, input W: tensor, output C: tensor,"
            " output x: tensor) { x = A @ B; C = softmax(x @ W, dim=1); }",
            "fuse_at x i",
            "no array 'x'",
        ),
    ],
)
def test_what_must_stay_an_array_is_said(text: str, lines: str, message: str) -> None:
    shapes = [(12, 12)] * text.count("input ")
    last = nests(text, shapes)[-1]
    with pytest.raises(wia.CompileError) as caught:
        wia.compile(text).k.build(
            *(wia.spec(shape, "f32") for shape in shapes),
            schedule=f"schedule k.{last} {{ {lines} }}",
        )
    assert message in str(caught.value)


def test_an_array_that_others_read_too_stays() -> None:
    text = """
    kernel k(input A: tensor, input B: tensor, output C: tensor, output D: tensor) {
        x = A @ B;
        C = softmax(x, dim=1);
        D = x @ B;
    }
    """
    shapes = [(12, 12)] * 2
    with pytest.raises(wia.CompileError, match="x is written or read elsewhere in the kernel too"):
        wia.compile(text).k.build(
            *(wia.spec(shape, "f32") for shape in shapes),
            schedule="schedule k.softmax { fuse_at x i }",
        )


def test_a_nest_that_is_computed_elsewhere_has_no_schedule_of_its_own() -> None:
    text = f"{ROWS}\nschedule k.softmax {{ fuse_at x i }}\nschedule k.k_matmul {{ tile i 4 }}"
    with pytest.raises(wia.CompileError, match="k_matmul is computed inside of another nest"):
        wia.compile(text).k.build(wia.spec((12, 12), "f32"), wia.spec((12, 12), "f32"))

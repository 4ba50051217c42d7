"""Code of the CPU stays inside of its arrays: the page behind each of them cannot be touched."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from typing import Any

import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray

Array = NDArray[np.float32]

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="pages are protected as on Linux"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),  # forks beside threads
]

BLUR = """
kernel k(input A: tensor<20, 30, f32>, output C: tensor<18, 28, f32>) {
    let x: tensor<20, 28, f32> = 0;
    for i in 0..20 { for j in 0..28 { x[i, j] = A[i, j] + A[i, j + 1] + A[i, j + 2]; } }
    for i in 0..18 { for j in 0..28 { C[i, j] = x[i, j] + x[i + 1, j] + x[i + 2, j]; } }
}
"""
ROWS = """
kernel k(input a: tensor, input b: tensor, output c: tensor) { x = a @ b; c = softmax(x, dim=1); }
"""
PRODUCT = "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = relu(a @ b); }"
MAP = "kernel k(input x: tensor, output y: tensor) { y = exp(x) + 1; }"
SUM = "kernel k(input x: tensor, output y: tensor) { y = reduce_sum(x, axis=1); }"
CONVOLUTION = "kernel k(input x: tensor, input w: tensor, output y: tensor) { y = conv2d(x, w); }"


@pytest.mark.parametrize(
    ("text", "shapes", "schedule"),
    [
        (BLUR, [(20, 30)], "k.k_nest_1 { tile i 4, j 8; fuse_at x j.0; vectorize x_j 8; }"),
        (ROWS, [(17, 8), (8, 30)], "k.softmax { fuse_at x i; tile i 4; }"),
        (PRODUCT, [(18, 40), (40, 30)], "k { tile i 8, j 16; pack a at j.0; }"),
        (PRODUCT, [(17, 127), (127, 33)], "k { tile k 16; thread_tile i 4, j 16; pack b at k.0; }"),
        (PRODUCT, [(33, 3), (3, 17)], ""),
        (MAP, [(5, 77)], "k { tile i 32; }"),
        (SUM, [(5, 77)], "k { vectorize j 8; }"),
        (CONVOLUTION, [(1, 3, 9, 10), (4, 3, 3, 3)], ""),
    ],
)
def test_nothing_behind_an_array_is_read_or_written(
    text: str, shapes: list[tuple[int, ...]], schedule: str
) -> None:
    rng = np.random.default_rng(0)
    arrays = [_before_a_wall(rng.standard_normal(shape).astype("f4")) for shape in shapes]
    kernel = wia.compile(text).k
    build = kernel.build(*arrays, schedule=f"schedule {schedule}" if schedule else None)
    wanted = wia.reference(kernel, *arrays)
    out = _before_a_wall(np.zeros_like(wanted))
    child = os.fork()
    if child == 0:  # a process that may crash
        build(*arrays, out=out)
        right = np.allclose(out, wanted, rtol=1e-4, atol=1e-4)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0


def _before_a_wall(array: Array) -> Array:
    """The same numbers up to the end of a page, the next one being nobody's."""
    pages = -(-array.nbytes // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect: Any = ctypes.CDLL(None).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    assert protect(start + pages * mmap.PAGESIZE, mmap.PAGESIZE, 0) == 0
    offset = pages * mmap.PAGESIZE - array.nbytes
    copy = np.frombuffer(memory, array.dtype, array.size, offset).reshape(array.shape)
    copy[...] = array
    return copy

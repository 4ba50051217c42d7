"""Products of 8-bit integers, four added at a time: exact, on every sign, size and layout."""

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.backends.cpu.host import this_host
from wia_compiler.backends.cpu.target import make_target, why_not_here

TEXT = """kernel product(input a: tensor, input b: tensor, output y: tensor) {
    y = cast(a, i32) @ cast(b, i32);
}
"""
BLOCKS = """schedule product {
    tile j 64, k 64;
    thread_tile i 8, j 32;
    reorder j.0, k.0, j.1, i;
    pack b at k;
    dot;
}
"""


def numbers(shape, dtype, seed=0):
    """Every value of the dtype, its ends more often than others."""
    info = np.iinfo(dtype)
    found = np.random.default_rng(seed).integers(info.min, info.max + 1, shape)
    found.flat[:: max(1, found.size // 7)] = info.min
    found.flat[1 :: max(1, found.size // 5)] = info.max
    return found.astype(dtype)


def exact(a, b):
    return a.astype(np.int32) @ b.astype(np.int32)


@pytest.mark.parametrize("left", [np.int8, np.uint8])
@pytest.mark.parametrize("right", [np.int8, np.uint8])
@pytest.mark.parametrize("schedule", ["", BLOCKS])
def test_signs(left, right, schedule):
    a, b = numbers((37, 130), left), numbers((130, 70), right, 1)
    kernel = wia.compile(TEXT + schedule).product
    build = kernel.build(a, b, verify=bool(schedule))
    assert "dot;" in str(build.schedule) or not this_host().products_at_once
    np.testing.assert_array_equal(build(a, b), exact(a, b))
    if has_dots():
        assert "vpdpbusd" in build.assembly("x86")


@pytest.mark.parametrize("depth", [1, 2, 3, 4, 5, 63, 66])
def test_depths_that_four_does_not_divide(depth):
    a, b = numbers((9, depth), np.int8), numbers((depth, 33), np.int8, 1)
    np.testing.assert_array_equal(wia.compile(TEXT).product(a, b), exact(a, b))


def test_operands_as_they_lie():
    a, b = numbers((40, 68), np.int8), numbers((68, 50), np.int8, 1)
    kernel = wia.compile(TEXT).product
    turned = np.ascontiguousarray(b.T).T
    for left in (a, np.ascontiguousarray(a.T).T, numbers((80, 68), np.int8)[::2]):
        for right in (b, turned, numbers((68, 100), np.int8)[:, ::2]):
            np.testing.assert_array_equal(kernel(left, right), exact(left, right))


def test_epilogue_and_batches():
    text = TEXT.replace("cast(a, i32) @ cast(b, i32)", "relu(cast(a, i32) @ cast(b, i32) - 100)")
    a, b = numbers((3, 17, 36), np.int8), numbers((3, 36, 40), np.int8, 1)
    np.testing.assert_array_equal(wia.compile(text).product(a, b), np.maximum(exact(a, b) - 100, 0))


def test_refusals():
    floats = "kernel product(input a: tensor, input b: tensor, output y: tensor) { y = a @ b; }"
    a = np.ones((8, 8), np.float32)
    with pytest.raises(wia.CompileError, match="no leaf adds products of 8-bit integers"):
        wia.compile(floats + " schedule product { dot; }").product.build(a, a)
    with pytest.raises(wia.CompileError, match="0 of the two operands are packed"):
        narrow = a.astype(np.int8)
        wia.compile(TEXT + " schedule product { dot; }").product.build(narrow, narrow)


def has_dots():
    """Whether this CPU has the instruction; elsewhere the same leaves run without it."""
    return this_host().has("avx512vnni") and this_host().has("avx512vl")


@pytest.mark.parametrize("target", ["cpu:haswell", "cpu:skylake-avx512"])
def test_cpus_that_add_two_at_a_time(target):
    """Products of the ends of both dtypes do not saturate in 16 bits on the way."""
    for left, right in ((np.int8, np.int8), (np.uint8, np.int8), (np.uint8, np.uint8)):
        a, b = numbers((37, 130), left), numbers((130, 70), right, 1)
        build = wia.compile(TEXT).product.build(a, b, target=target)
        assert "vpmaddwd" in build.assembly("x86")
        if why_not_here(make_target(target).host) is None:
            np.testing.assert_array_equal(build(a, b), exact(a, b))

"""Nests of argmax, argmin, running folds and sliding windows."""

import numpy as np
import pytest
from mid_building import kernel, sample, spec, tolerance_of
from point_code import LAYOUTS, check_kernel, strided
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.text import print_ir

NUMBERS = [name for name in DTYPES if name != "bool"]
SIZES = (1, 3, 17, 127, 1000)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_places_of_extremes_in_every_dtype(name, dtype):
    def body(ops, x):
        find = getattr(ops, name)
        return [find(x, dim=0), find(x, dim=1, keepdim=True), find(x, dim=None)]

    x = sample(spec((9, 14), dtype), special=True)
    check_kernel(kernel([spec((9, 14), dtype)], body), [x])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_places_of_extremes_of_all_sizes_and_layouts(size, layout):
    def body(ops, x):
        return [ops.argmax(x, dim=1), ops.argmin(x, dim=0)]

    x = strided(sample(spec((3, size)), special=True), layout)
    check_kernel(kernel([spec((3, size))], body), [x])


def test_the_first_of_equals_and_the_first_nan_win():
    rows = [[1, 5, 5, 0], [np.nan, 9, np.nan, 3], [-0.0, 0.0, -0.0, 0.0], [-np.inf] * 4]
    x = np.array(rows, np.float32)
    check_kernel(kernel([spec((4, 4))], lambda ops, x: ops.argmax(x, dim=1)), [x])


def test_an_extreme_and_its_place_are_found_in_one_nest():
    def body(ops, x):
        y = ops.exp(x)
        return [ops.reduce_max(y, dim=1), ops.argmax(y, dim=1), ops.argmin(y, dim=1)]

    nests = check_kernel(
        kernel([spec((7, 33))], body, fused=True), [sample(spec((7, 33)))], tolerance=1e-6
    )
    assert print_ir(nests).count("func.call") == 1


SCANS = {
    "cumsum": lambda ops, x, dim: ops.cumsum(x, dim=dim),
    "cumprod": lambda ops, x, dim: ops.cumprod(x, dim=dim),
}


@pytest.mark.parametrize("scan", SCANS)
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", NUMBERS)
def test_running_folds_in_every_dtype(scan, dim, dtype):
    x = sample(spec((6, 11, 3), dtype))
    if DTYPES[dtype].is_float:
        x = (x / 3).astype(x.dtype)
    module = kernel([spec((6, 11, 3), dtype)], lambda ops, x: SCANS[scan](ops, x, dim))
    check_kernel(module, [x], tolerance=4 * tolerance_of(DTYPES[dtype]))


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (3, 17), (127, 5), (1000, 3), (2, 1000), (5, 0)])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_running_folds_of_all_sizes_and_layouts(shape, layout):
    def body(ops, x):
        return [ops.cumsum(x, dim=0), ops.cumsum(x, dim=1)]

    x = strided(np.random.default_rng(0).standard_normal(shape).astype(np.float32), layout)
    check_kernel(kernel([spec(shape)], body), [x], tolerance=2e-5)


def test_running_folds_of_special_values_and_of_vectors():
    x = np.array([1, np.inf, 2, -np.inf, 3, np.nan, 4], np.float32)
    check_kernel(kernel([spec((7,))], lambda ops, x: ops.cumsum(x, dim=0)), [x])
    check_kernel(kernel([spec((7,))], lambda ops, x: ops.cumprod(x, dim=0)), [x])


def test_what_stands_around_a_running_fold_is_in_its_nest():
    def body(ops, x):
        return ops.neg(ops.cumsum(ops.mul(x, x), dim=1))

    nests = check_kernel(
        kernel([spec((9, 20))], body, fused=True), [sample(spec((9, 20)))], tolerance=1e-5
    )
    assert print_ir(nests).count("func.call") == 1


KINDS = ("max", "min", "sum", "prod")
WINDOWS = {
    "plain": {"kernel_size": (2, 2)},
    "padded": {"kernel_size": (3, 3), "stride": (1, 1), "padding": (1, 1)},
    "uneven": {"kernel_size": (3, 2), "stride": (2, 3), "padding": ((1, 2), (0, 1))},
    "dilated": {"kernel_size": (2, 3), "stride": (1, 1), "padding": 2, "dilation": (3, 2)},
    "one axis": {"kernel_size": (4,), "stride": (2,), "padding": ((0, 3),)},
    "wide edges": {"kernel_size": (5, 5), "stride": (1, 1), "padding": (4, 4)},
    "two rows of edge": {"kernel_size": (5, 3), "stride": (1, 1), "padding": (2, 1)},
    "padding alone": {"kernel_size": (2, 2), "stride": (1, 1), "padding": (3, 0)},
    "whole": {"kernel_size": (13, 12)},
    "single": {"kernel_size": (1, 1), "stride": (2, 2)},
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", WINDOWS)
def test_windows(kind, window):
    x = np.random.default_rng(0).standard_normal((2, 3, 13, 12)).astype(np.float32)
    module = kernel(
        [spec((2, 3, 13, 12))], lambda ops, x: ops.reduce_window(x, kind=kind, **WINDOWS[window])
    )
    check_kernel(module, [x], tolerance=3e-6)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("kind", KINDS)
def test_windows_of_every_dtype(kind, dtype):
    x = sample(spec((1, 2, 9, 9), dtype), special=kind in ("max", "min"))
    if DTYPES[dtype].is_float and kind == "prod":
        x = (x / 3).astype(x.dtype)
    module = kernel(
        [spec((1, 2, 9, 9), dtype)],
        lambda ops, x: ops.reduce_window(x, kind=kind, **WINDOWS["padded"]),
    )
    check_kernel(module, [x], tolerance=4 * tolerance_of(DTYPES[dtype]))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_windows_of_all_sizes_and_layouts(size, layout):
    x = strided(np.random.default_rng(0).standard_normal((3, size)).astype(np.float32), layout)
    module = kernel(
        [spec((3, size))],
        lambda ops, x: ops.reduce_window(x, kind="max", kernel_size=(3,), stride=(2,), padding=1),
    )
    check_kernel(module, [x])


def test_what_stands_around_a_window_is_in_its_nests_which_test_nothing():
    def body(ops, x, b):
        pooled = ops.reduce_window(ops.exp(x), kind="max", **WINDOWS["padded"])
        return ops.add(pooled, b)

    specs = [spec((2, 3, 20, 20)), spec((20,))]
    module = kernel(specs, body, fused=True)
    text = print_ir(check_kernel(module, [sample(each) for each in specs], tolerance=1e-6))
    assert "memref.alloc() : memref<2x3x20x20xf32>" not in text
    assert "bounds" not in text
    assert text.count("func.call") == 9  # the middle, four edges, four corners


def test_wide_edges_share_a_nest_that_tests():
    def body(ops, x):
        return ops.reduce_window(x, kind="sum", kernel_size=(9, 9), stride=(1, 1), padding=4)

    module = kernel([spec((1, 40, 40))], body)
    text = print_ir(check_kernel(module, [sample(spec((1, 40, 40)))], tolerance=3e-6))
    assert text.count("func.call") == 5
    assert text.count("bounds") == 4

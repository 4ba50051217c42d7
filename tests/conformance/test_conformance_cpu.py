"""Every primitive on the CPU: op × dtype × size × layout, through the whole compiler."""

import itertools
from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from numpy.typing import NDArray
from special_values import specials
from wia_compiler.base.dtypes import DTYPES

Array = NDArray[np.generic]
FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "u8")
SIZES = (0, 1, 3, 17, 127, 1000)

BINARY = """
kernel binary(input x: tensor, input y: tensor, output add: tensor, output sub: tensor,
              output mul: tensor, output low: tensor, output high: tensor, output eq: tensor,
              output ne: tensor, output lt: tensor, output le: tensor, output gt: tensor,
              output ge: tensor, output chosen: tensor, output floored: tensor,
              output modulo: tensor) {
  add = x + y;  sub = x - y;  mul = x * y;  low = min(x, y);  high = max(x, y);
  eq = x == y;  ne = x != y;  lt = x < y;  le = x <= y;  gt = x > y;  ge = x >= y;
  chosen = where(x > y, x, y);  floored = x // y;  modulo = x % y;
}
"""
UNARY = """
kernel unary(input x: tensor, output neg: tensor, output abs_x: tensor, output down: tensor,
             output up: tensor, output near: tensor, output root: tensor, output positive: tensor) {
  neg = -x;  abs_x = abs(x);  down = floor(x);  up = ceil(x);  near = round(x);  root = sqrt(x);
  positive = relu(x);
}
"""
FUNCTIONS = """
kernel functions(input x: tensor, output e: tensor, output l: tensor, output t: tensor,
                 output f: tensor, output s: tensor, output c: tensor, output r: tensor) {
  e = exp(x);  l = log(x);  t = tanh(x);  f = erf(x);  s = sin(x);  c = cos(x);  r = rsqrt(x);
}
"""


def values(dtype: str, count: int, seed: int = 0) -> Array:
    """``count`` elements: special values first, then random ones of several magnitudes."""
    row = DTYPES[dtype]
    random = np.random.default_rng(seed)
    if row.is_float:
        wide = random.normal(size=count) * np.exp2(random.integers(-6, 6, count))
        made = wide.astype(row.numpy)
    elif row.is_integer:
        ends = np.iinfo(row.numpy)
        made = random.integers(ends.min, ends.max, count, row.numpy, endpoint=True)
    else:
        made = random.integers(0, 2, count).astype(bool)
    start = random.permutation(specials(dtype))[:count]
    made[: len(start)] = start
    return made


def layouts(dtype: str, seed: int) -> dict[str, Array]:
    """A 7 × 9 array lying in memory in every way that numpy allows."""
    base = values(dtype, 14 * 18, seed).reshape(14, 18)
    return {
        "strided": base[::2, ::2],
        "negative": base[13:0:-2, 17:0:-2],
        "broadcast": np.broadcast_to(base[0, :9], (7, 9)),
        "transposed": base[:9, :7].T,
        "fortran": np.asfortranarray(base[:7, :9]),
        "offset": base[3:10, 5:14],
    }


def cases(dtype: str) -> list[tuple[Array, Array]]:
    """Pairs of arguments in every size and layout for f32 and i32, in some for the others."""
    left, right = layouts(dtype, 3), layouts(dtype, 4)
    if dtype in ("f32", "i32", "bool"):
        pairs = [(values(dtype, size, 1), values(dtype, size, 2)) for size in SIZES]
        names = list(left)
        pairs += [(left[a], right[b]) for a, b in zip(names, names[1:] + names[:1], strict=True)]
        return [*pairs, (values(dtype, 1), left["negative"])]
    pairs = [(values(dtype, 127, 1), values(dtype, 127, 2))]
    return [*pairs, (left["negative"], right["transposed"]), (values(dtype, 9), left["strided"])]


def assert_equal(found: Array, expected: Array) -> None:
    """Equal dtype, shape and values; NaN equals NaN, zeros have the same sign."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    wide = [
        np.asarray(each, np.float64) if each.dtype.kind in "fV" else each
        for each in (found, expected)
    ]
    np.testing.assert_array_equal(*wide)
    if found.dtype.kind in "fV":
        numbers = ~np.isnan(wide[0])
        np.testing.assert_array_equal(np.signbit(wide[0])[numbers], np.signbit(wide[1])[numbers])


def run_and_compare(kernel: wia.Kernel, *arrays: Array) -> None:
    """All results of a kernel equal the reference exactly."""
    found, expected = kernel(*arrays), wia.reference(kernel, *arrays)
    if not isinstance(found, tuple):
        found, expected = (found,), (expected,)
    for one, other in zip(found, expected, strict=True):
        assert_equal(one, other)


@pytest.mark.parametrize("dtype", (*FLOATS, *INTEGERS))
def test_binary_ops_are_exact(dtype: str) -> None:
    kernel = wia.compile(BINARY)["binary"]
    for x, y in cases(dtype):
        run_and_compare(kernel, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_division_is_correctly_rounded(dtype: str) -> None:
    kernel = wia.compile(
        "kernel k(input x: tensor, input y: tensor, output z: tensor) { z = x / y; }"
    )["k"]
    for x, y in cases(dtype):
        run_and_compare(kernel, x, y)


@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_ops_are_exact(dtype: str) -> None:
    kernel = wia.compile(UNARY)["unary"]
    for x, _ in cases(dtype):
        run_and_compare(kernel, x)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_negation_absolute_value_and_relu(dtype: str) -> None:
    text = "kernel k(input x: tensor, output a: tensor, output b: tensor, output c: tensor) "
    kernel = wia.compile(text + "{ a = -x; b = abs(x); c = relu(x); }")["k"]
    for x, _ in cases(dtype):
        run_and_compare(kernel, x)


def test_logical_ops_and_bool_comparisons() -> None:
    text = """kernel k(input x: tensor, input y: tensor, output a: tensor, output b: tensor,
                       output c: tensor, output d: tensor, output e: tensor) {
      a = x && y; b = x || y; c = !x; d = x == y; e = where(x, y, x); }"""
    kernel = wia.compile(text)["k"]
    for x, y in cases("bool"):
        run_and_compare(kernel, x, y)


@pytest.mark.parametrize("source", tuple(DTYPES))
def test_casts_to_every_dtype(source: str) -> None:
    outputs = ", ".join(f"output o{n}: tensor" for n in range(len(DTYPES)))
    body = " ".join(f"o{n} = cast(x, {name});" for n, name in enumerate(DTYPES))
    kernel = wia.compile(f"kernel k(input x: tensor, {outputs}) {{ {body} }}")["k"]
    run_and_compare(kernel, values(source, 1001)[::-1])


EXACT: tuple[Callable[[Array], Array], ...] = (np.exp, np.log, np.tanh, np.sin, np.cos)


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_are_within_two_ulp(dtype: str) -> None:
    """Against numpy in more bits (erf and f64's last bits are held to the bound elsewhere)."""
    kernel = wia.compile(FUNCTIONS)["functions"]
    wider = np.longdouble if dtype == "f64" else np.float64
    for x, _ in cases(dtype):
        e, log, t, _, s, c, r = kernel(x)
        exact = x.astype(np.float64).astype(wider)
        with np.errstate(all="ignore"):
            expected = [f(exact) for f in EXACT] + [1 / np.sqrt(exact)]
        for found, wanted in zip((e, log, t, s, c, r), expected, strict=True):
            assert_within(found, wanted, 2.0, dtype)


def assert_within(found: Array, wanted: Array, ulps: float, dtype: str) -> None:
    """Each element within so many units in the last place; infinities and NaN where they belong."""
    info = ml_dtypes.finfo(DTYPES[dtype].numpy)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(np.float64).astype(found.dtype).astype(np.float64)
    got = found.astype(np.float64)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(got[~finite], rounded[~finite])
    assert np.isfinite(got[finite]).all()
    magnitude = np.maximum(np.abs(wanted[finite]), wanted.dtype.type(info.smallest_normal))
    unit = np.exp2(np.floor(np.log2(magnitude))) * wanted.dtype.type(info.eps)
    assert (np.abs(found[finite].astype(np.float64) - wanted[finite]) <= ulps * unit).all()


@pytest.mark.parametrize("dtype", FLOATS)
def test_power(dtype: str) -> None:
    kernel = wia.compile(
        "kernel k(input x: tensor, input y: tensor, output z: tensor) { z = x ** y; }"
    )["k"]
    wider = np.longdouble if dtype == "f64" else np.float64
    some = specials(dtype)
    x, y = (each.ravel() for each in np.meshgrid(some, some))
    for a, b in ((x, y), (np.abs(values(dtype, 1000, 1)), values(dtype, 1000, 2))):
        with np.errstate(all="ignore"):
            wanted = np.power(*(each.astype(np.float64).astype(wider) for each in (a, b)))
        assert_within(kernel(a, b), wanted, 2.0, dtype)


SHAPES = ((0, 3), (3, 0), (1, 1), (3, 17), (127, 5), (2, 1000), (33, 64))
FOLDS = ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min")


@pytest.mark.parametrize("dtype", (*FLOATS, "i32", "i8", "u8"))
@pytest.mark.parametrize("axis", ["0", "1", "None"])
def test_reductions(dtype: str, axis: str) -> None:
    wanted = "" if axis == "None" else f", axis={axis}"
    for shape in SHAPES if dtype in ("f32", "i32") else ((5, 37),):
        names = FOLDS if 0 not in shape else FOLDS[:2]
        outputs = ", ".join(f"output {name}_0: tensor" for name in names)
        body = " ".join(f"{name}_0 = {name}(x{wanted});" for name in names)
        kernel = wia.compile(f"kernel k(input x: tensor, {outputs}) {{ {body} }}")["k"]
        x = (values(dtype, shape[0] * shape[1], 5)[: shape[0] * shape[1]]).reshape(shape)
        if DTYPES[dtype].is_float:
            x = np.random.default_rng(2).normal(size=shape).astype(x.dtype)
        for array in (x, x[::-1, ::-1], np.asfortranarray(x)) if shape == (3, 17) else (x,):
            compare_folds(kernel, array, names, axis, dtype)


def compare_folds(
    kernel: wia.Kernel, array: Array, names: Sequence[str], axis: str, dtype: str
) -> None:
    """Integers exactly, floats within n ε Σ|x| (products within n ε of themselves)."""
    found, expected = kernel(array), wia.reference(kernel, array)
    wide = array.astype(np.float64)
    axes = None if axis == "None" else int(axis)
    row = DTYPES[dtype]
    eps = float(ml_dtypes.finfo(row.numpy).eps) if row.is_float else 0.0
    inner = float(ml_dtypes.finfo(DTYPES[row.accumulator].numpy).eps) if row.is_float else 0.0
    count = array.size if axes is None else array.shape[axes]
    for name, one, other in zip(names, found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if not row.is_float or name in ("reduce_max", "reduce_min"):
            assert_equal(one, other)
            continue
        exact = (np.sum if name == "reduce_sum" else np.prod)(wide, axis=axes)
        size = np.sum(np.abs(wide), axis=axes) if name == "reduce_sum" else np.abs(exact)
        bound = count * inner * size + eps * np.abs(exact) + float(ml_dtypes.finfo(row.numpy).tiny)
        error = np.abs(np.asarray(one, np.float64) - exact)
        assert (error <= bound).all(), name


@pytest.mark.parametrize("dtype", FLOATS)
def test_folds_keep_nan_and_infinities(dtype: str) -> None:
    text = "kernel k(input x: tensor, output a: tensor, output b: tensor, output c: tensor) "
    kernel = wia.compile(
        text
        + "{ a = reduce_max(x, axis=1); b = reduce_min(x, axis=1); c = reduce_sum(x, axis=1); }"
    )["k"]
    x = np.ones((6, 37), DTYPES[dtype].numpy)
    for row, (place, value) in enumerate([(0, np.nan), (36, np.nan), (16, np.inf), (35, -np.inf)]):
        x[row, place] = value
    x[4, [3, 30]] = np.inf, -np.inf
    run_and_compare(kernel, x)


@pytest.mark.parametrize("dtype", (*FLOATS, "i32", "i8"))
def test_matrix_products(dtype: str) -> None:
    kernel = wia.compile(
        "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }"
    )["k"]
    sizes = [(17, 17, 17), (127, 33, 65), (3, 100, 12)]
    if dtype in ("f32", "i32"):
        sizes += [(0, 3, 5), (3, 0, 5), (1, 1, 1), (1, 17, 127), (17, 127, 1), (33, 64, 32)]
        sizes += [(40, 20, 100), (64, 96, 80)]
    for m, k, n in sizes:
        a, b = small(dtype, (m, k), 1), small(dtype, (k, n), 2)
        compare_products(kernel, a, b, dtype)
    a, b = small(dtype, (66, 70), 1), small(dtype, (140, 66), 2)
    lefts, rights = (a[::2, ::2], a[:35, :33].T), (b[::4, ::2], b[34::-1, ::-1], b[:33, :35].T)
    for left, right in itertools.product(lefts, rights) if dtype == "f32" else ():
        compare_products(kernel, left, right, dtype)


def small(dtype: str, shape: tuple[int, ...], seed: int) -> Array:
    """Random numbers whose sums of products no type overflows by much."""
    random = np.random.default_rng(seed)
    if DTYPES[dtype].is_float:
        return random.normal(size=shape).astype(DTYPES[dtype].numpy)
    return random.integers(-100, 100, shape).astype(DTYPES[dtype].numpy)


def compare_products(kernel: wia.Kernel, a: Array, b: Array, dtype: str) -> None:
    """Integers exactly, floats within k ε Σ|a||b| and one rounding."""
    found, expected = kernel(a, b), wia.reference(kernel, a, b)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    row = DTYPES[dtype]
    if not row.is_float:
        assert_equal(found, expected)
        return
    wide = [each.astype(np.longdouble) for each in (a, b)]
    exact = wide[0] @ wide[1]
    inner = float(ml_dtypes.finfo(DTYPES[row.accumulator].numpy).eps)
    bound = a.shape[-1] * inner * (np.abs(wide[0]) @ np.abs(wide[1]))
    bound += float(ml_dtypes.finfo(row.numpy).eps) * np.abs(exact)
    assert (np.abs(found.astype(np.float64) - exact) <= bound).all()


def test_products_of_batches_and_vectors() -> None:
    kernel = wia.compile(
        "kernel k(input a: tensor, input b: tensor, output c: tensor) { c = a @ b; }"
    )["k"]
    shapes = [
        ((2, 5, 7), (2, 7, 33)),
        ((5, 7), (3, 7, 4)),
        ((3, 1, 5, 7), (2, 7, 4)),
        ((7,), (7,)),
        ((5, 7), (7,)),
        ((7,), (7, 5)),
    ]
    for left, right in shapes:
        a, b = small("f32", left, 1), small("f32", right, 2)
        np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i32"])
def test_convolutions(dtype: str) -> None:
    every = (
        ", padding=1",
        ", stride=2, padding=1",
        ", dilation=2",
        ", padding=[2, 0], stride=[1, 3]",
    )
    for settings in every if dtype == "f32" else every[:1]:
        head = "kernel k(input x: tensor, input w: tensor, output y: tensor)"
        text = f"{head} {{ y = conv2d(x, w{settings}); }}"
        kernel = wia.compile(text)["k"]
        for shape, filters in (
            ((2, 3, 9, 40), (5, 3, 3, 3)),
            ((1, 1, 6, 6), (1, 1, 3, 1)),
            ((1, 2, 7, 18), (9, 2, 1, 1)),
        ):
            x, w = small(dtype, shape, 1), small(dtype, filters, 2)
            compare_convolutions(kernel, x, w, dtype)


def compare_convolutions(kernel: wia.Kernel, x: Array, w: Array, dtype: str) -> None:
    """Against the reference in the same type; sums may be formed in another order."""
    found, expected = kernel(x, w), wia.reference(kernel, x, w)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    row = DTYPES[dtype]
    if not row.is_float:
        assert_equal(found, expected)
        return
    inner = float(ml_dtypes.finfo(DTYPES[row.accumulator].numpy).eps)
    magnitude = wia.reference(kernel, np.abs(x), np.abs(w)).astype(np.float64)
    bound = (
        2 * w[0].size * inner * magnitude + 2 * float(ml_dtypes.finfo(row.numpy).eps) * magnitude
    )
    error = np.abs(found.astype(np.float64) - expected.astype(np.float64))
    assert (error <= bound).all()


def test_convolution_of_each_channel_alone() -> None:
    text = """kernel k(input x: tensor, input w: tensor, output y: tensor) {
      y = conv2d(x, w, groups=4, padding=1); }"""
    kernel = wia.compile(text)["k"]
    for width in (5, 20, 70):
        x, w = small("f32", (2, 4, 8, width), 1), small("f32", (4, 1, 3, 3), 2)
        np.testing.assert_allclose(kernel(x, w), wia.reference(kernel, x, w), rtol=1e-5, atol=1e-5)


def test_grouped_convolution_with_bias() -> None:
    text = """kernel k(input x: tensor, input w: tensor, input b: tensor, output y: tensor) {
      y = relu(conv2d(x, w, b, groups=2, padding=1)); }"""
    kernel = wia.compile(text)["k"]
    x, w, b = small("f32", (2, 4, 8, 20), 1), small("f32", (6, 2, 3, 3), 2), small("f32", (6,), 3)
    np.testing.assert_allclose(
        kernel(x, w, b), wia.reference(kernel, x, w, b), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_and_norms(dtype: str) -> None:
    text = """kernel k(input x: tensor, output a: tensor, output b: tensor, output c: tensor,
                       output d: tensor) {
      a = softmax(x, axis=1); b = softmax(x, axis=0); c = layer_norm(x); d = rms_norm(x); }"""
    kernel = wia.compile(text)["k"]
    eps = float(ml_dtypes.finfo(DTYPES[dtype].numpy).eps)
    for shape in ((1, 1), (3, 17), (17, 127), (40, 64)) if dtype == "f32" else ((17, 127),):
        x = (np.random.default_rng(1).normal(size=shape) * 3).astype(DTYPES[dtype].numpy)
        for array in (x, x[::-1, ::-1], np.asfortranarray(x)) if shape[0] == 17 else (x,):
            for found, expected in zip(kernel(array), wia.reference(kernel, array), strict=True):
                assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
                wide = expected.astype(np.float64)
                np.testing.assert_allclose(
                    found.astype(np.float64), wide, rtol=16 * eps, atol=16 * eps
                )


def test_movement_alone_and_inside_fusion() -> None:
    text = """kernel k(input x: tensor<6, 4, 5, f32>, input y: tensor<5, f32>, output a: tensor,
                       output b: tensor, output c: tensor) {
      a = transpose(x, 0, 2); b = reshape(x, [8, 15]);
      c = exp(reshape(transpose(x, 0, 1), [24, 5]) * 0.1) + y; }"""
    kernel = wia.compile(text)["k"]
    x, y = small("f32", (6, 4, 5), 1), small("f32", (5,), 2)
    for found, expected in zip(kernel(x, y), wia.reference(kernel, x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)

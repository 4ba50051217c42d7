"""Programs on a GPU, thread by thread: layouts, reductions and contractions of every kind."""

import ml_dtypes
import numpy as np
import pytest
from unit.gpu_programs import interpret

RNG = np.random.default_rng(11)


def floats(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def integers(*shape, dtype=np.int32):
    return RNG.integers(-50, 50, shape).astype(dtype)


def one(expression: str, inputs: str = "A") -> str:
    """A kernel that gives one expression of its inputs."""
    parameters = ", ".join(f"input {name}: tensor" for name in inputs)
    return f"kernel k({parameters}, output Y: tensor) {{ Y = {expression}; }}"


def close(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(
        found.astype(np.float64), expected, rtol=tolerance, atol=tolerance, strict=False
    )
    assert found.shape == np.shape(expected)


@pytest.mark.parametrize(
    "shape,axis",
    [
        ((7, 33), 1),
        ((7, 33), 0),
        ((5, 6, 7), 1),
        ((5, 6, 7), 0),
        ((4, 3, 50), 2),
        ((300, 40), 1),  # enough rows for a warp each
        ((300, 5), 1),  # rows so short that a thread takes one
        ((6, 4300), 0),  # columns: a thread each
        ((2, 5000), 1),  # a row in more turns than are unrolled
        ((1, 1), 1),
    ],
)
@pytest.mark.parametrize("fold", ["sum", "max", "min", "prod"])
def test_reductions_over_an_axis(shape, axis, fold):
    x = floats(*shape) * 0.5 + 1
    (y,) = interpret(one(f"reduce_{fold}(A, axis={axis})"), [x])
    close(y, getattr(np, fold)(x.astype(np.float64), axis=axis), 1e-4)


@pytest.mark.parametrize("size", [1, 3, 31, 127, 1000, 9000])
def test_reduction_to_a_value(size):
    x = floats(size)
    (y,) = interpret(one("reduce_sum(A)"), [x])
    close(y, x.astype(np.float64).sum(), 1e-4)


def test_sums_of_integers_wrap():
    x = np.full((3, 40), 2**30, np.int32)
    (y,) = interpret(one("reduce_sum(A, axis=1)"), [x])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, x.sum(1, dtype=np.int32))


def test_maximum_of_nan_is_nan():
    x = floats(300, 64)
    x[3, 5] = np.nan
    (y,) = interpret(one("reduce_max(A, axis=1)"), [x])
    np.testing.assert_array_equal(y, x.max(1))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_sums_are_carried_in_f32(dtype):
    x = np.full((2, 4096), 1 / 16, dtype)
    (y,) = interpret(one("reduce_sum(A, axis=1)"), [x])
    np.testing.assert_array_equal(y.astype(np.float32), 256)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[::2, ::3],
        lambda x: x[::-1],
        lambda x: x[:, ::-1],
        lambda x: x.T,
        lambda x: np.broadcast_to(x[:, :1], x.shape),
        lambda x: np.broadcast_to(x[0, 0], (5, 7)),
    ],
)
def test_inputs_of_any_strides(view):
    x = view(floats(24, 36))
    (y,) = interpret(one("A * 2.0 + 1.0"), [x])
    close(y, x * 2.0 + 1.0)
    (s,) = interpret(one("reduce_sum(A, axis=1)"), [x])
    close(s, x.sum(1), 1e-4)


@pytest.mark.parametrize("shape", [(3, 5), (17, 127), (2, 3, 4), (1000,), (3, 1, 7), (513, 3)])
def test_transposes_and_broadcasts(shape):
    x = floats(*shape)
    (y,) = interpret(one("transpose(A) + 1.0" if len(shape) > 1 else "A + 1.0"), [x])
    expected = np.swapaxes(x, -1, -2) + 1 if len(shape) > 1 else x + 1
    if y.shape == x.T.shape and y.shape != expected.shape:
        expected = x.T + 1
    close(y, expected)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64])
def test_integers(dtype):
    a, b = integers(7, 33, dtype=dtype), integers(7, 33, dtype=dtype)
    b[0, :3] = 0
    (y,) = interpret(one("A * B + A", "AB"), [a, b])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, a * b + a)
    (q,) = interpret(one("A // B", "AB"), [a, b])
    with np.errstate(all="ignore"):
        expected = np.where(b == 0, 0, a // np.where(b == 0, 1, b))
    np.testing.assert_array_equal(q, expected)


def test_booleans():
    a, b = floats(5, 9), floats(5, 9)
    (y,) = interpret(one("A < B && A > 0.0", "AB"), [a, b])
    np.testing.assert_array_equal(y, (a < b) & (a > 0))
    assert y.dtype == np.bool_


@pytest.mark.parametrize(
    "left,right",
    [
        ((17, 33), (33, 65)),
        ((64, 64), (64, 64)),
        ((130, 40), (40, 70)),
        ((3, 20, 30), (3, 30, 10)),
        ((2, 1, 5, 9), (3, 9, 4)),
        ((33,), (33, 12)),
        ((12, 33), (33,)),
        ((40,), (40,)),
        ((1, 50), (50, 1)),
        ((20, 1), (1, 20)),
        ((5, 0), (0, 3)),
    ],
)
def test_matmuls(left, right):
    a, b = floats(*left), floats(*right)
    (y,) = interpret(one("A @ B", "AB"), [a, b])
    close(y, a.astype(np.float64) @ b.astype(np.float64), 1e-4)


@pytest.mark.parametrize("flip", ["left", "right", "both"])
def test_matmul_of_transposed_views(flip):
    a = floats(33, 40).T if flip != "right" else floats(40, 33)
    b = floats(50, 33).T if flip != "left" else floats(33, 50)
    (y,) = interpret(one("A @ B", "AB"), [a, b])
    close(y, a.astype(np.float64) @ b.astype(np.float64), 1e-4)
    (z,) = interpret(one("transpose(A) @ B", "AB"), [np.ascontiguousarray(a.T), b])
    close(z, y, 1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.int64])
def test_matmul_of_each_dtype(dtype):
    exact = np.issubdtype(dtype, np.integer)
    a, b = (integers(20, 30), integers(30, 40)) if exact else (floats(20, 30), floats(30, 40))
    a, b = a.astype(dtype), b.astype(dtype)
    (y,) = interpret(one("A @ B", "AB"), [a, b])
    wide = np.int64 if exact else np.float64
    expected = a.astype(wide) @ b.astype(wide)
    tolerance = {np.float64: 1e-12, np.float16: 2e-3, ml_dtypes.bfloat16: 2e-2}.get(dtype, 0)
    assert y.dtype == a.dtype
    close(y, expected.astype(dtype).astype(np.float64), tolerance * 5)


@pytest.mark.parametrize(
    "image,filters,arguments",
    [
        ((2, 3, 9, 11), (5, 3, 3, 3), "padding=1"),
        ((1, 4, 12, 12), (6, 4, 3, 3), "stride=2, padding=1"),
        ((1, 2, 15, 14), (3, 2, 3, 3), "dilation=2"),
        ((2, 4, 8, 8), (6, 2, 3, 3), "padding=1, groups=2"),
        ((1, 7, 10, 10), (9, 7, 1, 1), "stride=1"),
        ((1, 3, 5, 5), (2, 3, 5, 5), "stride=1"),
        ((1, 1, 1, 40), (1, 1, 1, 3), "padding=0"),
    ],
)
def test_convolutions(image, filters, arguments):
    x, w = floats(*image), floats(*filters)
    (y,) = interpret(one(f"conv2d(A, B, {arguments})", "AB"), [x, w])
    options = dict(part.split("=") for part in arguments.replace(" ", "").split(","))
    close(y, convolution(x, w, **{name: int(value) for name, value in options.items()}), 1e-4)


def convolution(x, w, stride=1, padding=0, dilation=1, groups=1):
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    reach = [dilation * (size - 1) + 1 for size in w.shape[2:]]
    windows = np.lib.stride_tricks.sliding_window_view(x, reach, axis=(2, 3))
    windows = windows[:, :, ::stride, ::stride, ::dilation, ::dilation]
    each_in, each_out = x.shape[1] // groups, w.shape[0] // groups
    parts = [
        np.einsum(
            "nchwrs,fcrs->nfhw",
            windows[:, g * each_in : (g + 1) * each_in],
            w[g * each_out : (g + 1) * each_out],
        )
        for g in range(groups)
    ]
    return np.concatenate(parts, axis=1)


def test_several_outputs_and_kernels():
    text = """kernel k(input A: tensor, input B: tensor, output C: tensor, output D: tensor) {
        C = softmax(A @ B, axis=1);
        D = reduce_sum(C * C, axis=0);
    }"""
    a, b = floats(9, 20), floats(20, 30)
    c, d = interpret(text, [a, b])
    product = a.astype(np.float64) @ b
    e = np.exp(product - product.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True)
    close(c, expected, 1e-4)
    close(d, (expected**2).sum(0), 1e-4)


@pytest.mark.parametrize("shape", [(3, 40), (200, 40), (200, 1000), (2, 3000), (1, 80000)])
def test_softmax_of_any_length(shape):
    x = floats(*shape) * 4
    (y,) = interpret(one("softmax(A, axis=-1)"), [x])
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    close(y, e / e.sum(-1, keepdims=True), 1e-5)

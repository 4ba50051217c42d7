"""Random kernels on the CPU against the reference: shapes, layouts, fusion, schedules together."""

import numpy as np
import wia_compiler as wia
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

_UNARY = (
    "relu({})",
    "exp({} * 0.1)",
    "tanh({})",
    "abs({})",
    "sqrt(abs({}) + 1.0)",
    "-{}",
    "floor({})",
)
_BINARY = ("{} + {}", "{} * {}", "{} - {}", "max({}, {})", "where({} > 0.0, {}, 0.5)")
_FOLDS = (
    "reduce_sum({}, axis={}, keepdim=true)",
    "reduce_max({}, axis={}, keepdim=true)",
    "softmax({}, axis={})",
    "reduce_mean({}, axis={}, keepdim=true)",
)
_SIZES = st.sampled_from([1, 2, 3, 5, 8, 16, 17, 31, 33, 64])
RELAXED = settings(
    max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def kernels(draw: st.DrawFn) -> tuple[str, list[np.ndarray]]:
    """A kernel of a few statements over two matrices that broadcast, and its arguments."""
    rows, columns = draw(_SIZES), draw(_SIZES)
    names, lines = ["x", "y"], []
    for number in range(draw(st.integers(1, 5))):
        name = f"t{number}"
        a, b = (draw(st.sampled_from(names)) for _ in range(2))
        kind = draw(st.sampled_from(["unary", "binary", "fold"]))
        if kind == "unary":
            lines.append(f"{name} = {draw(st.sampled_from(_UNARY)).format(a)};")
        elif kind == "binary":
            lines.append(f"{name} = {draw(st.sampled_from(_BINARY)).format(a, b)};")
        else:
            fold = draw(st.sampled_from(_FOLDS)).format("x + " + a, draw(st.integers(0, 1)))
            lines.append(f"{name} = {fold};")
        names.append(name)
    body = " ".join(lines)
    last = names[-1]
    text = (
        f"kernel k(input x: tensor, input y: tensor, output z: tensor) {{ {body} z = x + {last}; }}"
    )
    random = np.random.default_rng(draw(st.integers(0, 99)))
    x = laid_out(draw, random.normal(size=(rows, columns)).astype(np.float32))
    shape = draw(st.sampled_from([(rows, columns), (1, columns), (rows, 1), (1, 1)]))
    return text, [x, random.normal(size=shape).astype(np.float32)]


def laid_out(draw: st.DrawFn, array: np.ndarray) -> np.ndarray:
    """The same values lying in memory in one of several ways."""
    match draw(st.sampled_from(["c", "fortran", "reversed", "strided"])):
        case "fortran":
            return np.asfortranarray(array)
        case "reversed":
            return np.ascontiguousarray(array[::-1, ::-1])[::-1, ::-1]
        case "strided":
            return np.repeat(np.repeat(array, 2, 0), 3, 1)[::2, ::3]
        case _:
            return array


@RELAXED
@given(kernels())
def test_random_kernels_compute_what_the_reference_does(made: tuple[str, list[np.ndarray]]) -> None:
    text, arrays = made
    kernel = wia.compile(text)["k"]
    np.testing.assert_allclose(
        kernel(*arrays), wia.reference(kernel, *arrays), rtol=2e-5, atol=2e-5, err_msg=text
    )


@RELAXED
@given(
    st.tuples(_SIZES, _SIZES, _SIZES),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["{}", "relu({} + c)", "gelu({}) * 2.0", "softmax({}, axis=1)"]),
)
def test_random_products_with_what_follows(
    sizes: tuple[int, int, int], left: bool, right: bool, after: str
) -> None:
    m, k, n = sizes
    random = np.random.default_rng(m * k * n)
    a = random.normal(size=(k, m) if left else (m, k)).astype(np.float32)
    b = random.normal(size=(n, k) if right else (k, n)).astype(np.float32)
    a, b = (a.T if left else a), (b.T if right else b)
    head = "kernel k(input a: tensor, input b: tensor, input c: tensor, output d: tensor)"
    kernel = wia.compile(f"{head} {{ d = {after.format('(a @ b)')}; }}")["k"]
    c = random.normal(size=n).astype(np.float32)
    np.testing.assert_allclose(
        kernel(a, b, c), wia.reference(kernel, a, b, c), rtol=1e-4, atol=1e-4
    )


@RELAXED
@given(
    st.tuples(st.integers(1, 2), st.integers(1, 4), st.integers(1, 20), st.integers(1, 40)),
    st.tuples(st.integers(1, 20), st.integers(1, 3), st.integers(1, 4)),
    st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 3)),
)
def test_random_convolutions(
    image: tuple[int, int, int, int], filters: tuple[int, int, int], window: tuple[int, ...]
) -> None:
    count, rows, columns = filters
    if rows > image[2] + 2 * window[2] or columns > image[3] + 2 * window[3]:
        return
    random = np.random.default_rng(sum(image))
    x = random.normal(size=image).astype(np.float32)
    w = random.normal(size=(count, image[1], rows, columns)).astype(np.float32)
    settings_ = f"stride=[{window[0]}, {window[1]}], padding=[{window[2]}, {window[3]}]"
    head = "kernel k(input x: tensor, input w: tensor, output y: tensor)"
    kernel = wia.compile(f"{head} {{ y = relu(conv2d(x, w, {settings_})); }}")["k"]
    np.testing.assert_allclose(kernel(x, w), wia.reference(kernel, x, w), rtol=1e-4, atol=1e-4)

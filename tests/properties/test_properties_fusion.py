"""Random programs with several results: fused and op by op they compute the same on the CPU."""

from collections.abc import Sequence

import numpy as np
import wia_compiler as wia
from fusion_building import without_fusion
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from special_values import assert_same_bits, specials

UNARY = ("relu({})", "tanh({})", "abs({})", "exp({})", "-{}", "floor({})", "gelu({})")
INTEGER_UNARY = ("relu({})", "abs({})", "-{}", "{} // 3", "{} % 5")
BINARY = ("{} + {}", "{} * {}", "{} - {}", "max({}, {})", "min({}, {})", "where({} > {}, {}, {})")
FOLDS = (
    "reduce_sum({}, axis=1)",
    "reduce_max({}, axis=1)",
    "softmax({})",
    "reduce_mean({}, axis=0)",
)
ROWS = ("layer_norm({})", "rms_norm({})", "softmax({})", "softmax({}, axis=0)")
DTYPES = ("f32", "f32", "f16", "f64", "i32", "i8", "bf16")
SETTINGS = settings(
    max_examples=30, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def elementwise(draw: st.DrawFn) -> tuple[str, list[np.ndarray]]:
    """Statements over two arrays that share values and give several of them back."""
    dtype = draw(st.sampled_from(DTYPES))
    names = ["x", "y"]
    lines: list[str] = []
    for number in range(draw(st.integers(2, 9))):
        form = draw(st.sampled_from((INTEGER_UNARY if dtype[0] == "i" else UNARY) + BINARY))
        chosen = [draw(st.sampled_from(names)) for _ in range(form.count("{}"))]
        names.append(f"t{number}")
        lines.append(f"t{number} = {form.format(*chosen)};")
    shape = draw(st.sampled_from([(17,), (3, 5), (1,), (127,), (2, 3, 4), (0, 3)]))
    smaller = draw(st.sampled_from([shape, shape[-1:], (1,) * len(shape)]))
    return program(draw, names, lines, 3), [
        values(shape, dtype, draw(st.integers(0, 50))),
        values(smaller, dtype, draw(st.integers(51, 99))),
    ]


def program(draw: st.DrawFn, names: list[str], lines: list[str], most: int) -> str:
    """A kernel of the statements that gives back the last value and a few others."""
    others = draw(st.lists(st.sampled_from(names[2:]), max_size=most, unique=True))
    given_back = list(dict.fromkeys([*others, names[-1]]))
    return f"kernel k(x: tensor, y: tensor) {{ {' '.join(lines)} return {', '.join(given_back)}; }}"


def values(shape: Sequence[int], dtype: str, seed: int) -> np.ndarray:
    """Random numbers with special ones among them."""
    special = specials(dtype)
    random = np.random.default_rng(seed)
    usual = (4 * random.normal(size=shape)).astype(np.int64 if dtype[0] == "i" else np.float64)
    mixed = np.where(random.random(shape) < 0.2, random.choice(special, shape), usual)
    return mixed.astype(special.dtype)


def fused_and_apart(
    text: str, arrays: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What a kernel gives as it is compiled, and with a kernel for each of its ops."""
    together = wia.compile(text)["k"].build(*arrays)
    with without_fusion():
        # Another name, so that no cache gives the fused code.
        apart = wia.compile(text.replace("kernel k(", "kernel apart("))["apart"].build(*arrays)
    assert (
        together.stage("fusion").text != apart.stage("fusion").text or not together.trace.decisions
    )
    return listed(together(*arrays)), listed(apart(*arrays))


def listed(results: object) -> list[np.ndarray]:
    return [np.asarray(each) for each in (results if isinstance(results, tuple) else (results,))]


@SETTINGS
@given(made=elementwise())
def test_elementwise_programs_agree_to_the_last_bit(made: tuple[str, list[np.ndarray]]) -> None:
    together, apart = fused_and_apart(*made)
    for one, other in zip(together, apart, strict=True):
        assert_same_bits(one, other)


@st.composite
def with_folds(draw: st.DrawFn) -> tuple[str, list[np.ndarray]]:
    """Statements with folds, rows and products over square matrices."""
    names = ["x", "y"]
    lines: list[str] = []
    for number in range(draw(st.integers(2, 7))):
        form = draw(st.sampled_from((*UNARY[:3], *BINARY[:4], *FOLDS, *ROWS, "{} @ {} * 0.1")))
        chosen = [draw(st.sampled_from(names)) for _ in range(form.count("{}"))]
        name = f"t{number}"
        lines.append(f"{name} = {form.format(*chosen)};")
        if form in FOLDS:
            lines.append(f"{name} = {name} + x * 0.0;")
        names.append(name)
    size = draw(st.sampled_from([1, 3, 5, 17]))
    random = np.random.default_rng(draw(st.integers(0, 99)))
    arrays = [random.normal(size=(size, size)).astype(np.float32) for _ in range(2)]
    return program(draw, names, lines, 2), arrays


@SETTINGS
@given(made=with_folds())
def test_programs_with_folds_agree_within_the_contract(made: tuple[str, list[np.ndarray]]) -> None:
    together, apart = fused_and_apart(*made)
    for one, other in zip(together, apart, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=2e-4)


def test_fusion_can_be_left_out() -> None:
    arrays = [values((17,), "f32", 1), values((17,), "f32", 2)]
    text = "kernel k(a: tensor, b: tensor) { x = tanh(a + b); y = exp(x); return x, y, x + y; }"
    with without_fusion():
        apart = wia.compile(text.replace("kernel k(", "kernel left(")).left.build(*arrays)
        assert apart.trace  # a record is made when it is asked for
    together = wia.compile(text).k.build(*arrays)
    kernels = [
        [row for row in each.stage("fusion").ops if row.parent is None and row.label != "return"]
        for each in (together, apart)
    ]
    assert [len(rows) for rows in kernels] == [1, 4]
    for one, other in zip(*fused_and_apart(text, arrays), strict=True):
        assert_same_bits(one, other)

"""Rewrites are tried against their match before they fire; what differs is shown, loops end."""

from collections.abc import Sequence

import numpy as np
import pytest
from building import context, kernel, specs
from pattern_building import Body, declare
from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import CompileError
from wia_compiler.base.record import Decision
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.apply_patterns import ApplyPatterns
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.patterns.pattern import Pattern
from wia_compiler.passes.patterns.soundness import Checked, check
from wia_compiler.passes.patterns.trials import Limits, boundary_values, fill_combinations, rows


def spec(shape: Sequence[int], dtype: str) -> TensorSpec:
    return TensorSpec(tuple(shape), DTYPES[dtype])


def tried(
    match: Body, rewrite: Body, *types: TensorSpec, free: Sequence[str] = "xyz"
) -> Checked | str:
    """Try a pattern on free values of these types."""
    pattern = Pattern(declare("P", list(free)[: len(types)], match, rewrite))
    return check(pattern, types, context())


def counterexample(match: Body, rewrite: Body, *types: TensorSpec) -> str:
    with pytest.raises(CompileError) as caught:
        tried(match, rewrite, *types)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert diagnostic.hint is not None
    assert "^" in str(caught.value)
    return diagnostic.message.partition("something else: ")[2]


F32 = spec((3, 100), "f32")
I8 = spec((7,), "i8")

UNSOUND: list[tuple[str, Body, Body, tuple[TensorSpec, ...], str]] = [
    (
        "sign of zero",
        lambda b, x: b.op("add", x, 0.0),
        lambda b, x: b.op("mul", x, 1.0),
        (F32,),
        "with %x = -0.0 its match (add) gives 0.0, its rewrite (mul) -0.0",
    ),
    (
        "sign of a difference",
        lambda b, x: b.op("sub", x, x),
        lambda b, x: b.op("mul", x, 0.0),
        (F32,),
        "with %x = -0.0 its match (sub) gives 0.0, its rewrite (mul) -0.0",
    ),
    (
        "NaN",
        lambda b, x, y: b.op("max", x, y),
        lambda b, x, y: b.op("where", b.op("gt", x, y), x, y),
        (F32, F32),
        "its match (max) gives",
    ),
    (
        "overflow",
        lambda b, x: b.op("div", b.op("mul", x, 2.0), 2.0),
        lambda b, x: b.op("mul", x, 1.0),
        (F32,),
        "with %x = 3.4028235e+38 its match (div) gives inf, its rewrite (mul) 3.4028235e+38",
    ),
    (
        "underflow",
        lambda b, x: b.op("mul", b.op("mul", x, 0.000244140625), 4096.0),
        lambda b, x: b.op("mul", x, 1.0),
        (spec((4,), "f16"),),
        "with %x = 6.1035156e-05 its match (mul) gives 0.0, its rewrite (mul) 6.1035156e-05",
    ),
    (
        "integer extreme",
        lambda b, x: b.op("abs", x),
        lambda b, x: b.op("max", x, b.op("sub", 0, b.op("max", x, -127))),
        (I8,),
        "with %x = -128 its match (abs) gives -128, its rewrite (max) 127",
    ),
    (
        "reassociation",
        lambda b, x, y, z: b.op("add", b.op("add", x, y), z),
        lambda b, x, y, z: b.op("add", x, b.op("add", y, z)),
        (F32, F32, F32),
        "its match (add) gives",
    ),
    (
        "another axis",
        lambda b, x: b.op("softmax", x, dim=0),
        lambda b, x: b.op("softmax", x, dim=1),
        (spec((5, 5), "f32"),),
        "with %x = [[",
    ),
    (
        "a number of the shape",
        lambda b, x: b.op("div", b.op("reduce_sum", x, dim=-1), 8.0),
        lambda b, x: b.op("reduce_mean", x, dim=-1),
        (F32,),
        "%x = ",
    ),
    (
        "order of a product",
        lambda b, x, y: b.op("matmul", x, y),
        lambda b, x, y: b.op("matmul", y, x),
        (spec((6, 6), "f32"), spec((6, 6), "f32")),
        "its match (matmul) gives",
    ),
    (
        "bool",
        lambda b, x, y: b.op("logical_or", x, y),
        lambda b, x, y: b.op("ne", x, y),
        (spec((4,), "bool"), spec((4,), "bool")),
        "with %x = true, %y = true its match (logical_or) gives true, its rewrite (ne) false",
    ),
]


@pytest.mark.parametrize(
    ("match", "rewrite", "types", "message"),
    [row[1:] for row in UNSOUND],
    ids=[row[0] for row in UNSOUND],
)
def test_what_differs_is_shown(
    match: Body, rewrite: Body, types: tuple[TensorSpec, ...], message: str
) -> None:
    assert message in counterexample(match, rewrite, *types)


SOUND: list[tuple[str, Body, Body, tuple[TensorSpec, ...]]] = [
    ("same", lambda b, x: b.op("relu", x), lambda b, x: b.op("max", x, 0.0), (F32,)),
    (
        "two roundings",
        lambda b, x, y: b.op("div", x, b.op("sqrt", y)),
        lambda b, x, y: b.op("mul", x, b.op("rsqrt", y)),
        (F32, spec((100,), "f32")),
    ),
    ("wrapping", lambda b, x: b.op("add", x, x), lambda b, x: b.op("mul", x, 2), (I8,)),
    (
        "integers associate",
        lambda b, x, y, z: b.op("mul", b.op("mul", x, y), z),
        lambda b, x, y, z: b.op("mul", x, b.op("mul", y, z)),
        (I8, I8, I8),
    ),
    (
        "sizes are part of it",
        lambda b, x: b.op("div", b.op("reduce_sum", x, dim=-1), 100.0),
        lambda b, x: b.op("reduce_mean", x, dim=-1),
        (F32,),
    ),
    (
        "transposed product",
        lambda b, x, y: b.op("transpose", b.op("matmul", x, y)),
        lambda b, x, y: b.op("matmul", b.op("transpose", y), b.op("transpose", x)),
        (spec((70, 300), "f32"), spec((300, 90), "f32")),
    ),
    (
        "convolution of groups",
        lambda b, x, y: b.op("relu", b.op("conv2d", named={"input": x, "weight": y}, groups=2)),
        lambda b, x, y: b.op("max", b.op("conv2d", named={"input": x, "weight": y}, groups=2), 0.0),
        (spec((1, 64, 56, 56), "f32"), spec((64, 32, 3, 3), "f32")),
    ),
    (
        "empty",
        lambda b, x: b.op("relu", x),
        lambda b, x: b.op("max", x, 0.0),
        (spec((0, 3), "f32"),),
    ),
    ("scalar", lambda b, x: b.op("relu", x), lambda b, x: b.op("max", x, 0.0), (spec((), "bf16"),)),
]


@pytest.mark.parametrize(
    ("match", "rewrite", "types"), [row[1:] for row in SOUND], ids=[row[0] for row in SOUND]
)
def test_what_agrees_may_fire(match: Body, rewrite: Body, types: tuple[TensorSpec, ...]) -> None:
    checked = tried(match, rewrite, *types)
    assert isinstance(checked, Checked)
    assert checked.trials > 0 or not types[0].num_elements


def test_shrinking_keeps_equal_sizes_equal_and_broadcast_axes() -> None:
    # With the axis of 1 stretched, or unequal sizes made equal, these two would agree or not parse.
    checked = tried(
        lambda b, x, y: b.op("mul", b.op("add", x, y), 1.0),
        lambda b, x, y: b.op("add", y, x),
        spec((4000, 1, 3000), "f32"),
        spec((1, 5000, 3000), "f32"),
    )
    assert isinstance(checked, Checked)


@pytest.mark.parametrize(
    ("rewrite", "message"),
    [
        (lambda b, x: b.op("reduce_sum", x), "tensor<3x100xf32> in its match and tensor<f32>"),
        (lambda b, x: b.op("cast", x, dtype="f64"), "tensor<3x100xf64> in its rewrite"),
        (lambda b, x: b.op("reshape", x, shape=(300,)), "tensor<300xf32> in its rewrite"),
        (lambda b, x: b.op("reshape", x, shape=(7,)), "its rewrite does not: "),
    ],
)
def test_a_rewrite_that_changes_shape_or_dtype_is_refused(rewrite: Body, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        tried(lambda b, x: b.op("relu", x), rewrite, F32)
    assert message in str(caught.value)


def test_what_is_too_large_to_try_is_not_used() -> None:
    found = tried(
        lambda b, x: b.op("reshape", b.op("relu", x), shape=(-1, 1_000_003)),
        lambda b, x: b.op("relu", b.op("reshape", x, shape=(-1, 1_000_003))),
        spec((2, 1_000_003), "f32"),
    )
    assert found == "its sizes cannot be shrunk, and 2000006 elements are too many to try"


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bool"])
def test_boundaries_are_tried(dtype: str) -> None:
    values = boundary_values(DTYPES[dtype])
    if DTYPES[dtype].is_integer:
        ends = np.iinfo(DTYPES[dtype].numpy)
        assert {ends.min, ends.max, 0, 1} <= set(values.tolist())
        return
    wide = values.astype(np.float64)
    limits = Limits.of(DTYPES[dtype])
    assert {limits.largest, -limits.largest, limits.subnormal, np.inf, -np.inf} <= set(
        wide.tolist()
    )
    assert np.isnan(wide).sum() == 1
    assert (wide == 0).sum() == 2
    assert np.signbit(wide[wide == 0]).tolist() == [False, True]
    # The smallest number is the dtype's own: half of it is none.
    assert np.array(limits.subnormal).astype(DTYPES[dtype].numpy) != 0
    assert np.array(limits.subnormal / 2).astype(DTYPES[dtype].numpy) == 0


def test_two_values_meet_in_every_combination_of_boundaries() -> None:
    f32 = DTYPES["f32"]
    count = len(boundary_values(f32))
    assert len(list(fill_combinations([f32, f32]))) == count * count
    many = list(fill_combinations([f32] * 4))
    assert len(many) == count + 400
    one, other = rows([spec((3, 1), "f32"), spec((5,), "f32")])
    assert one.shape[1:] == (3, 1)
    assert other.shape[1:] == (1, 5)
    assert len(one) == len(other) > count * count


def run(patterns: Sequence[PatternDeclaration], body: Body, **inputs: str) -> list[Decision]:
    module = kernel(list(inputs), body)
    InferShapes(specs(**inputs)).run(module, context())
    made = context()
    ApplyPatterns(tuple(patterns)).run(module, made)
    return made.decisions


SWAP = declare(
    "Swap", ["a", "b"], lambda b, x, y: b.op("add", x, y), lambda b, x, y: b.op("add", y, x)
)
GROW = declare(
    "Grow", ["a"], lambda b, x: b.op("relu", x), lambda b, x: b.op("relu", b.op("relu", x))
)
PING = declare("Ping", ["a"], lambda b, x: b.op("relu", x), lambda b, x: b.op("max", x, 0.0))
PONG = declare("Pong", ["a"], lambda b, x: b.op("max", x, 0.0), lambda b, x: b.op("relu", x))
PLUS = declare(
    "Plus",
    ["a", "b"],
    lambda b, x, y: b.op("add", x, y),
    lambda b, x, y: b.op("add", b.op("add", x, 0), y),
)


@pytest.mark.parametrize(
    ("patterns", "body", "inputs", "message"),
    [
        (
            [SWAP],
            lambda b, x, y: b.op("add", x, y),
            {"x": "3xf32", "y": "3xf32"},
            "pattern 'Swap' cannot be used: it fires on what it made (add → add)",
        ),
        ([GROW], lambda b, x: b.op("relu", x), {"x": "3xf32"}, "it fires on what it made (relu →"),
        ([PING, PONG], lambda b, x: b.op("relu", x), {"x": "3xf32"}, "with 'P"),
        (
            [PLUS],
            lambda b, x, y: b.op("add", x, y),
            {"x": "3xi32", "y": "3xi32"},
            "pattern 'Plus' cannot be used: it fires on what it made",
        ),
    ],
)
def test_patterns_that_feed_themselves_are_errors(
    patterns: Sequence[PatternDeclaration], body: Body, inputs: dict[str, str], message: str
) -> None:
    with pytest.raises(CompileError) as caught:
        run(patterns, body, **inputs)
    assert message in str(caught.value)
    assert "times in a row" in str(caught.value)


def test_an_unsound_pattern_that_matches_nothing_is_no_error() -> None:
    wrong = declare("Wrong", ["x"], lambda b, x: b.op("exp", x), lambda b, x: b.op("log", x))
    decisions = run([wrong], lambda b, x: b.op("relu", x), x="3xf32")
    assert [decision.taken for decision in decisions] == [False]

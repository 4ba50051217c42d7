"""What a pattern matches, what keeps it from matching, and what takes the place of a match."""

from collections.abc import Sequence

import numpy as np
import pytest
from bare_target import BARE_FACTS
from building import Builder, context, kernel, specs
from pattern_building import Body, declare, kernel_of
from wia_compiler.base.errors import CompileError
from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import origins_of
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.wia.fuse_match import FuseMatchOp
from wia_compiler.dialects.wia.ops import AnyTensorType, FusedOp, TensorOp
from wia_compiler.passes.apply_patterns import ApplyPatterns
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue


def apply(
    patterns: Sequence[PatternDeclaration],
    body: Body,
    facts: TargetFacts = BARE_FACTS,
    **inputs: str,
) -> tuple[ModuleOp, list[Decision]]:
    """Apply patterns to a kernel; what it computes must not change, and its text must read back."""
    module = kernel(list(inputs), body)
    InferShapes(specs(**inputs)).run(module, context())
    random = np.random.default_rng(3)
    arrays = [
        (4 * random.normal(size=each.spec.shape)).astype(each.spec.dtype.numpy)
        for each in specs(**inputs)
    ]
    before = run_module(module, "k", arrays)
    made = context(facts=facts)
    ops = [op for op in module.walk() if isinstance(op, TensorOp)]
    made.ids = {id(op): op.declaration.name for op in ops}
    ApplyPatterns(tuple(patterns)).run(module, made)
    module.verify()
    for found, expected in zip(run_module(module, "k", arrays), before, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert print_ir(parse_ir(print_ir(module))) == print_ir(module)
    assert all(origins_of(op) for op in module.walk() if isinstance(op, TensorOp | FusedOp))
    return module, made.decisions


def names(module: ModuleOp) -> list[str]:
    """The ops of a kernel, in order."""
    return [op.declaration.name for op in module.walk() if isinstance(op, TensorOp)]


def rsqrt_of(name: str = "Rsqrt") -> PatternDeclaration:
    return declare(
        name,
        ["x", "y"],
        lambda b, x, y: b.op("div", x, b.op("sqrt", y, hint="root"), hint="out"),
        lambda b, x, y: b.op("mul", x, b.op("rsqrt", y), hint="out"),
    )


CONV_BIAS_RELU = declare(
    "ConvBiasRelu",
    ["input", "weight", "bias"],
    lambda b, x, w, bias: b.op(
        "relu", b.op("add", b.op("conv2d", named={"input": x, "weight": w}, hint="conv"), bias)
    ),
    kernel_of("fused_conv_bias_relu"),
)


def test_a_general_rewrite_keeps_locations_and_names() -> None:
    module, decisions = apply(
        [rsqrt_of()],
        lambda b, x, y: b.op("div", x, b.op("sqrt", y), hint="r"),
        x="3x5xf32",
        y="5xf32",
    )
    assert names(module) == ["rsqrt", "mul"]
    (mul,) = [op for op in module.walk() if op.name == "wia.mul"]
    assert mul.results[0].name_hint == "r"
    assert [origin.token for origin in origins_of(mul)] == [0, 1]
    (decision,) = decisions
    assert (decision.kind, decision.taken) == ("pattern", True)
    assert decision.reason == "sqrt, div → rsqrt, mul"
    assert decision.subjects == ("sqrt", "div")
    assert decision.numbers["matched_ops"] == 2
    assert 0 < float(decision.numbers["largest_difference_ulp"]) <= 6


@pytest.mark.parametrize("swap", [False, True])
def test_the_chapters_pattern_makes_the_kernel_it_names(swap: bool) -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
        conv = b.op("conv2d", named={"input": x, "weight": w})
        return b.op("relu", b.op("add", *((bias, conv) if swap else (conv, bias))))

    inputs = {"x": "1x3x8x8xf32", "w": "4x3x3x3xf32", "bias": "4x1x1xf32"}
    module, (decision,) = apply([CONV_BIAS_RELU], body, **inputs)
    (fused,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    assert fused.kernel_name.data == "fused_conv_bias_relu"
    assert names(module) == ["conv2d", "add", "relu"]
    saved = 2 * 2 * 4 * 6 * 6 * 4
    assert decision.numbers["saved_bytes"] == saved
    assert decision.numbers["saved_launches"] == 2
    assert decision.numbers["benefit"] == saved + 2 * 100_000
    assert decision.numbers["cost"] == saved * 3 / 64
    assert decision.subjects == ("conv2d", "add", "relu")


def test_a_kernel_that_does_not_pay_is_refused_by_the_rule_of_fusion() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
        return b.op("relu", b.op("add", b.op("conv2d", named={"input": x, "weight": w}), bias))

    tight = TargetFacts("t", 4, bytes_per_flop=0.1, launch_cost_bytes=0)
    module, (decision,) = apply(
        [CONV_BIAS_RELU], body, tight, x="1x3x8x8xf32", w="4x3x3x3xf32", bias="4x1x1xf32"
    )
    assert decision.reason == "fused_conv_bias_relu does not pay: benefit 1.33 × cost, needs 1.5"
    assert "5 values fitted in registers, not 4" in str(decision.numbers["would_fire_if"])
    assert not [op for op in module.walk() if isinstance(op, FusedOp)]


def miss(body: Body, pattern: PatternDeclaration, **inputs: str) -> Decision:
    _, (decision,) = apply([pattern], body, **inputs)
    assert not decision.taken
    return decision


def test_an_attribute_that_differs_is_named() -> None:
    decision = miss(
        lambda b, x, w, bias: b.op(
            "relu", b.op("add", b.op("conv2d", named={"input": x, "weight": w}, padding=1), bias)
        ),
        CONV_BIAS_RELU,
        x="1x3x8x8xf32",
        w="4x3x3x3xf32",
        bias="4x1x1xf32",
    )
    assert decision.reason == "conv2d has padding=1, the pattern 0"
    assert decision.numbers["would_fire_if"] == "padding of conv2d were 0"


def test_an_operand_too_many_is_named() -> None:
    decision = miss(
        lambda b, x, w, bias: b.op(
            "relu",
            b.op(
                "add",
                b.op(
                    "conv2d",
                    named={"input": x, "weight": w, "bias": b.op("reshape", bias, shape=(4,))},
                ),
                bias,
            ),
        ),
        CONV_BIAS_RELU,
        x="1x3x8x8xf32",
        w="4x3x3x3xf32",
        bias="4x1x1xf32",
    )
    assert decision.reason == (
        "conv2d is given input, weight and bias, in the pattern input and weight"
    )


@pytest.mark.parametrize("dim", [-1, 1])
def test_an_axis_counted_from_the_end_is_the_same_axis(dim: int) -> None:
    pattern = declare(
        "Sum",
        ["x"],
        lambda b, x: b.op("mul", b.op("reduce_sum", x, dim=-1), 1.0),
        lambda b, x: b.op("reduce_sum", x, dim=-1),
    )
    module, decisions = apply(
        [pattern], lambda b, x: b.op("mul", b.op("reduce_sum", x, dim=dim), 1.0), x="3x4xf32"
    )
    assert names(module) == ["reduce_sum"]
    assert decisions[0].taken


def test_one_name_is_one_value() -> None:
    square = declare(
        "Square",
        ["x"],
        lambda b, x: b.op("mul", x, b.op("neg", x)),
        lambda b, x: b.op("neg", b.op("mul", x, x)),
    )
    module, _ = apply([square], lambda b, x: b.op("mul", b.op("neg", x), x), x="7xf32")
    assert names(module) == ["mul", "neg"]
    decision = miss(lambda b, x, y: b.op("mul", y, b.op("neg", x)), square, x="7xf32", y="7xf32")
    assert decision.reason == "%x stands for one value, here are two: y and x"


def both_by(b: Builder, factor: SSAValue, x: SSAValue, y: SSAValue) -> SSAValue:
    return b.op("add", b.op("mul", factor, x), b.op("mul", factor, y))


def test_values_that_the_match_shares_are_shared() -> None:
    pattern = declare(
        "Diamond",
        ["x", "y"],
        lambda b, x, y: (lambda e: b.op("add", b.op("mul", e, x), b.op("mul", e, y)))(
            b.op("exp", x)
        ),
        lambda b, x, y: (lambda e: b.op("add", b.op("mul", e, y), b.op("mul", e, x)))(
            b.op("exp", x)
        ),
    )

    def body(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.op("add", b.op("mul", b.op("exp", x), x), b.op("mul", b.op("exp", x), y))

    decision = miss(body, pattern, x="4xf32", y="4xf32")
    assert "stands for one value, here are two" in decision.reason


def test_an_inner_value_with_another_reader_blocks_the_match() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        root = b.op("sqrt", y)
        return [b.op("div", x, root), b.op("exp", root)]

    decision = miss(body, rsqrt_of(), x="4xf32", y="4xf32")
    assert decision.reason == "%root is inside of the match and has another consumer, exp"

    def returned(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        root = b.op("sqrt", y, hint="z")
        return [b.op("div", x, root), root]

    decision = miss(returned, rsqrt_of(), x="4xf32", y="4xf32")
    assert decision.reason.endswith("has another consumer, the result z")


def test_a_number_matches_by_its_value_in_the_dtype_at_hand() -> None:
    half = declare("Half", ["x"], lambda b, x: b.op("div", x, 2), lambda b, x: b.op("mul", x, 0.5))
    module, _ = apply([half], lambda b, x: b.op("div", x, 2.0), x="5xf16")
    assert names(module) == ["mul"]
    decision = miss(lambda b, x: b.op("div", x, 3.0), half, x="5xf16")
    assert decision.reason == "the pattern has the number 2.0 where 3.0 is read"


def test_a_number_that_the_pattern_computes_is_one_number() -> None:
    third = declare(
        "Third",
        ["x"],
        lambda b, x: b.op("mul", x, b.op("div", 1.0, 4.0)),
        lambda b, x: b.op("div", x, 4.0),
    )
    module, _ = apply([third], lambda b, x: b.op("mul", 0.25, x), x="5xf32")
    assert names(module) == ["div"]


def test_two_results_are_replaced_together() -> None:
    pattern = declare(
        "Both",
        ["x", "y"],
        lambda b, x, y: [b.op("neg", b.op("neg", x)), b.op("abs", b.op("neg", y))],
        lambda b, x, y: [b.op("reshape", x, shape=(3,)), b.op("abs", y)],
    )

    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        first = b.op("neg", b.op("neg", x))
        early = b.op("exp", first)
        return [early, b.op("abs", b.op("neg", y))]

    module, decisions = apply([pattern], body, x="3xf32", y="3xf32")
    assert sorted(names(module)) == ["abs", "exp", "reshape"]
    assert decisions[0].numbers["matched_ops"] == 4


def test_a_result_that_feeds_a_free_value_blocks_the_match() -> None:
    pattern = declare(
        "Both",
        ["x", "y"],
        lambda b, x, y: [b.op("neg", x), b.op("abs", y)],
        lambda b, x, y: [b.op("neg", x), b.op("abs", b.op("neg", y))],
    )
    decision = miss(
        lambda b, x: (lambda n: [n, b.op("abs", b.op("exp", n))])(b.op("neg", x)),
        pattern,
        x="3xf32",
    )
    assert decision.reason == "%y is computed from a result of the match"


def test_patterns_cascade_in_order_of_the_text() -> None:
    first = declare(
        "First", ["x"], lambda b, x: b.op("neg", b.op("neg", x)), lambda b, x: b.op("abs", x)
    )
    with pytest.raises(CompileError, match="pattern 'First'"):
        apply([first], lambda b, x: b.op("neg", b.op("neg", x)), x="3xf32")
    relus = declare(
        "Relus", ["x"], lambda b, x: b.op("relu", b.op("relu", x)), lambda b, x: b.op("relu", x)
    )

    def body(b: Builder, x: SSAValue) -> SSAValue:
        for _ in range(12):
            x = b.op("relu", x)
        return x

    module, decisions = apply([relus], body, x="9xf32")
    assert names(module) == ["relu"]
    assert sum(decision.taken for decision in decisions) == 11


def test_a_free_value_may_be_the_whole_rewrite() -> None:
    pattern = declare("Twice", ["x"], lambda b, x: b.op("neg", b.op("neg", x)), lambda b, x: x)
    module, decisions = apply([pattern], lambda b, x: b.op("neg", b.op("neg", x)), x="3xf32")
    assert names(module) == []
    assert decisions[0].reason == "neg, neg → a value that is there"


def fused_with(*positions: int, more: bool = False) -> Body:
    def body(b: Builder, *values: SSAValue) -> SSAValue:
        chosen = [values[position] for position in positions]
        made = b.add(FuseMatchOp("fused_it", chosen, [AnyTensorType()]))
        return b.op("relu", made) if more else made

    return body


@pytest.mark.parametrize(
    ("free", "match", "rewrite", "message"),
    [
        (["x"], lambda b, x: x, lambda b, x: x, "its match has no op"),
        (
            ["x"],
            lambda b, x: [b.op("relu", x), x],
            lambda b, x: [b.op("relu", x), x],
            "%x is no result of an op of its match",
        ),
        (
            ["x", "y"],
            lambda b, x, y: b.op("relu", x),
            lambda b, x, y: b.op("add", x, y),
            "%y stands in its rewrite alone",
        ),
        (
            ["x", "y"],
            lambda b, x, y: b.op("add", x, y),
            fused_with(0),
            "fused_it is not given %y, which its match reads",
        ),
        (
            ["x", "y"],
            lambda b, x, y: b.op("add", x, y),
            fused_with(0, 1, more=True),
            "fused_it stands beside other ops in its rewrite",
        ),
    ],
)
def test_blocks_that_can_never_fire_are_errors(
    free: list[str], match: Body, rewrite: Body, message: str
) -> None:
    with pytest.raises(CompileError) as caught:
        apply([declare("P", free, match, rewrite)], lambda b, x: b.op("exp", x), x="3xf32")
    assert message in str(caught.value)
    assert "1 | pattern P" in str(caught.value)


def test_two_contractions_are_not_one_kernel() -> None:
    pattern = declare(
        "Two",
        ["x", "w"],
        lambda b, x, w: b.op("matmul", b.op("matmul", x, w), w),
        kernel_of("fused_two"),
    )
    _, decisions = apply(
        [pattern],
        lambda b, x, w: b.op("matmul", b.op("matmul", x, w), w),
        x="3x3xf32",
        w="3x3xf32",
    )
    assert [decision.taken for decision in decisions] == [False, False]
    assert decisions[0].reason == "matmul reads x where the pattern has matmul"
    assert decisions[1].reason == (
        "fused_two is not one kernel: one kernel holds one contraction, here are two: matmul and "
        "matmul"
    )


def test_a_pattern_without_a_place_says_what_is_absent() -> None:
    decision = miss(lambda b, x: b.op("exp", x), rsqrt_of(), x="3xf32")
    assert decision.reason == "matches nothing: the kernel has no sqrt and no div"


def test_a_wide_pattern_over_many_ops_ends() -> None:
    def side(b: Builder, *values: SSAValue) -> list[SSAValue]:
        return [b.op("exp", value) for value in values]

    free = [f"x{n}" for n in range(6)]
    pattern = declare("Wide", free, side, side)
    inputs = {name: "2xf32" for name in free[:5]}

    def body(b: Builder, *values: SSAValue) -> list[SSAValue]:
        return [b.op("exp", value) for value in values]

    apply([pattern], body, **inputs)

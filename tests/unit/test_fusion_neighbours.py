"""Kernels with several results, kernels side by side, cheap ops repeated; numbers recomputed."""

import math
from collections.abc import Callable

import pytest
from bare_target import BARE_FACTS
from building import Builder
from fusion_building import fuse, kernels, of_kind, refusal
from wia_compiler.base.record import Decision
from wia_compiler.dialects.wia.ops import FusedOp
from wia_compiler.passes.facts import TargetFacts
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

EAGER = TargetFacts("eager", register_capacity=64, bytes_per_flop=0.1, launch_cost_bytes=10**8)
FREE_LAUNCHES = TargetFacts("f", register_capacity=64, bytes_per_flop=0.1, launch_cost_bytes=0)


def fused_ops(module: ModuleOp) -> list[FusedOp]:
    return [op for op in module.walk() if isinstance(op, FusedOp)]


def horizontal(decisions: list[Decision]) -> dict[str, Decision]:
    return {each.candidate: each for each in of_kind(decisions, "horizontal")}


@pytest.mark.parametrize("shape", ["17x3xf32", "1xf16", "f64", "0x4xf32", "127xi32"])
def test_independent_elementwise_ops_of_one_domain_are_one_launch(shape: str) -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [b.op("abs", x), b.op("neg", y)]

    module, decisions = fuse(body, EAGER, x=shape, y=shape)
    assert kernels(module) == ["fused_abs_neg"]
    (fused,) = fused_ops(module)
    assert len(fused.outputs) == 2
    decision = horizontal(decisions)["abs | neg"]
    assert decision.taken
    assert decision.reason.startswith(
        "both run over the same points: 0 B of traffic and one launch"
    )
    assert (decision.numbers["saved_bytes"], decision.numbers["saved_launches"]) == (0, 1)


def test_what_both_read_is_read_once() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [b.op("add", x, y), b.op("mul", y, x)]

    module, decisions = fuse(body, FREE_LAUNCHES, x="1000xf32", y="1000xf32")
    assert kernels(module) == ["fused_add_mul"]
    decision = horizontal(decisions)["add | mul"]
    assert decision.reason.startswith("both read x, y: 8.0 KB of traffic")
    # x, y and the sum are held while the product is made: 4 words, one more than either alone.
    assert decision.numbers["registers"] == 4
    assert decision.numbers["benefit"] == 2 * 4 * 1000
    assert decision.numbers["cost"] == 2 * 4 * 1000 * 4 / 64


def test_neighbours_that_share_nothing_need_a_launch_that_costs_enough() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [b.op("exp", x), b.op("log", y)]

    _, decisions = fuse(body, FREE_LAUNCHES, x="1000xf32", y="1000xf32")
    decision = horizontal(decisions)["exp | log"]
    cost = 2 * 4 * 1000 * 1 * 3 / 64
    assert (decision.taken, decision.numbers["cost"]) == (False, cost)
    needed = math.floor(1.5 * cost) + 1
    assert (
        decision.numbers["would_fuse_if"] == f"a launch cost what moving {needed} B does, not 0 B"
    )
    for launch, taken in ((needed, True), (needed - 1, False)):
        facts = TargetFacts("l", 64, bytes_per_flop=0.1, launch_cost_bytes=launch)
        _, decisions = fuse(body, facts, x="1000xf32", y="1000xf32")
        assert horizontal(decisions)["exp | log"].taken == taken


def test_reductions_over_the_same_axes_of_equal_shapes_are_one_nest() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [
            b.op("reduce_sum", x, dim=1),
            b.op("reduce_max", b.op("abs", y), dim=-1),
            b.op("reduce_min", y, dim=0),
        ]

    module, decisions = fuse(body, EAGER, x="3x17xf32", y="3x17xf32")
    assert kernels(module) == ["fused_reduce_sum_abs_reduce_max"]
    found = horizontal(decisions)
    assert found["reduce_sum | reduce_max"].taken
    other = found["reduce_sum and reduce_max | reduce_min"]
    assert other.reason == (
        "one kernel folds one set of axes, here are axis 1 of 3x17 and axis 0 of 3x17"
    )
    assert other.numbers["would_fuse_if"] == "both folded axis 1 of 3x17"


def test_other_domains_are_refused_with_their_sizes() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [b.op("exp", x), b.op("exp", y)]

    _, decisions = fuse(body, EAGER, x="3x4xf32", y="5xf32")
    decision = horizontal(decisions)["exp | exp"]
    assert decision.reason == "one nest runs over one domain, here are 3x4 and 5"
    assert decision.numbers["would_fuse_if"] == "both ran over 3x4"


def test_what_waits_for_another_kernel_is_no_neighbour() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> list[SSAValue]:
        e = b.op("exp", x)
        return [b.op("matmul", e, w), b.op("sin", b.op("matmul", w, b.op("matmul", e, w))), e]

    _, decisions = fuse(body, EAGER, x="4x4xf32", w="4x4xf32")
    assert set(horizontal(decisions)) == {"matmul | matmul"}  # exp and sin: a product lies between


def test_a_kernel_between_two_keeps_them_apart() -> None:
    # exp → matmul → tanh: merging exp and tanh would make a kernel that waits for itself.
    def body(b: Builder, x: SSAValue, w: SSAValue) -> list[SSAValue]:
        e = b.op("exp", x)
        product = b.op("transpose", b.op("matmul", e, w))
        return [e, b.op("tanh", product), b.op("sqrt", x)]

    module, decisions = fuse(body, EAGER, x="4x4xf32", w="4x4xf32")
    assert list(horizontal(decisions)) == ["exp | sqrt"]  # x is read once: better than tanh | sqrt
    assert kernels(module) == ["fused_exp_sqrt", "fused_tanh"]


def test_kernels_of_many_ops_are_not_merged_for_ever() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        return [b.op("exp", b.op("neg", x)) for _ in range(60)]

    module, decisions = fuse(body, EAGER, x="4xf32")
    assert len(kernels(module)) == 3
    reasons = [each.reason for each in of_kind(decisions, "horizontal") if not each.taken]
    assert "together they have 50 ops, kernels of up to 48 are merged" in reasons


def test_readers_of_one_value_merge_so_that_it_need_not_be_written() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        t = b.op("tanh", x)
        return [b.op("exp", t), b.op("mul", t, 2.0)]

    module, decisions = fuse(body, x="17x3xf32")
    assert kernels(module) == ["fused_tanh_exp_mul"]
    assert all(decision.taken for decision in decisions)


def softmax_and_its_logarithm(b: Builder, x: SSAValue) -> list[SSAValue]:
    s = b.op("softmax", x, hint="s")
    return [s, b.op("log", s)]


def row_statistics(b: Builder, x: SSAValue) -> list[SSAValue]:
    mean = b.op("reduce_mean", x, dim=-1, keepdim=True, hint="mean")
    return [mean, b.op("sub", x, mean)]


def before_and_after_the_activation(b: Builder, x: SSAValue) -> list[SSAValue]:
    h = b.op("matmul", x, x, hint="h")
    return [h, b.op("relu", h)]


def element_and_its_sum(b: Builder, x: SSAValue) -> list[SSAValue]:
    e = b.op("exp", x, hint="e")
    return [e, b.op("reduce_sum", e, dim=1)]


@pytest.mark.parametrize(
    "body",
    [
        softmax_and_its_logarithm,
        row_statistics,
        before_and_after_the_activation,
        element_and_its_sum,
    ],
)
@pytest.mark.parametrize("shape", ["5x5xf32", "1x1xf16", "3x3xf64"])
def test_a_result_that_is_also_consumed_leaves_the_kernel_on_the_way(
    body: Callable[[Builder, SSAValue], list[SSAValue]], shape: str
) -> None:
    module, decisions = fuse(body, EAGER, x=shape)
    (fused,) = fused_ops(module)
    assert len(fused.outputs) == 2
    (decision,) = [each for each in decisions if each.numbers["other_users"]]
    assert decision.taken
    assert "is written on the way, for the result" in decision.reason
    size = {"5x5xf32": 4, "1x1xf16": 2, "3x3xf64": 8}[shape]
    elements = 5 if body is row_statistics else 25
    if shape == "5x5xf32":
        assert (
            decision.numbers["saved_bytes"] == elements * size
        )  # once: it is written all the same


def test_a_result_that_the_nest_does_not_reach_is_refused() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        t = b.op("transpose", b.op("exp", x), hint="t")
        return [t, b.op("reduce_sum", b.op("neg", t), dim=0)]

    _, decisions = fuse(body, EAGER, x="4x6xf32")
    decision = refusal(decisions, "transpose → neg")
    assert decision.reason.startswith(
        "transpose is the result t too, which the nest does not write"
    )
    assert decision.numbers["would_fuse_if"] == "transpose were not the result t as well"


def test_a_cheap_op_is_computed_by_each_kernel_that_reads_it() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        r = b.op("add", x, y)
        return [b.op("exp", r), b.op("reduce_sum", r, dim=1)]

    module, decisions = fuse(body, FREE_LAUNCHES, x="17x9xf32", y="9xf32")
    assert kernels(module) == ["fused_add_exp", "fused_add_reduce_sum"]
    for candidate in ("add → exp", "add → reduce_sum"):
        (decision,) = [each for each in decisions if each.candidate == candidate]
        assert decision.taken
        assert decision.reason.startswith("add is cheap, each of the 2 kernels that read it")
        size, row = 17 * 9 * 4, 9 * 4
        # It is not written and not read twice; x and y are read once more.
        assert decision.numbers["saved_bytes"] == 3 * size - size - row
        flops = 17 * 9 * 0.1
        registers = int(decision.numbers["registers"])
        cost = round(2 * size * registers / 64 + flops, 1)
        assert decision.numbers["cost"] == cost
        assert decision.numbers["times_computed"] == 2


def test_a_dear_op_is_not_repeated() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        t = b.op("tanh", x)
        return [b.op("exp", t), b.op("reduce_sum", t, dim=1)]

    module, decisions = fuse(body, EAGER, x="17x9xf32")
    assert refusal(decisions, "tanh → exp").reason == "tanh has another consumer, reduce_sum"
    assert kernels(module) == []


def test_repeating_reads_no_more_than_it_saves() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue, z: SSAValue) -> list[SSAValue]:
        r = b.op("clamp", x, y, z)
        return [b.op("exp", r), b.op("reduce_sum", r, dim=1)]

    _, decisions = fuse(body, FREE_LAUNCHES, x="9x9xf32", y="9x9xf32", z="9x9xf32")
    assert refusal(decisions, "clamp → exp").reason == "clamp has another consumer, reduce_sum"
    _, decisions = fuse(body, FREE_LAUNCHES, x="9x9xf32", y="f32", z="f32")
    assert all(decision.taken for decision in of_kind(decisions, "vertical"))


def test_a_reduction_joins_only_where_every_result_follows_from_it() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        s = b.op("reduce_sum", x, dim=1)
        e = b.op("exp", y, hint="e")
        return [b.op("mul", s, e), e]

    fuse(body, EAGER, x="4x6xf32", y="4xf32")


@pytest.mark.parametrize("capacity", [2, 3, 8, 40])
def test_the_registers_that_are_said_to_suffice_do(capacity: int) -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.op("mul", b.op("add", x, y), y)

    facts = TargetFacts("t", capacity, bytes_per_flop=0.1, launch_cost_bytes=0)
    _, (decision,) = fuse(body, facts, x="1000xf32", y="1000xf32")
    expected = 1.5 * decision.numbers["registers"]
    assert decision.taken == (capacity > expected)  # pyright: ignore[reportOperatorIssue]
    if not decision.taken:
        needed = math.floor(expected) + 1  # pyright: ignore[reportArgumentType]
        would = str(decision.numbers["would_fuse_if"])
        assert f"{needed} values fitted in registers, not {capacity}" in would


def test_another_reader_is_no_hindrance_to_what_would_be_fused_without_it() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        t = b.op("tanh", x)
        return [b.op("exp", t), b.op("reduce_sum", t)]

    facts = TargetFacts("t", 2, bytes_per_flop=0.1, launch_cost_bytes=0)
    _, decisions = fuse(body, facts, x="1000xf32")
    would = str(refusal(decisions, "tanh → exp").numbers["would_fuse_if"])
    assert would.startswith(
        "nothing but the kernel of exp read tanh and 4 values fitted in registers"
    )
    assert BARE_FACTS.register_capacity > 4

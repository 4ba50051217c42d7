"""Fusion: what becomes one kernel, what is refused, and the numbers of each decision."""

from collections.abc import Callable

import pytest
from bare_target import BARE_FACTS
from building import Builder, context, kernel, specs
from fusion_building import fuse, kernels, refusal
from wia_compiler.dialects.location import origins_of
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusing.build import kernel_name
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.infer_shapes import InferShapes
from xdsl.ir import SSAValue


def test_a_convolution_its_bias_and_relu_are_one_kernel() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue, bias: SSAValue) -> SSAValue:
        product = b.op("conv2d", named={"input": x, "weight": w}, padding=1)
        return b.op("relu", b.op("add", product, b.op("reshape", bias, shape=(5, 1, 1))))

    module, decisions = fuse(body, x="2x3x7x7xf32", w="5x3x3x3xf32", bias="5xf32")
    assert kernels(module) == ["fused_conv2d_add_relu"]
    assert all(decision.taken for decision in decisions)
    (fused,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    assert len(origins_of(fused)) == 4


def test_a_producer_with_two_consumers_is_refused_by_name() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        r = b.op("tanh", x)
        return [b.op("exp", r), b.op("div", b.op("transpose", r), 3.0)]

    module, decisions = fuse(body, x="17x3xf32")
    assert kernels(module) == ["fused_div"]
    reasons = [decision.reason for decision in decisions]
    assert reasons[:2] == ["tanh has another consumer, transpose", "tanh has another consumer, exp"]
    assert decisions[0].numbers["other_users"] == 1
    assert decisions[0].numbers["other_user_names"] == "transpose"
    assert decisions[0].numbers["saved_bytes"] == 17 * 3 * 4
    assert decisions[0].numbers["would_fuse_if"] == "nothing but the kernel of exp read tanh"


def test_a_result_that_is_also_read_is_written_by_the_kernel_that_reads_it() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        r = b.op("relu", x, hint="y")
        return [r, b.op("exp", r)]

    module, decisions = fuse(body, x="4xf32")
    assert kernels(module) == ["fused_relu_exp"]
    assert decisions[0].reason.startswith(
        "relu stays in registers and is written on the way, for the result y: 16 B of traffic"
    )
    assert decisions[0].numbers["other_users"] == 1
    (fused,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    assert len(fused.outputs) == 2


def test_consumers_in_one_kernel_are_no_other_consumers() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        e = b.op("exp", x)
        return b.op("div", b.op("add", e, 1.0), b.op("mul", e, 2.0))

    module, decisions = fuse(body, x="127xf32")
    assert kernels(module) == ["fused_exp_add_mul_div"]
    assert all(decision.taken for decision in decisions)


def test_three_other_consumers_are_all_named() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        e = b.op("exp", x)
        return [b.op(name, e) for name in ("sin", "cos", "tanh")]

    apart = TargetFacts("a", register_capacity=1, bytes_per_flop=0.1, launch_cost_bytes=0)
    _, decisions = fuse(body, apart, x="4xf32")
    assert decisions[0].reason == "exp has 2 other consumers: cos, tanh"


@pytest.mark.parametrize(("m", "n"), [(8, 5), (3, 64)])
def test_a_prologue_of_a_contraction_says_how_often_it_would_be_computed(m: int, n: int) -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.op("matmul", b.op("relu", x), w)

    _, decisions = fuse(body, x=f"{m}x4xf32", w=f"4x{n}xf32")
    assert decisions[0].numbers["times_computed"] == n
    expected = f"each element of relu would be computed {n} times, as often as matmul reads them"
    assert decisions[0].reason == expected


def prologue_of_a_vector(b: Builder, x: SSAValue, v: SSAValue) -> SSAValue:
    return b.op("matmul", b.op("relu", x), v)


@pytest.mark.parametrize(
    ("x", "v"), [("4x8xf32", "8xf32"), ("127x17xf16", "17xf16"), ("3x5x7xi32", "7xi32")]
)
def test_a_prologue_that_is_read_once_is_computed_on_the_way(x: str, v: str) -> None:
    module, decisions = fuse(prologue_of_a_vector, x=x, v=v)
    assert kernels(module) == ["fused_relu_matmul"]
    assert decisions[0].taken


def test_a_prologue_that_is_read_once_needs_a_target_that_folds_products() -> None:
    systolic = TargetFacts("s", 64, 0.1, launch_cost_bytes=100_000, folds_products=False)
    module, decisions = fuse(prologue_of_a_vector, systolic, x="4x8xf32", v="8xf32")
    assert kernels(module) == []
    assert decisions[0].reason.startswith("matmul reads its operands from memory")


def test_a_prologue_that_is_a_result_too_is_not_written_by_the_product() -> None:
    def body(b: Builder, x: SSAValue, v: SSAValue) -> list[SSAValue]:
        r = b.op("relu", x, hint="r")
        return [b.op("matmul", r, v), r]

    _, decisions = fuse(body, x="4x8xf32", v="8xf32")
    assert (
        decisions[0].reason
        == "relu is the result r too, which the nest does not write at its points"
    )


def test_one_contraction_a_kernel() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.op("add", b.op("matmul", x, y), b.op("matmul", b.op("matmul", y, y), x))

    module, decisions = fuse(body, x="6x6xf32", y="6x6xf32")
    assert kernels(module) == ["fused_matmul_add"]
    taken = [decision.taken for decision in decisions if decision.candidate == "matmul → add"]
    assert taken == [False, True]
    assert "two: matmul and matmul" in refusal(decisions, "matmul → matmul").reason
    assert "two: matmul and matmul" in refusal(decisions, "matmul → add").reason


def test_rows_of_a_product_do_not_stay_in_registers() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.op("softmax", b.op("matmul", x, w))

    _, decisions = fuse(body, x="4x8xf64", w="8x100xf64")
    assert decisions[0].numbers["row_elements"] == 100
    assert decisions[0].numbers["row_registers"] == 200
    assert "200 registers" in decisions[0].reason


def test_softmax_into_a_product_is_refused() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.op("matmul", b.op("softmax", x), w)

    _, decisions = fuse(body, x="4x8xf32", w="8x3xf32")
    expected = "the rows of softmax would be computed 3 times, as often as matmul reads them"
    assert decisions[0].reason == expected


def test_what_follows_a_product_stays_with_it_rather_than_with_the_rows() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        scores = b.op("mul", b.op("neg", b.op("matmul", x, w)), 0.125)
        powers = b.op("exp", b.op("sub", scores, b.op("reduce_max", scores, dim=1, keepdim=True)))
        return b.op("div", powers, b.op("reduce_sum", powers, dim=1, keepdim=True))

    module, decisions = fuse(body, x="4x8xf32", w="8x5xf32")
    assert kernels(module) == ["fused_matmul_neg_mul", "fused_reduce_max_sub_exp_reduce_sum_div"]
    expected = "mul stays with matmul, which computes it once as it writes its result"
    assert refusal(decisions, "mul → reduce_max").reason == expected
    assert refusal(decisions, "mul → sub").numbers["sweeps"] == 3


def test_a_reduction_does_not_join_a_contraction() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        total = b.op("reduce_sum", x, dim=1, keepdim=True)
        return b.op("add", b.op("matmul", x, w), total)

    module, decisions = fuse(body, x="4x8xf32", w="8x3xf32")
    assert kernels(module) == ["fused_matmul_add"]
    assert refusal(decisions, "reduce_sum → add").reason == (
        "one kernel holds either reductions or a contraction, here are reduce_sum and matmul"
    )


def test_reductions_of_other_axes_are_refused() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        columns = b.op("sub", x, b.op("reduce_sum", x, dim=0, keepdim=True))
        return b.op("sub", columns, b.op("reduce_max", x, dim=1, keepdim=True))

    _, decisions = fuse(body, x="4x4xf32")
    reason = refusal(decisions, "reduce_sum → sub").reason
    assert reason.endswith("reduce_sum folds axis 0 of 4x4, reduce_max axis 1 of 4x4")


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "rms_norm"])
def test_elementwise_ops_join_before_and_after_rows(name: str) -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        scaled = b.op("mul", x, 0.5)
        rows = b.op(name, scaled) if name == "softmax" else b.op(name, named={"input": scaled})
        return b.op("add", rows, 1.0)

    module, decisions = fuse(body, x="5x17xf32")
    assert kernels(module) == [f"fused_mul_{name}_add"]
    sweeps = decisions[0].numbers["sweeps"]
    assert sweeps == (2 if name == "rms_norm" else 3)
    assert f"in each of {sweeps} sweeps" in decisions[0].reason


@pytest.mark.parametrize(("length", "kept"), [(17, True), (18, False)])
def test_rows_that_are_kept_are_computed_once(length: int, kept: bool) -> None:
    facts = TargetFacts("k", 64, bytes_per_flop=0.5, launch_cost_bytes=0, kept_row_elements=17)
    _, (decision,) = fuse(lambda b, x: b.op("softmax", b.op("tanh", x)), facts, x=f"5x{length}xf32")
    spilled = 2 * 5 * length * 4 * int(decision.numbers["registers"]) / 64
    again = 0 if kept else 2 * 5 * length * 0.5
    assert decision.numbers["cost"] == round(spilled + again, 1)
    assert decision.numbers["sweeps"] == 3
    assert ("sweeps over the rows, which keep it" in decision.reason) == kept


def layer_norm_by_hand(b: Builder, x: SSAValue) -> SSAValue:
    mean = b.op("reduce_mean", x, dim=-1, keepdim=True)
    centered = b.op("sub", x, mean)
    variance = b.op("reduce_mean", b.op("mul", centered, centered), dim=-1, keepdim=True)
    return b.op("mul", centered, b.op("rsqrt", b.op("add", variance, 1e-5)))


def softmax_by_hand(b: Builder, x: SSAValue) -> SSAValue:
    powers = b.op("exp", b.op("sub", x, b.op("reduce_max", x, dim=-1, keepdim=True)))
    return b.op("div", powers, b.op("reduce_sum", powers, dim=-1, keepdim=True))


def softmax_without_keepdim(b: Builder, x: SSAValue) -> SSAValue:
    largest = b.op("reshape", b.op("reduce_max", x, dim=-1), shape=(6, 1))
    powers = b.op("exp", b.op("sub", x, largest))
    total = b.op(
        "broadcast", b.op("reshape", b.op("reduce_sum", powers, dim=1), shape=(6, 1)), shape=(6, 9)
    )
    return b.op("div", powers, total)


@pytest.mark.parametrize("body", [layer_norm_by_hand, softmax_by_hand, softmax_without_keepdim])
def test_rows_written_by_hand_are_one_kernel(body: Callable[[Builder, SSAValue], SSAValue]) -> None:
    module, decisions = fuse(body, x="6x9xf32")
    assert len(kernels(module)) == 1
    assert not [op for op in module.body.block.first_op.body.block.ops if isinstance(op, TensorOp)]  # pyright: ignore
    assert all(decision.taken for decision in decisions)


def test_a_row_value_without_its_reduction_is_not_computed_again_for_each_element() -> None:
    def body(b: Builder, x: SSAValue, r: SSAValue) -> SSAValue:
        return b.op("mul", x, b.op("rsqrt", r))

    _, decisions = fuse(body, x="6x9xf32", r="6x1xf32")
    assert decisions[0].numbers["times_computed"] == 9
    assert decisions[0].reason.startswith("rsqrt has 6 elements, each would be computed 9 times")


def test_a_single_value_is_computed_ahead_of_the_loops() -> None:
    def body(b: Builder, x: SSAValue, alpha: SSAValue) -> SSAValue:
        return b.op("mul", x, b.op("exp", b.op("neg", alpha)))

    module, decisions = fuse(body, x="6x9xf32", alpha="f32")
    assert kernels(module) == ["fused_neg_exp_mul"]
    assert all(decision.taken for decision in decisions)


def test_a_few_long_rows_do_not_take_the_elementwise_ops_after_them() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        largest = b.op("reduce_max", b.op("abs", x), dim=1, keepdim=True)
        return b.op("div", x, largest)

    many = TargetFacts("many", 64, bytes_per_flop=0.1, launch_cost_bytes=1000, parallel_rows=8)
    module, decisions = fuse(body, many, x="2x1000xf32")
    assert kernels(module) == ["fused_abs_reduce_max"]
    reason = refusal(decisions, "reduce_max → div").reason
    assert reason == (
        "reduce_max leaves 2 of 2000 elements: the kernel would run on 2 of 8 processors"
    )
    for shape, facts in (("8x1000xf32", many), ("2x1000xf32", BARE_FACTS), ("2x1xf32", many)):
        module, _ = fuse(body, facts, x=shape)
        assert kernels(module) == ["fused_abs_reduce_max_div"]
    module, _ = fuse(layer_norm_by_hand, many, x="2x1000xf32")
    assert kernels(module) == ["fused_sub_mul_reduce_mean_add_rsqrt", "fused_sub_mul"]
    module, _ = fuse(layer_norm_by_hand, many, x="16x1000xf32")
    assert len(kernels(module)) == 1


def test_what_follows_a_reduction_joins_it() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("sqrt", b.op("reduce_sum", b.op("mul", x, x), dim=(0, 2)))

    module, _ = fuse(body, x="3x4x5xf32")
    assert kernels(module) == ["fused_mul_reduce_sum_sqrt"]


def test_a_row_of_another_matrix_is_not_in_the_rows() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("sub", x, b.op("reduce_sum", x, dim=1))

    _, decisions = fuse(body, x="5x5xf32")
    assert decisions[0].reason.startswith("the result of reduce_sum is needed at other points")


def test_reading_a_value_in_two_orders_is_refused() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        e = b.op("exp", x)
        return b.op("add", e, b.op("transpose", e))

    module, decisions = fuse(body, x="5x5xf32")
    assert decisions[0].reason.startswith("exp is read in two orders")
    assert kernels(module) == ["fused_add"]


def test_movement_becomes_index_maps_of_its_one_consumer() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.op("matmul", x, b.op("transpose", b.op("reshape", w, shape=(5, 4))))

    module, decisions = fuse(body, x="3x4xf32", w="20xf32")
    assert kernels(module) == ["fused_matmul"]
    assert all("index map" in decision.reason for decision in decisions)

    def shared(b: Builder, x: SSAValue, v: SSAValue) -> list[SSAValue]:
        t = b.op("transpose", x)
        return [b.op("exp", t), b.op("matmul", t, v)]

    _, decisions = fuse(shared, x="3x4xf32", v="3xf32")
    assert not any(decision.taken for decision in decisions)


def test_elementwise_ops_fuse_through_reshapes() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("neg", b.op("reshape", b.op("exp", x), shape=(12,)))

    module, _ = fuse(body, x="3x4xf32")
    assert kernels(module) == ["fused_exp_neg"]


def test_the_order_of_a_contraction_is_kept() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.op("neg", b.op("transpose", b.op("matmul", x, w)))

    module, decisions = fuse(body, x="3x4xf32", w="4x5xf32")
    assert "another order" in refusal(decisions, "matmul → transpose").reason
    assert kernels(module) == ["fused_neg"]


def test_registers_are_counted_by_what_is_alive() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        kept = [b.op(name, x) for name in ("exp", "log", "sin", "cos", "tanh")]
        total = kept[0]
        for value in kept[1:]:
            total = b.op("mul", b.op("sqrt", total), value)
        return total

    _, decisions = fuse(body, x="64xf32")
    assert max(int(decision.numbers["registers"]) for decision in decisions) == 6
    _, double = fuse(body, x="64xf64")
    assert max(int(decision.numbers["registers"]) for decision in double) == 12
    tight = TargetFacts(
        "tight", register_capacity=40, bytes_per_flop=0.1, launch_cost_bytes=10**6, vector_bytes=32
    )
    module, decisions = fuse(body, tight, x="64xf32")
    assert any("the kernel would need 48 registers, 40 fit" in d.reason for d in decisions)
    assert kernels(module)
    # A vector register holds 8 f32 or 4 f64: as many registers for either.
    roomy = TargetFacts(
        "r", register_capacity=400, bytes_per_flop=0.1, launch_cost_bytes=0, vector_bytes=32
    )
    for dtype in ("f32", "f64"):
        _, decisions = fuse(body, roomy, x=f"64x{dtype}")
        assert max(int(decision.numbers["registers"]) for decision in decisions) == 48


def test_benefit_cost_and_threshold_are_those_of_the_formula() -> None:
    facts = TargetFacts("t", register_capacity=4, bytes_per_flop=0.1, launch_cost_bytes=0)

    def body(b: Builder, x: SSAValue, y: SSAValue) -> SSAValue:
        return b.op("mul", b.op("add", x, y), y)

    _, (decision,) = fuse(body, facts, x="1000xf32", y="1000xf32")
    saved = 2 * 4 * 1000
    assert decision.numbers["benefit"] == saved
    assert decision.numbers["cost"] == saved * 3 / 4
    assert decision.numbers["ratio"] == pytest.approx(4 / 3, abs=1e-3)
    assert (decision.taken, decision.reason) == (False, "benefit 1.33 × cost, needs 1.5")
    launch = TargetFacts("t", register_capacity=4, bytes_per_flop=0.1, launch_cost_bytes=1001)
    _, (decision,) = fuse(body, launch, x="1000xf32", y="1000xf32")
    assert (decision.taken, decision.numbers["benefit"]) == (True, saved + 1001)


def test_scalars_and_empty_arrays() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("exp", b.op("neg", x))

    for shape in ("f32", "0xf32", "3x0x2xf32", "1x1xf32"):
        module, decisions = fuse(body, x=shape)
        assert kernels(module) == ["fused_neg_exp"]
        assert decisions[0].numbers["ratio"] > 1.5


def test_a_lone_op_with_a_constant_gets_a_kernel_that_holds_it() -> None:
    module, decisions = fuse(lambda b, x: b.op("mul", x, 2.0), x="4xf32")
    assert kernels(module) == ["mul"]
    assert decisions == []
    (fused,) = [op for op in module.walk() if isinstance(op, FusedOp)]
    assert isinstance(fused.body.block.first_op, ConstantOp)
    assert len(list(fused.arguments)) == 1


def test_names_of_kernels_are_unique_and_short() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        return [b.op("exp", b.op("neg", x)), b.op("exp", b.op("neg", y))]

    module, _ = fuse(body, x="4xf32", y="5xf32")
    assert kernels(module) == ["fused_neg_exp", "fused_neg_exp_2"]
    builder = Builder("k", ["x"], 1)
    value = builder.args[0]
    for _ in range(200):
        value = builder.op("exp", value)
    ops = [op for op in builder.function.body.block.ops if isinstance(op, TensorOp)]
    assert kernel_name(ops, set()) == "fused_exp_exp_exp_exp_exp_and_195_more"


def test_decisions_name_the_ops_of_the_stage_before() -> None:
    module = kernel(["x"], lambda b, x: b.op("exp", b.op("neg", x)))
    InferShapes(specs(x="4xf32")).run(module, context())
    made = context()
    ops = [op for op in module.walk() if isinstance(op, TensorOp)]
    made.ids = {id(op): f"op{number}" for number, op in enumerate(ops)}
    Fusion().run(module, made)
    assert made.decisions[0].subjects == ("op0", "op1")

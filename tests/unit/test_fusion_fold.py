"""conv2d and batch_norm: folded into the weights where it pays, else one kernel, rounded as two."""

import numpy as np
import pytest
import wia_compiler as wia
from building import Builder, context, kernel, specs
from fusion_building import check_nests, kernels, of_kind
from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import origins_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

SLOW_SUMS = TargetFacts("slow", 64, bytes_per_flop=10.0, launch_cost_bytes=10)
FAST_SUMS = TargetFacts("fast", 64, bytes_per_flop=0.1, launch_cost_bytes=10)
PARAMETERS = ("running_mean", "running_var", "weight", "bias")


def network(
    dtype: str = "f32",
    *,
    given: tuple[str, ...] = PARAMETERS,
    bias: bool = False,
    eps: float = 1e-5,
    keep: bool = False,
    groups: int = 1,
    size: int = 8,
) -> tuple[ModuleOp, dict[str, str]]:
    """relu(batch_norm(conv2d(x, w))), specialised, and its inputs."""
    inputs = {"x": f"2x4x{size}x{size}x{dtype}", "w": f"6x{4 // groups}x3x3x{dtype}"}
    inputs |= {"b": f"6x{dtype}"} if bias else {}
    inputs |= {name: f"6x{dtype}" for name in given}

    def body(b: Builder, x: SSAValue, w: SSAValue, *rest: SSAValue) -> list[SSAValue]:
        names = ["input", "weight", *(["bias"] if bias else [])]
        values = [x, w, *rest[: len(names) - 2]]
        named = dict(zip(names, values, strict=True))
        conv = b.op("conv2d", named=named, padding=1, groups=groups, hint="conv")
        statistics = dict(zip(given, rest[len(names) - 2 :], strict=True))
        norm = b.op("batch_norm", named={"input": conv, **statistics}, eps=eps)
        return [b.op("relu", norm), *([conv] if keep else [])]

    module = kernel(list(inputs), body)
    InferShapes(specs(**inputs)).run(module, context())
    return module, inputs


def fold(
    module: ModuleOp, inputs: dict[str, str], facts: TargetFacts = SLOW_SUMS
) -> tuple[Decision, list[np.ndarray], list[np.ndarray]]:
    """The decision, and the results before and after."""
    random = np.random.default_rng(2)
    arrays = [
        np.abs(random.normal(size=each.spec.shape)).astype(each.spec.dtype.numpy)
        for each in specs(**inputs)
    ]
    before = run_module(module, "k", arrays)
    made = context(facts=facts)
    Fusion().run(module, made)
    module.verify()
    check_nests(module, facts)
    (decision,) = of_kind(made.decisions, "fold")
    return decision, list(before), list(run_module(module, "k", arrays))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("given", [PARAMETERS, PARAMETERS[:2], PARAMETERS[:3]])
@pytest.mark.parametrize("groups", [1, 2])
def test_folding_keeps_the_result_but_for_rounding(
    dtype: str, bias: bool, given: tuple[str, ...], groups: int
) -> None:
    module, inputs = network(dtype, bias=bias, given=given, groups=groups)
    decision, before, after = fold(module, inputs)
    assert decision.taken
    assert "weights × γ/√(σ²+ε) are rounded before they are summed" in decision.reason
    # A sum of n products: n·ε·Σ|xᵢ|, and what scales it; all inputs are positive here.
    bound = (4 // groups * 9 + 6) * np.finfo(after[0].dtype).eps * np.abs(before[0]).max()
    np.testing.assert_allclose(after[0], before[0], rtol=0, atol=bound)
    names = [op.declaration.name for op in module.walk() if isinstance(op, TensorOp)]
    assert "batch_norm" not in names
    assert all(origins_of(op) for op in module.walk() if isinstance(op, TensorOp))


def test_the_numbers_are_those_of_the_formula() -> None:
    module, inputs = network()
    decision, _, _ = fold(module, inputs)
    flops = 3 * 2 * 6 * 8 * 8  # minus the mean, times the root and the weight; the sum stays
    weights = 6 * 4 * 9 * 4
    assert decision.numbers["saved_flops"] == flops
    assert decision.numbers["benefit"] == flops * 10.0
    assert decision.numbers["cost"] == 2 * weights + 3 * 10
    assert decision.numbers["ratio"] == pytest.approx(flops * 10 / (2 * weights + 30), abs=1e-3)


def test_where_it_does_not_pay_batch_norm_follows_in_the_same_kernel_bit_for_bit() -> None:
    module, inputs = network()
    decision, before, after = fold(module, inputs, FAST_SUMS)
    assert not decision.taken
    np.testing.assert_array_equal(after[0], before[0])
    assert kernels(module) == ["fused_conv2d_batch_norm_relu"]
    cost = 2 * 6 * 4 * 9 * 4 + 3 * 10
    would = str(decision.numbers["would_fuse_if"])
    needed = int(would.split()[2])
    assert would == f"conv2d gave {needed} elements or more, not {2 * 6 * 8 * 8}"
    assert needed * 3 * 0.1 > 1.5 * cost >= (needed - 1) * 3 * 0.1 - 1e-9


@pytest.mark.parametrize(
    ("settings", "reason", "would"),
    [
        ({"dtype": "f16"}, "weights of f16 would be rounded to f16 again", "f32 or f64, not f16"),
        ({"dtype": "bf16"}, "weights of bf16 would be rounded", "f32 or f64, not bf16"),
        ({"keep": True}, "conv2d has another consumer, the result conv", "nothing but batch_norm"),
        ({"eps": 0.0}, "eps is 0", "eps were above 0"),
    ],
)
def test_what_folding_would_change_is_refused(
    settings: dict[str, object], reason: str, would: str
) -> None:
    module, inputs = network(**settings)  # pyright: ignore[reportArgumentType]
    decision, before, after = fold(module, inputs)
    assert not decision.taken
    assert reason in decision.reason
    assert would in str(decision.numbers["would_fuse_if"])
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_batch_norm_without_a_convolution_is_no_candidate() -> None:
    def body(b: Builder, x: SSAValue, m: SSAValue, v: SSAValue) -> SSAValue:
        named = {"input": b.op("exp", x), "running_mean": m, "running_var": v}
        return b.op("batch_norm", named=named)

    module = kernel(["x", "m", "v"], body)
    InferShapes(specs(x="2x4x3xf32", m="4xf32", v="4xf32")).run(module, context())
    made = context(facts=SLOW_SUMS)
    Fusion().run(module, made)
    assert of_kind(made.decisions, "fold") == []


def test_it_runs_on_this_cpu() -> None:
    text = """
    kernel block(input x: tensor, input w: tensor, input m: tensor, input v: tensor,
                 input g: tensor, input b: tensor, output y: tensor) {
        y = relu(batch_norm(conv2d(x, w, padding=1, groups=4), m, v, g, b));
    }
    """
    random = np.random.default_rng(4)
    arrays = [
        random.normal(size=shape).astype(np.float32)
        for shape in ((1, 4, 60, 60), (4, 1, 3, 3), (4,), (4,), (4,), (4,))
    ]
    arrays[3] = np.abs(arrays[3]) + 0.1
    program = wia.compile(text)
    build = program.block.build(*arrays)
    (decision,) = of_kind(list(build.trace.decisions), "fold")
    assert decision.taken  # a filter of 9 elements and 3600 results each: the weights are small
    expected = wia.reference(program.block, *arrays)
    np.testing.assert_allclose(build(*arrays), np.asarray(expected), rtol=1e-4, atol=1e-5)

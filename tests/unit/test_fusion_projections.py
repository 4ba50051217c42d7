"""Products of one matrix with several: side by side in one product where the numbers say so."""

from collections.abc import Sequence

import numpy as np
import pytest
import wia_compiler as wia
from building import Builder, context, kernel, specs
from fusion_building import check_nests, of_kind
from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import origins_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

WIDE_VECTORS = TargetFacts("w", 256, bytes_per_flop=0.1, launch_cost_bytes=0, vector_bytes=64)


def project(
    shapes: Sequence[str], facts: TargetFacts = WIDE_VECTORS, *, used: bool = False
) -> tuple[ModuleOp, Decision]:
    """``x @ w`` for each w, returned one by one, or added up."""
    inputs = {"x": shapes[0], **{f"w{n}": shape for n, shape in enumerate(shapes[1:])}}

    def body(b: Builder, x: SSAValue, *weights: SSAValue) -> list[SSAValue]:
        products = [b.op("matmul", x, weight) for weight in weights]
        if not used:
            return products
        total = products[0]
        for each in products[1:]:
            total = b.op("add", total, each)
        return [total]

    module = kernel(list(inputs), body)
    InferShapes(specs(**inputs)).run(module, context())
    random = np.random.default_rng(0)
    arrays = [
        random.integers(-4, 5, each.spec.shape).astype(each.spec.dtype.numpy)
        for each in specs(**inputs)
    ]
    before = run_module(module, "k", arrays)
    made = context(facts=facts)
    made.ids = {id(op): op.name for op in module.walk()}
    Fusion().run(module, made)
    module.verify()
    check_nests(module, facts)
    for one, other in zip(run_module(module, "k", arrays), before, strict=True):
        np.testing.assert_array_equal(one, other)  # sums of small integers are exact
    assert all(origins_of(op) for op in module.walk() if isinstance(op, TensorOp))
    found = of_kind(made.decisions, "horizontal")
    return module, next(each for each in found if each.candidate.startswith("matmul"))


def names(module: ModuleOp) -> list[str]:
    return [op.declaration.name for op in module.walk() if isinstance(op, TensorOp)]


@pytest.mark.parametrize("dtype", ["f32", "f16", "i32"])
@pytest.mark.parametrize("columns", [(4, 4, 4), (2, 7)])
def test_narrow_products_are_one(dtype: str, columns: tuple[int, ...]) -> None:
    shapes = [f"127x64x{dtype}", *(f"64x{n}x{dtype}" for n in columns)]
    module, decision = project(shapes)
    assert decision.taken
    assert decision.candidate == " | ".join(["matmul"] * len(columns))
    assert decision.subjects == ("wia.matmul",) * len(columns)
    assert names(module) == ["concat", "matmul", *["slice"] * len(columns)]


def test_the_numbers_are_those_of_the_formula() -> None:
    _, decision = project(["128x64xf32", "64x4xf32", "64x4xf32", "64x4xf32"])
    # 16 lanes: each product works on 16 columns, the joint one too.
    one = 2 * 128 * 64 * 16 * 0.1
    traffic = 4 * (128 * 64 + (128 + 64) * 4)
    joint = 4 * (128 * 64 + (128 + 64) * 12)
    benefit = 3 * max(one, traffic) - max(one, joint)
    weights, results = 3 * 64 * 4 * 4, 3 * 128 * 4 * 4
    assert decision.numbers["benefit"] == pytest.approx(benefit, abs=0.1)
    assert decision.numbers["cost"] == 2 * (weights + results)
    assert decision.numbers["saved_launches"] == 3 - 2 - 3
    _, decision = project(["128x64xf32", "64x4xf32", "64x4xf32", "64x4xf32"], used=True)
    assert decision.numbers["cost"] == 2 * weights
    assert decision.numbers["saved_launches"] == 1


def test_wide_products_stay_apart_and_say_up_to_which_width_they_would_not() -> None:
    shapes = ["512x256xf32", "256x256xf32", "256x256xf32", "256x256xf32"]
    module, decision = project(shapes)
    assert names(module) == ["matmul"] * 3
    assert decision.reason.endswith("benefit 0.00 × cost, needs 1.5")
    would = str(decision.numbers["would_fuse_if"])
    columns = int(would.split()[2])
    assert would == f"each had {columns} columns or fewer, not 256"
    narrow = [shapes[0], *(f"256x{columns}xf32" for _ in range(3))]
    assert project(narrow)[1].taken
    assert not project([shapes[0], *(f"256x{2 * columns}xf32" for _ in range(3))])[1].taken


def test_a_single_column_runs_at_the_speed_of_memory() -> None:
    _, decision = project(["128x64xf32", "64x1xf32", "64x1xf32"])
    assert decision.reason == "a product with one column runs at the speed of memory by itself"
    assert decision.numbers["would_fuse_if"] == "each had 2 columns or more, not 1"


def test_a_product_that_needs_another_is_not_beside_it() -> None:
    def body(b: Builder, x: SSAValue, w: SSAValue) -> SSAValue:
        return b.op("matmul", x, b.op("matmul", x, w))

    module = kernel(["x", "w"], body)
    InferShapes(specs(x="4x4xf32", w="4x4xf32")).run(module, context())
    made = context(facts=WIDE_VECTORS)
    Fusion().run(module, made)
    assert of_kind(made.decisions, "horizontal") == []


def test_it_runs_on_this_cpu() -> None:
    text = """
    kernel heads(input x: tensor, input q: tensor, input k: tensor, input v: tensor,
                 output y: tensor) {
        y = relu(x @ q) + (x @ k) * (x @ v);
    }
    """
    random = np.random.default_rng(4)
    x = random.normal(size=(300, 64)).astype(np.float32)
    weights = [random.normal(size=(64, 3)).astype(np.float32) for _ in range(3)]
    program = wia.compile(text)
    build = program.heads.build(x, *weights)
    (decision,) = of_kind(list(build.trace.decisions), "horizontal")
    assert decision.taken
    expected = np.asarray(wia.reference(program.heads, x, *weights))
    np.testing.assert_allclose(build(x, *weights), expected, rtol=1e-3, atol=1e-3)

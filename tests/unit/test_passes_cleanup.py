"""Folding, CSE and DCE: rounding, locations, what stays."""

import numpy as np
import pytest
from building import Builder, context, kernel, specs
from special_values import assert_same_bits
from wia_compiler.dialects.location import origins_of, spans_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.cse import Cse
from wia_compiler.passes.dce import Dce
from wia_compiler.passes.fold_constants import FoldConstants
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue


def numbers(module: ModuleOp) -> list[object]:
    return [op.number for op in module.walk() if isinstance(op, ConstantOp)]


def names(module: ModuleOp) -> list[str]:
    return [op.declaration.name for op in module.walk() if isinstance(op, TensorOp)]


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
def test_a_fold_rounds_as_the_kernel_would(dtype: str) -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("add", x, b.op("mul", b.op("div", 1.0, 3.0), b.op("exp", 1.0)))

    module = kernel(["x"], body)
    InferShapes(specs(x=f"2x{dtype}")).run(module, context())
    x = np.zeros(2, run_module(module, "k", [np.zeros(2)])[0].dtype)
    expected = run_module(module, "k", [x])
    FoldConstants().run(module, context())
    module.verify()
    assert names(module) == ["add"]
    assert len(numbers(module)) == 1
    assert_same_bits(run_module(module, "k", [x])[0], expected[0])


def test_folded_ops_leave_where_they_came_from() -> None:
    module = kernel(["x"], lambda b, x: b.op("mul", x, b.op("add", 2.0, 3.0)))
    InferShapes(specs(x="2xf32")).run(module, context())
    FoldConstants().run(module, context())
    (constant,) = [op for op in module.walk() if isinstance(op, ConstantOp)]
    assert sorted(origin.token for origin in origins_of(constant)) == [0, 1, 2]


def test_special_numbers_fold_and_read_back() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        zero, negative = b.op("cast", 0.0, dtype="f32"), b.op("cast", b.op("neg", 0.0), dtype="f32")
        one = b.op("cast", 1.0, dtype="f32")
        return [b.op("div", zero, zero), b.op("div", one, zero), b.op("div", one, negative)]

    module = kernel(["x"], body)
    InferShapes(specs(x="1xf32")).run(module, context())
    FoldConstants().run(module, context())
    text = str(module)
    values = run_module(module, "k", [np.zeros(1, np.float32)])
    assert np.isnan(values[0])
    assert [float(v) for v in values[1:]] == [np.inf, -np.inf]
    assert names(module) == []
    assert "0x7ff8" in text


def test_integer_folds_wrap_and_divide_by_zero() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        most, zero = b.op("cast", 127, dtype="i8"), b.op("cast", 0, dtype="i8")
        return [b.op("add", most, most), b.op("floordiv", most, zero), b.op("mod", most, zero)]

    module = kernel(["x"], body)
    InferShapes(specs(x="1xi8")).run(module, context())
    FoldConstants().run(module, context())
    assert [int(v) for v in run_module(module, "k", [np.zeros(1, np.int8)])] == [-2, 0, 0]
    assert names(module) == []


def test_a_fold_over_many_elements_is_left_to_the_kernel() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        wide = b.op("broadcast", b.op("cast", 0.1, dtype="f32"), shape=(1 << 17,))
        return b.op("add", x, b.op("reduce_sum", wide))

    module = kernel(["x"], body)
    InferShapes(specs(x="1xf32")).run(module, context())
    FoldConstants().run(module, context())
    assert "reduce_sum" in names(module)


def test_merged_ops_keep_both_places() -> None:
    module = kernel(["x"], lambda b, x: b.op("add", b.op("exp", x), b.op("exp", x, hint="e")))
    InferShapes(specs(x="2xf32")).run(module, context())
    made = context()
    Cse().run(module, made)
    assert names(module) == ["exp", "add"]
    exp = next(op for op in module.walk() if isinstance(op, TensorOp))
    assert [span.line for span in spans_of(exp)] == [1, 2]
    assert exp.result.name_hint == "e"
    assert made.decisions[0].reason.startswith("exp is written again")


@pytest.mark.parametrize(("name", "merges"), [("add", True), ("max", True), ("sub", False)])
def test_only_commutative_operands_may_change_places(name: str, merges: bool) -> None:
    module = kernel(["x", "y"], lambda b, x, y: [b.op(name, x, y), b.op(name, y, x)])
    InferShapes(specs(x="2xf32", y="2xf32")).run(module, context())
    Cse().run(module, context())
    assert len(names(module)) == (1 if merges else 2)


def test_attributes_and_dtypes_keep_ops_apart() -> None:
    def body(b: Builder, x: SSAValue) -> list[SSAValue]:
        sums = [b.op("reduce_sum", x, dim=axis) for axis in (0, 1)]
        return [*sums, b.op("cast", x, dtype="f16"), b.op("cast", x, dtype="bf16")]

    module = kernel(["x"], body)
    InferShapes(specs(x="2x2xf32")).run(module, context())
    Cse().run(module, context())
    assert len(names(module)) == 4


def test_dead_chains_are_named() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        b.op("log", b.op("add", x, 1.0, hint="shifted"), hint="unused")
        return b.op("exp", x)

    module = kernel(["x"], body)
    InferShapes(specs(x="2xf32")).run(module, context())
    made = context()
    Dce().run(module, made)
    assert names(module) == ["exp"]
    assert numbers(module) == []
    reasons = [decision.reason for decision in made.decisions]
    assert reasons == [
        "no result of the kernel needs unused",
        "no result of the kernel needs shifted",
    ]

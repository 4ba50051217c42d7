"""The interpreter of high-level IR: literals, calls, declarations, kernels of fused ops."""

from dataclasses import dataclass

import numpy as np
import pytest
from building import Builder, context, kernel, specs
from wia_compiler.passes.decompose import Decompose
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.reference.interpret import run, run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue


@dataclass(frozen=True)
class Imported:
    """What the front end leaves, as far as the interpreter looks at it."""

    module: ModuleOp


def test_literals_take_the_dtype_they_meet() -> None:
    def body(b: Builder, x: SSAValue, y: SSAValue) -> list[SSAValue]:
        third = b.op("div", 1.0, 3.0)
        return [b.op("mul", x, third), b.op("mul", y, third), b.op("cast", third, dtype="f64")]

    arrays = [np.ones(2, np.float16), np.ones(2, np.float32)]
    half, single, double = run(Imported(kernel(["x", "y"], body)), "k", arrays)
    assert (half.dtype, half[0]) == (np.float16, np.float16(1) / np.float16(3))
    assert (single.dtype, single[0]) == (np.float32, np.float32(1) / np.float32(3))
    assert (double.dtype, double.item()) == (np.float64, 1 / 3)


def test_a_choice_between_literals_waits_for_a_dtype() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("mul", x, b.op("where", b.op("gt", x, 0), 1.0, -1.0))

    found = run_module(kernel(["x"], body), "k", [np.array([-2, 3], np.float16)])
    assert found[0].tolist() == [2, 3]
    assert found[0].dtype == np.float16


def test_a_result_of_literals_alone_is_refused() -> None:
    module = kernel(["x"], lambda b, x: b.op("add", 1.0, 2.0))
    with pytest.raises(TypeError, match="met no dtype"):
        run_module(module, "k", [np.zeros(1)])


def test_calls_and_declarations() -> None:
    callee = Builder("double", ["v"], 1, 100)
    (v,) = callee.args
    declared = callee.declare(v, "v", ("N",), "f32")
    function = callee.returns(callee.op("add", declared, declared))
    module = kernel(["x"], lambda b, x: b.call("double", b.call("double", x)))
    module.body.block.add_op(function)
    assert run_module(module, "k", [np.arange(3, dtype=np.float32)])[0].tolist() == [0, 4, 8]


def test_a_module_runs_at_every_stage_with_the_same_result() -> None:
    def body(b: Builder, x: SSAValue) -> SSAValue:
        return b.op("relu", b.op("sub", b.op("softmax", b.op("mul", x, 3)), 0.1))

    module = kernel(["x"], body)
    x = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float16)
    expected = run_module(module, "k", [x])[0]
    for step in (InferShapes(specs(x="5x7xf16")), Fusion(), Decompose()):
        step.run(module, context())
        np.testing.assert_array_equal(run_module(module, "k", [x])[0], expected)
    assert module.body.block.first_op is not None


def test_python_numbers_are_scalars_of_the_declared_dtype() -> None:
    module = kernel(["x", "a"], lambda b, x, a: b.op("mul", x, a))
    InferShapes(specs(x="2xf16", a="f16")).run(module, context())
    found = run_module(module, "k", [np.ones(2, np.float16), 0.1])[0]
    assert found.tolist() == [np.float16(0.1)] * 2
    assert found.flags.c_contiguous

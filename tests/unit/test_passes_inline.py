"""Inlining: scopes and tokens of each copy, provenance, cycles."""

import pytest
from building import Builder, context, kernel, specs
from wia_compiler.base.errors import CompileError
from wia_compiler.dialects.location import origins_of, spans_of
from wia_compiler.dialects.wia.ops import DeclareOp, TensorOp
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.inline import Inline
from wia_compiler.passes.kernel_function import functions_of
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue


def program(*names: str) -> ModuleOp:
    """Kernel k calls those kernels in turn; ``twice`` doubles, ``same`` takes equal sizes."""
    twice = Builder("twice", ["v"], 1, 100)
    doubled = twice.op("add", twice.args[0], twice.args[0], hint="w")
    same = Builder("same", ["v"], 1, 200)
    declared = same.declare(same.args[0], "v", ("N", "N"))

    def body(b: Builder, x: SSAValue) -> SSAValue:
        value = x
        for name in names:
            value = b.call(name, value)
        return value

    module = kernel(["x"], body)
    module.body.block.add_ops([twice.returns(doubled), same.returns(declared)])
    return module


def test_copies_have_tokens_of_their_own_and_both_spans() -> None:
    module = program("twice", "twice")
    calls = [op for op in functions_of(module)["k"].body.block.ops if op.results]
    made = context()
    made.ids = {id(op): str(number) for number, op in enumerate(calls)}
    Inline().run(module, made)
    first, second = [op for op in module.walk() if isinstance(op, TensorOp)]
    tokens = [{origin.token for origin in origins_of(op)} for op in (first, second)]
    assert len(tokens[0]) == len(tokens[1]) == 1
    assert tokens[0] != tokens[1]
    assert [span.line for span in spans_of(first)] == [101, 1]
    assert [span.line for span in spans_of(second)] == [101, 2]
    assert made.copied_tokens[tokens[0].pop()] == (100, 0)
    assert [d.candidate for d in made.decisions] == ["call of twice", "call of twice"]
    assert [d.subjects for d in made.decisions] == [("0",), ("1",)]
    assert list(functions_of(module)) == ["k"]


def test_each_copy_has_its_own_named_sizes() -> None:
    module = program("same", "same")
    Inline().run(module, context())
    scopes = [op.scope.value.data for op in module.walk() if isinstance(op, DeclareOp)]
    assert len(set(scopes)) == 2
    with pytest.raises(CompileError, match="size N is 2 on axis 0 of v of same, and 3 on axis 1"):
        InferShapes(specs(x="2x3xf32")).run(module, context())


def test_a_cycle_is_refused_with_its_way() -> None:
    a, b = Builder("a", ["v"], 1, 10), Builder("b", ["v"], 1, 20)
    module = kernel(["x"], lambda builder, x: builder.call("a", x))
    module.body.block.add_ops(
        [a.returns(a.call("b", a.args[0])), b.returns(b.call("a", b.args[0]))]
    )
    with pytest.raises(CompileError, match="k → a → b → a"):
        Inline().run(module, context())


def test_a_kernel_that_gives_its_argument_back() -> None:
    identity = Builder("identity", ["v"], 1, 100)
    module = kernel(["x"], lambda b, x: b.op("exp", b.call("identity", x)))
    module.body.block.add_op(identity.returns(identity.args[0]))
    Inline().run(module, context())
    module.verify()
    (exp,) = [op for op in module.walk() if isinstance(op, TensorOp)]
    assert exp.arguments[0].name_hint == "x"

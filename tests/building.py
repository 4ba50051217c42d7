"""Small kernels for tests of the high level, made op by op as the front end makes them."""

from collections.abc import Callable, Mapping, Sequence

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.location import Origin, location
from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    LiteralType,
    make_op,
)
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import update_function_type
from wia_compiler.passes.target import ArraySpec
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

FACTS = TargetFacts("test", register_capacity=64, bytes_per_flop=0.1, launch_cost_bytes=100_000)


class Builder:
    """Appends ops to one kernel; each gets a token and the span of a line of its own."""

    def __init__(self, name: str, inputs: Sequence[str], results: int, first_token: int = 0):
        any_tensor = AnyTensorType()
        self.function = FuncOp(name, ([any_tensor] * len(inputs), [any_tensor] * results))
        self.token = first_token
        for value, hint in zip(self.function.body.block.args, inputs, strict=True):
            value.name_hint = hint

    @property
    def args(self) -> tuple[SSAValue, ...]:
        """The kernel's inputs."""
        return tuple(self.function.body.block.args)

    def add(self, op: Operation, hint: str | None = None) -> SSAValue:
        """Append an op; its first result."""
        line = self.token + 1
        op.location = location(Origin(self.token, Span(line, 1, line, 9)))
        self.token += 1
        self.function.body.block.add_op(op)
        op.results[0].name_hint = hint
        return op.results[0]

    def op(
        self,
        name: str,
        *operands: SSAValue | int | float | bool,
        hint: str | None = None,
        named: Mapping[str, SSAValue] | None = None,
        **attributes: Value,
    ) -> SSAValue:
        """Append an op of the language; Python numbers become literals."""
        values = [v if isinstance(v, SSAValue) else self.literal(v) for v in operands]
        return self.add(make_op(name, named or values, attributes), hint)

    def literal(self, number: bool | int | float) -> SSAValue:
        """Append a literal."""
        return self.add(ConstantOp(number, LiteralType()))

    def declare(
        self,
        value: SSAValue,
        parameter: str,
        dims: tuple[int | str | None, ...] | None = None,
        dtype: str | None = None,
    ) -> SSAValue:
        """Append the check of a declared type."""
        declared = DTYPES[dtype] if dtype else None
        kernel = self.function.sym_name.data
        op = DeclareOp(
            value, kernel=kernel, parameter=parameter, dims=dims, dtype=declared, scope=0
        )
        return self.add(op, parameter)

    def call(self, name: str, *operands: SSAValue) -> SSAValue:
        """Append a call of another kernel with one result."""
        return self.add(CallOp(name, list(operands), [AnyTensorType()]))

    def returns(self, *values: SSAValue) -> FuncOp:
        """Finish the kernel."""
        self.function.body.block.add_op(ReturnOp(*values))
        return self.function


def kernel(
    inputs: Sequence[str], body: Callable[..., SSAValue | Sequence[SSAValue]], name: str = "k"
) -> ModuleOp:
    """A module with one kernel; ``body`` takes the builder and the inputs."""
    builder = Builder(name, inputs, 1)
    made = body(builder, *builder.args)
    results = [made] if isinstance(made, SSAValue) else list(made)
    function = builder.returns(*results)
    update_function_type(function)
    return ModuleOp([function])


def specs(**arguments: str) -> tuple[ArraySpec, ...]:
    """``specs(A="4x8xf32")``: arguments of a kernel."""
    return tuple(ArraySpec(name, spec(text)) for name, text in arguments.items())


def spec(text: str) -> TensorSpec:
    """``spec("4x8xf32")``: a shape and dtype."""
    *sizes, dtype = text.split("x")
    return TensorSpec(tuple(int(size) for size in sizes), DTYPES[dtype])


def context(kernel_name: str = "k", facts: TargetFacts = FACTS) -> PassContext:
    """A context without a source text."""
    return PassContext(Source(""), kernel_name, facts)

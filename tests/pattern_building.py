"""Pattern blocks for tests, made as the front end makes them."""

from collections.abc import Callable, Sequence

from building import Builder
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.wia.fuse_match import FuseMatchOp
from wia_compiler.dialects.wia.ops import AnyTensorType
from wia_compiler.passes.kernel_function import update_function_type
from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

Body = Callable[..., SSAValue | Sequence[SSAValue]]


def declare(name: str, free: Sequence[str], match: Body, rewrite: Body) -> PatternDeclaration:
    """``pattern NAME { match: … rewrite: … }`` over the free values."""
    sides = [_function(f"{name}.{n}", free, body) for n, body in enumerate((match, rewrite))]
    span = Span(1, 9, 1, 9 + len(name))
    return PatternDeclaration(name, Source(f"pattern {name} {{ … }}"), span, *sides)


def kernel_of(name: str) -> Body:
    """The rewrite ``%out = NAME(…)`` on all free values."""

    def body(builder: Builder, *values: SSAValue) -> SSAValue:
        return builder.add(FuseMatchOp(name, values, [AnyTensorType()]), "out")

    return body


def _function(name: str, free: Sequence[str], body: Body) -> FuncOp:
    builder = Builder(name, free, 1)
    made = body(builder, *builder.args)
    function = builder.returns(*([made] if isinstance(made, SSAValue) else made))
    update_function_type(function)
    return function

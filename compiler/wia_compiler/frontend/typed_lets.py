"""``let x: TYPE = e;`` and ``let x: TYPE;`` over whole tensors."""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.base.signature import DeclaredType
from wia_compiler.dialects.loop_arrays import OutputOp
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp, DeclareOp, LiteralType
from wia_compiler.dialects.wia.size import SizeOp
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, is_made_of_literals
from wia_compiler.frontend.signatures import declared_type


def typed_value(
    name: syntax.Word, written: syntax.TypeName, value: SSAValue, body: Body
) -> SSAValue | None:
    """The value under the type that ``let`` gives it, checked when shapes are known.

    A number of the text fills a tensor whose sizes and dtype are given.
    """
    declared = _declared(written, body)
    if declared is None:
        return None
    if declared.dims and is_made_of_literals(value):
        filled = _fresh(name, written, declared, body)
        return None if filled is None else body.add_op("add", [filled, value], written.span)
    op = DeclareOp(
        value,
        kernel=body.signature.name,
        parameter=name.text,
        dims=declared.dims,
        dtype=declared.dtype,
        scope=0,
        result_type=AnyTensorType(),
    )
    return body.add(op, written.span).result


def zeros(name: syntax.Word, written: syntax.TypeName, body: Body) -> SSAValue | None:
    """What ``let x: TYPE;`` makes: zeros of that type."""
    declared = _declared(written, body)
    if declared is None:
        return None
    if declared.dims == ():
        zero = body.add(ConstantOp(0, LiteralType()), written.span).result
        return typed_value(name, written, zero, body)
    return _fresh(name, written, declared, body)


def _declared(written: syntax.TypeName, body: Body) -> DeclaredType | None:
    faults = len(body.problems)
    declared = declared_type(written, body.problems)
    return declared if len(body.problems) == faults else None


def _fresh(
    name: syntax.Word, written: syntax.TypeName, declared: DeclaredType, body: Body
) -> SSAValue | None:
    if not declared.dims or declared.dtype is None or None in declared.dims:
        body.report(
            f"a local tensor needs its sizes and dtype, found {declared}",
            written.span,
            f"write let {name.text}: tensor<8, 8, f32> = 0;",
        )
        return None
    sizes: list[SSAValue] = []
    for dim in declared.dims:
        if isinstance(dim, int):
            sizes.append(body.add(ConstantOp(dim, LiteralType()), written.span).result)
        elif body.has_size(str(dim)):
            sizes.append(body.add(SizeOp(str(dim), 0, AnyTensorType()), written.span).result)
        else:
            places = [entry.span for entry in written.entries or () if entry.text == dim]
            hint = "name it in the type of a parameter, or write a number"
            body.report(f"no size named {dim!r}", (*places, written.span)[0], hint)
            return None
    op = OutputOp(name.text, sizes, rank=len(declared.dims), dtype=declared.dtype)
    result = body.add(op, written.span).result
    result.name_hint = name.text
    return result

"""``let`` inside a nest: scalars, local arrays, and which names may be set at all."""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.signature import DeclaredType
from wia_compiler.base.source import Span
from wia_compiler.dialects.loop_arrays import LocalOp
from wia_compiler.dialects.wia.ops import ConstantOp, DeclareOp, LiteralType
from wia_compiler.frontend import syntax
from wia_compiler.frontend.expressions import value_of
from wia_compiler.frontend.loop_body import NestBody, sizes_of
from wia_compiler.frontend.signatures import declared_type
from wia_compiler.frontend.suggestions import with_article


def import_let(statement: syntax.Let, body: NestBody) -> None:
    """``let x = e;``, ``let x: f32 = e;`` or ``let acc: tensor<8, 8, f32> = 0;``."""
    types = statement.types or (None,) * len(statement.names)
    values: list[SSAValue | None] = [value_of(each, body) for each in statement.values]
    if not statement.values and any(types):
        values = [body.add(ConstantOp(0, LiteralType()), statement.span).result for _ in types]
    if len(values) != len(statement.names):
        body.report(
            f"found {len(values)} values for {len(statement.names)} names",
            statement.span,
            "both sides must agree",
        )
        values = [None] * len(statement.names)
    for name, written, value in zip(statement.names, types, values, strict=True):
        if refuse_name(name.text, name.span, body, binds=True):
            continue
        if written is not None and value is not None:
            value = _typed(name, written, value, body)
        body.bind(name.text, value, name.span)
        body.owners[name.text] = name.span.line


def refuse_name(name: str, span: Span, body: NestBody, *, binds: bool = False) -> bool:
    """Report a name that cannot be set here; ``binds`` where the text makes a new one of it."""
    parameters = {p.name: p for p in body.signature.parameters}
    if name in DTYPES:
        body.report(f"{name!r} is a dtype", span, "give the value another name")
    elif name in parameters and binds:
        role = with_article(parameters[name].role)
        body.report(
            f"{name!r} is {role} of the kernel, this would hide it", span, "use another name"
        )
    elif name in parameters and parameters[name].role in ("input", "scalar", "bound"):
        body.report(
            f"{name!r} is an input and cannot be set",
            span,
            f"name it anew: let {name}_1 = {name};",
        )
    elif name in sizes_of(body):
        body.report(f"{name!r} is a size and cannot be set", span, "use another name")
    elif binds and name in body.values and name not in body.mine:
        line = body.owners.get(name)
        made = "" if line is None else f" of line {line}"
        again = "" if name in body.fixed else f", or set that one: {name} = …;"
        body.report(f"{name!r} hides the {name!r}{made}", span, f"use another name{again}")
    elif not binds and name in body.fixed:
        body.report(
            f"{name!r} is the variable of a loop and cannot be set",
            span,
            "use a while loop, or another name",
        )
    elif not binds and body.is_array(name):
        body.report(
            f"{name!r} is a tensor and cannot be set as a whole in a loop over elements",
            span,
            f"set its elements: {name}[i] = …;",
        )
    else:
        return False
    body.values.setdefault(name, None)
    return True


def _typed(
    name: syntax.Word, written: syntax.TypeName, value: SSAValue, body: NestBody
) -> SSAValue | None:
    faults = len(body.problems)
    declared = declared_type(written, body.problems)
    if len(body.problems) > faults:
        return None
    if declared.dims == ():
        op = DeclareOp(
            value,
            kernel=body.signature.name,
            parameter=name.text,
            dims=(),
            dtype=declared.dtype,
            scope=0,
        )
        return body.add(op, written.span).result
    return _local(name, declared, written, value, body)


def _local(
    name: syntax.Word,
    declared: DeclaredType,
    written: syntax.TypeName,
    value: SSAValue,
    body: NestBody,
) -> SSAValue | None:
    if declared.dims is None or declared.dtype is None or None in declared.dims:
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
            continue
        size = value_of(syntax.Name(str(dim), written.span), body)
        if size is None:
            return None
        sizes.append(size)
    result = body.add(LocalOp(declared.dtype, sizes, value), written.span).result
    result.name_hint = name.text
    return result

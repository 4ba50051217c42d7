"""What a name of an expression stands for: a value, a size, something bound."""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Span
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp, LiteralType
from wia_compiler.dialects.wia.size import SizeOp
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.literals import out_of_range
from wia_compiler.frontend.suggestions import did_you_mean
from wia_compiler.frontend.vocabulary import operations


def name_value(node: syntax.Name | syntax.Value, body: Body) -> SSAValue | None:
    """The value of ``x`` in a kernel or ``%x`` in a func; ``None`` after a fault was reported."""
    name = node.text
    marked = isinstance(node, syntax.Value)
    if marked and not body.in_notation:
        hint = f"in a kernel values are named without '%': {name}"
        body.report(f"'%{name}' is a value of the IR notation", node.span, hint)
        return None
    if body.in_notation and not marked:
        return _bare_name(node, body)
    if name in body.values:
        return body.values[name]
    if name in body.unset:
        body.report(body.unset[name], node.span, _set_before(name, body))
        return None
    if not marked and body.has_size(name):
        return _size(name, node, body)
    if body.is_parameter(name) or (not marked and name in DTYPES):
        body.report(*_why_not_a_value(node, body))
        return None
    return _bound_value(node, body)


def _bare_name(node: syntax.Name | syntax.Value, body: Body) -> SSAValue | None:
    """A name without ``%`` in a func: a size, or a value whose mark was forgotten."""
    if body.has_size(node.text):
        return _size(node.text, node, body)
    if node.text in body.values or node.text in body.unset:
        hint = f"values are written with '%': %{node.text}"
        body.report(f"no value named {node.text!r}", node.span, hint)
    else:
        body.report(*_why_not_a_value(node, body))
    return None


def _size(name: str, node: syntax.Name | syntax.Value, body: Body) -> SSAValue:
    result = body.add(SizeOp(name, 0, AnyTensorType()), node.span).result
    result.name_hint = name
    return result


def _set_before(name: str, body: Body) -> str:
    if body.in_notation and body.unset[name].endswith("below"):
        return "move that line up, or use another value"
    if body.in_notation:
        return f"pass it on as an argument of the block: br ^label(%{name})"
    if "variable of the loop" in body.unset[name]:
        return f"give it another name inside the loop: last = {name};"
    return f"set it on every way, or before: {name} = …;"


def _bound_value(node: syntax.Name | syntax.Value, body: Body) -> SSAValue | None:
    bound = body.bound.find(node.text)
    if bound is None:
        body.report(*_why_not_a_value(node, body))
        return None
    if bound.sort == "array":
        return body.bound_array(node.text)
    if bound.number is not None:
        reason = out_of_range(bound.number, str(bound.number))
        if reason is None:
            return body.add(ConstantOp(bound.number, LiteralType()), node.span).result
        body.report(f"{node.text!r} is bound to {reason}", node.span)
        return None
    if bound.sort == "tuple":
        hint = "pass it to a call, where it stands for its elements, or name one: %" + node.text
        body.report(f"{node.text!r} is bound to {bound.described}", node.span, f"{hint}.0")
        return None
    body.report(
        f"{node.text!r} is bound to {bound.described}, expected an array, a number or a tuple",
        node.span,
    )
    return None


def _why_not_a_value(node: syntax.Name | syntax.Value, body: Body) -> tuple[str, Span, str | None]:
    name = node.text
    if isinstance(node, syntax.Value):
        near = did_you_mean(f"%{name}", [f"%{each}" for each in body.values])
        hint = near or (
            f"set it before, or bind it: wia.compile(text, bindings={{{name!r}: …}}); "
            "in a notebook set a variable of that name"
        )
        return f"no value named '%{name}'", node.span, hint
    if body.is_parameter(name):
        return (
            f"output {name!r} is used before it is set",
            node.span,
            f"assign it first: {name} = …;",
        )
    if name in DTYPES:
        return f"{name!r} is a dtype, not a value", node.span, f"dtypes are for cast(x, {name})"
    if name in body.signatures or name in operations():
        return f"{name!r} is not a value", node.span, f"call it: {name}(…)"
    assign = f"write %{name}" if body.in_notation else f"assign it first: {name} = …;"
    return f"no value named {name!r}", node.span, did_you_mean(name, body.values) or assign

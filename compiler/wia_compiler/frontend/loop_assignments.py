"""Assignments inside a nest: variables are SSA values, elements are stored to."""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.dialects.loop_elements import LoadOp, StoreOp
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import literal_of
from wia_compiler.frontend.expressions import value_of
from wia_compiler.frontend.loop_body import NestBody
from wia_compiler.frontend.loop_expressions import ElementReader, element_of
from wia_compiler.frontend.loop_lets import refuse_name
from wia_compiler.frontend.suggestions import did_you_mean

_COMPOUND = {"+=": "add", "-=": "sub", "*=": "mul", "/=": "div"}


def assign(statement: syntax.Assign, body: NestBody, reader: ElementReader) -> None:
    """``x = e;``, ``C[i, j] += e;``, ``a, b = b, a;``: the right sides are computed first."""
    operator = statement.operator
    if operator is None:
        value_of(statement.targets[0], body)
        body.report("the value is not used", statement.targets[0].span, "give it to a name: x = …;")
        return
    if len(statement.targets) != len(statement.values):
        body.report(
            f"found {len(statement.values)} values for {len(statement.targets)} names",
            statement.span,
            "both sides must agree",
        )
        return
    compound = _COMPOUND.get(operator.text)
    values = [value_of(each, body) for each in statement.values]
    for target, value in zip(statement.targets, values, strict=True):
        if isinstance(target, syntax.Index):
            _store(target, compound, value, statement, body, reader)
        elif isinstance(target, syntax.Name):
            _set(target, compound, value, statement, body)
        else:
            body.report("only a name or an element can be set", target.span)


def _set(
    target: syntax.Name,
    compound: str | None,
    value: SSAValue | None,
    statement: syntax.Assign,
    body: NestBody,
) -> None:
    name = target.text
    current = value_of(target, body) if compound is not None else None
    if refuse_name(name, target.span, body):
        return
    if compound is not None:
        both = None if current is None or value is None else [current, value]
        value = None if both is None else body.add_op(compound, both, statement.span)
    body.bind(name, value, target.span)


def _store(
    target: syntax.Index,
    compound: str | None,
    value: SSAValue | None,
    statement: syntax.Assign,
    body: NestBody,
    reader: ElementReader,
) -> None:
    name, subscripts = element_of(target)
    indices = reader.indices(target, name, subscripts, 0)
    array = None if name is None else _stored_array(name, body)
    if name is None:
        body.report("only elements of a named array can be set", target.span)
    if array is None or indices is None or value is None:
        return
    if compound is not None:
        current = body.add(LoadOp(array, indices), target.span).result
        result = body.add_op(compound, [current, value], statement.span)
        if result is None:
            return
        value = result
    body.add(StoreOp(value, array, indices), statement.span)


def _stored_array(name: syntax.Name, body: NestBody) -> SSAValue | None:
    role = next((p.role for p in body.signature.parameters if p.name == name.text), None)
    is_number = role == "scalar" or name.text in body.fixed
    if is_number or literal_of(body.values.get(name.text)) is not None:
        body.report(f"{name.text!r} is a number and has no elements", name.span, "index an array")
    elif role in ("input", "bound"):
        body.report(
            f"{name.text!r} is an input and cannot be set",
            name.span,
            f"declare it inout {name.text}, or store to an output",
        )
    elif name.text not in body.values:
        body.report(
            f"no tensor named {name.text!r}",
            name.span,
            did_you_mean(name.text, [*body.values, *_outputs(body)])
            or f"declare it: output {name.text}: tensor<N, f32>, or let {name.text}: "
            "tensor<8, f32> = 0;",
        )
    else:
        return body.stores_to(name.text)
    return None


def _outputs(body: NestBody) -> list[str]:
    return [p.name for p in body.signature.parameters if p.role in ("output", "inout")]

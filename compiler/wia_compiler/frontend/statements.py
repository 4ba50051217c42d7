"""Statements of a kernel to ops, and the kernel to a function."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.ir import Attribute, Region, SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.signature import ParameterDeclaration
from wia_compiler.base.source import Span
from wia_compiler.dialects.types import element_type
from wia_compiler.dialects.wia.ops import AnyTensorType, DeclareOp
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.expressions import results_of, value_of
from wia_compiler.frontend.loop_statements import ElementsOutside, import_loops, is_loop_level
from wia_compiler.frontend.suggestions import with_article

_COMPOUND = {"+=": "add", "-=": "sub", "*=": "mul", "/=": "div"}
_LOOP_LEVEL = {
    syntax.If: ("'if'", "choose by element instead: C = condition ? a : b;"),
    syntax.For: ("'for'", "write whole tensors instead: C = A + B; covers every element"),
    syntax.While: ("'while'", "write the steps out over whole tensors"),
}


def import_kernel(kernel: syntax.Kernel, body: Body) -> func.FuncOp | None:
    """The function of a kernel; ``None`` after its faults were reported."""
    faults = len(body.problems)
    body.elements = ElementsOutside(body)
    _enter(body)
    returned = _statements(kernel.body, body)
    results = _results(kernel, returned, body)
    if results is None or len(body.problems) > faults:
        return None
    body.add(func.ReturnOp(*results), kernel.span)
    types = ([a.type for a in body.block.args], [value.type for value in results])
    function = func.FuncOp(kernel.name.text, types, Region(body.block))
    return function


def _enter(body: Body) -> None:
    """Bind the parameters that come in, each under its declared type."""
    inputs = body.signature.inputs
    for parameter in inputs:
        argument = body.block.insert_arg(_argument_type(parameter), len(body.block.args))
        argument.name_hint = parameter.name
    for parameter, argument in zip(inputs, body.block.args, strict=True):
        body.values[parameter.name] = _declare(argument, parameter, body)


def _argument_type(parameter: ParameterDeclaration) -> Attribute:
    dtype = parameter.type.dtype
    if parameter.role == "scalar" and dtype is not None:
        return element_type(dtype)
    return AnyTensorType()


def _declare(value: SSAValue, parameter: ParameterDeclaration, body: Body) -> SSAValue:
    declared = parameter.type
    if declared.dims is None and declared.dtype is None:
        return value
    op = DeclareOp(
        value,
        kernel=body.signature.name,
        parameter=parameter.name,
        dims=declared.dims,
        dtype=declared.dtype,
        scope=0,
    )
    result = body.add(op, parameter.span).result
    result.name_hint = parameter.name
    return result


def _statements(statements: Sequence[syntax.Statement], body: Body) -> syntax.Return | None:
    """Run through the statements; the ``return`` that ends them, if one does."""
    rest = list(statements)
    while rest:
        run = list(itertools.takewhile(lambda each: is_loop_level(each, body), rest))
        if run:
            import_loops(run, body)
            rest = rest[len(run) :]
            continue
        statement = rest.pop(0)
        match statement:
            case syntax.Assign():
                _assign(statement, body)
            case syntax.Let():
                _let(statement, body)
            case syntax.Return():
                _check_nothing_follows(rest, body)
                return statement
            case _:
                _refuse(statement, body)
    return None


def _check_nothing_follows(rest: Sequence[syntax.Statement], body: Body) -> None:
    if rest:
        body.report("this is never reached", rest[0].span, "remove it, or move the return below it")


def _refuse(statement: syntax.If | syntax.For | syntax.While, body: Body) -> None:
    """Loop-level text: one diagnostic, and what it would set is not reported as missing."""
    word, hint = _LOOP_LEVEL[type(statement)]
    body.report(f"{word} is not available yet", statement.keyword, hint)
    for node in syntax.walk(statement):
        targets = node.targets if isinstance(node, syntax.Assign) else ()
        for target in targets:
            name = _base_name(target)
            if name is not None:
                body.values[name] = None


def _base_name(target: syntax.Expression) -> str | None:
    while isinstance(target, syntax.Index):
        target = target.base
    return target.text if isinstance(target, syntax.Name) else None


def _assign(statement: syntax.Assign, body: Body) -> None:
    if statement.operator is None:
        _refuse_bare(statement, body)
        return
    names = [_target(target, body) for target in statement.targets]
    values = _values(statement.values, len(names), statement.span, body)
    for name, target, value in zip(names, statement.targets, values, strict=True):
        if name is None:
            continue
        operation = _COMPOUND.get(statement.operator.text)
        if operation is not None:
            value = _compound(operation, value_of(target, body), value, statement.span, body)
        _bind(name, value, body)


def _compound(
    operation: str, current: SSAValue | None, value: SSAValue | None, span: Span, body: Body
) -> SSAValue | None:
    if current is None or value is None:
        return None
    return body.add_op(operation, [current, value], span)


def _refuse_bare(statement: syntax.Assign, body: Body) -> None:
    faults = len(body.problems)
    for target in statement.targets:
        results_of(target, body) if isinstance(target, syntax.Call) else value_of(target, body)
    if len(body.problems) > faults:
        return
    shown = statement.targets[0]
    hint = "give it to a name: x = …;"
    if isinstance(shown, syntax.Call) and isinstance(shown.callee, syntax.Name):
        hint = f"give its result to a name: x = {shown.callee.text}(…);"
    body.report("the value is not used", shown.span, hint)


def _target(target: syntax.Expression, body: Body) -> str | None:
    """The name that an assignment sets, or ``None`` after its fault was reported."""
    match target:
        case syntax.Name(text) if text in DTYPES:
            body.report(f"{text!r} is a dtype", target.span, "give the value another name")
        case syntax.Name(text) if _is_read_only(text, body):
            hint = f"declare it inout {text}, or use another name"
            body.report(f"{text!r} is an input and cannot be set", target.span, hint)
        case syntax.Name(text):
            return text
        case syntax.Index():
            body.report(
                "setting elements by index is not available yet",
                target.span,
                "set the whole tensor: C = …;",
            )
            name = _base_name(target)
            if name is not None and not _is_read_only(name, body):
                body.values[name] = None
        case _:
            body.report("only a name can be set", target.span, "write NAME = …;")
    return None


def _is_read_only(name: str, body: Body) -> bool:
    return any(p.name == name and p.role in ("input", "scalar") for p in body.signature.parameters)


def _let(statement: syntax.Let, body: Body) -> None:
    values = _values(statement.values, len(statement.names), statement.span, body)
    parameters = {parameter.name: parameter.role for parameter in body.signature.parameters}
    for name, value in zip(statement.names, values, strict=True):
        if name.text in parameters:
            body.report(
                f"{name.text!r} is {with_article(parameters[name.text])} of the kernel, "
                "let would hide it",
                name.span,
                f"write {name.text} = …; without let, or use another name",
            )
            body.values.setdefault(name.text, None)
        elif name.text in DTYPES:
            body.report(f"{name.text!r} is a dtype", name.span, "give the value another name")
        else:
            _bind(name.text, value, body)


def _values(
    nodes: Sequence[syntax.Expression], count: int, span: Span, body: Body
) -> Sequence[SSAValue | None]:
    """``count`` values of as many expressions, or of one call that gives as many."""
    if len(nodes) == count:
        return [value_of(node, body) for node in nodes]
    if len(nodes) == 1 and isinstance(nodes[0], syntax.Call):
        found = results_of(nodes[0], body)
        if found is None:
            return [None] * count
        if len(found) == count:
            return found
        given = f"the call gives {len(found)} value{'s' * (len(found) != 1)}"
    else:
        given = f"found {len(nodes)} value{'s' * (len(nodes) != 1)}"
    body.report(f"{given} for {count} name{'s' * (count != 1)}", span, "both sides must agree")
    return [None] * count


def _bind(name: str, value: SSAValue | None, body: Body) -> None:
    body.values[name] = value
    if value is not None and value.name_hint is None:
        value.name_hint = name


def _results(
    kernel: syntax.Kernel, returned: syntax.Return | None, body: Body
) -> list[SSAValue] | None:
    """What the function gives back: outputs in order, or the values of ``return``."""
    outputs = [p for p in body.signature.parameters if p.role in ("output", "inout")]
    if not outputs:
        return _returned(kernel, returned, body)
    if returned is not None and returned.values:
        body.report(
            "a kernel with outputs does not return values",
            returned.span,
            f"set the outputs instead: {outputs[0].name} = …;",
        )
        return None
    for parameter in outputs:
        if parameter.name not in body.values:
            body.report(
                f"output {parameter.name!r} is never set",
                parameter.span or kernel.name.span,
                f"set it: {parameter.name} = …;",
            )
    found = [(parameter, body.values.get(parameter.name)) for parameter in outputs]
    known = [(parameter, value) for parameter, value in found if value is not None]
    if len(known) < len(outputs):
        return None
    return [_declare(value, parameter, body) for parameter, value in known]


def _returned(
    kernel: syntax.Kernel, returned: syntax.Return | None, body: Body
) -> list[SSAValue] | None:
    if returned is None or not returned.values:
        body.report(
            f"kernel {kernel.name.text!r} gives nothing back",
            kernel.name.span,
            "declare an output (output C: tensor) and set it, or return a value",
        )
        return None
    values = [value_of(node, body) for node in returned.values]
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None

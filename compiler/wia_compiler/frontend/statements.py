"""Statements of a kernel to ops of its body."""

from __future__ import annotations

from collections.abc import Container, Sequence

from xdsl.ir import SSAValue

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, Exit
from wia_compiler.frontend.control_flow import import_for, import_if, import_while
from wia_compiler.frontend.expressions import results_of, value_of
from wia_compiler.frontend.loop_statements import import_loops, is_loop_level
from wia_compiler.frontend.scopes import bind_name, may_make, may_set
from wia_compiler.frontend.typed_lets import typed_value, zeros

_COMPOUND = {"+=": "add", "-=": "sub", "*=": "mul", "/=": "div"}


def import_statements(statements: Sequence[syntax.Statement], body: Body) -> bool:
    """Run through statements; whether control comes to their end.

    Each longest run of statements that work on single elements becomes one ``loop.nest``.
    """
    index = 0
    while index < len(statements):
        end = index
        while end < len(statements) and is_loop_level(statements[end], body):
            end += 1
        if end > index:
            import_loops(statements[index:end], body)
            index = end
            continue
        if not _statement(statements[index], body):
            _check_nothing_follows(statements[index + 1 :], body)
            return False
        index += 1
    return True


def _statement(statement: syntax.Statement, body: Body) -> bool:
    match statement:
        case syntax.Assign():
            _assign(statement, body)
        case syntax.Let():
            _let(statement, body)
        case syntax.If():
            return import_if(statement, body, import_statements)
        case syntax.For():
            return import_for(statement, body, import_statements)
        case syntax.While():
            return import_while(statement, body, import_statements)
        case syntax.Return():
            _return(statement, body)
            return False
    return True


def _check_nothing_follows(rest: Sequence[syntax.Statement], body: Body) -> None:
    if rest:
        body.report("this is never reached", rest[0].span, "remove it, or move the return below it")


def _return(statement: syntax.Return, body: Body) -> None:
    outputs = [p for p in body.signature.parameters if p.role in ("output", "inout")]
    if outputs and statement.values:
        body.report(
            "a kernel with outputs does not return values",
            statement.span,
            f"set the outputs instead: {outputs[0].name} = …;",
        )
        return
    if not outputs and (not statement.values or len(statement.values) != body.signature.results):
        _report_count(len(statement.values), statement.span, body)
        return
    if not outputs:
        values = [value_of(node, body) for node in statement.values]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            body.exits.append(Exit(body.block, tuple(known), statement.span))
        return
    leave_with_outputs(statement.span, body)


def _report_count(found: int, span: Span, body: Body) -> None:
    if not found:
        hint = "declare an output (output C: tensor) and set it, or return a value"
        body.report(f"kernel {body.signature.name!r} gives nothing back here", span, hint)
        return
    expected = body.signature.results
    body.report(
        f"{found} value{'s' * (found != 1)} returned, elsewhere {expected}",
        span,
        "every return of a kernel gives as many values",
    )


def leave_with_outputs(span: Span, body: Body, ever_set: Container[str] = ()) -> None:
    """Return from here with what the outputs are now; one without a value is reported.

    ``span`` is the return, or the kernel's name at its end, ``ever_set`` the names that the kernel
    sets anywhere.
    """
    at_end = span == body.signature.span
    outputs = [p for p in body.signature.parameters if p.role in ("output", "inout")]
    for parameter in outputs:
        name = parameter.name
        if name not in body.values:
            reason = body.unset.get(name)
            place = (parameter.span or span) if at_end else span
            if reason is None and at_end and name not in ever_set:
                body.report(f"output {name!r} is never set", place, f"set it: {name} = …;")
            elif reason is None:
                where = "ends" if at_end else "returns"
                body.report(
                    f"output {name!r} is not set where the kernel {where}",
                    place,
                    f"set it on every way: {name} = …;",
                )
            else:
                body.report(f"output {reason}", place, f"set it on every way: {name} = …;")
    values = [body.values.get(parameter.name) for parameter in outputs]
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        body.exits.append(Exit(body.block, tuple(known), span))


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
        bind_name(name, value, body, target.span)


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
        case syntax.Name(text):
            return text if may_set(text, target.span, body) else None
        case syntax.Index():
            _refuse_slice(target, body)
        case syntax.Value(text):
            body.report(
                f"'%{text}' is a value of the IR notation",
                target.span,
                f"in a kernel values are named without '%': {text}",
            )
        case _:
            body.report("only a name can be set", target.span, "write NAME = …;")
    return None


def _refuse_slice(target: syntax.Index, body: Body) -> None:
    base: syntax.Expression = target
    while isinstance(base, syntax.Index):
        base = base.base
    name = base.text if isinstance(base, syntax.Name) else "C"
    if not may_set(name, target.span, body):
        return
    body.report(
        "a slice cannot be set",
        target.span,
        f"set elements in a loop: for i in a..b {{ {name}[i] = …; }}, or join parts: "
        f"{name} = concat([…], dim=0);",
    )
    if isinstance(base, syntax.Name):
        body.values.setdefault(base.text, None)


def _let(statement: syntax.Let, body: Body) -> None:
    types = statement.types or (None,) * len(statement.names)
    if not statement.values:
        values: Sequence[SSAValue | None] = [None] * len(statement.names)
        if None in types:
            body.report("a name is made without a value", statement.span, "write let x = …;")
    else:
        values = _values(statement.values, len(statement.names), statement.span, body)
    for name, written, value in zip(statement.names, types, values, strict=True):
        if not may_make(name, body):
            continue
        if written is not None and not statement.values:
            value = zeros(name, written, body)
        elif written is not None and value is not None:
            value = typed_value(name, written, value, body)
        bind_name(name.text, value, body, name.span)


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

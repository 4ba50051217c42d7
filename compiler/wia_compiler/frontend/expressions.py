"""Expressions to ops of the high level."""

from __future__ import annotations

from xdsl.ir import SSAValue

from wia_compiler.base.source import Span
from wia_compiler.dialects.wia.ops import ConstantOp, LiteralType
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.calls import call_values
from wia_compiler.frontend.literals import out_of_range
from wia_compiler.frontend.names import name_value
from wia_compiler.frontend.slices import is_element, part_value
from wia_compiler.frontend.vocabulary import OPERATORS, operations

DEEPEST = 100
"""Levels of nesting that an expression may have; chains such as a + b + c count as one."""

_BINARY = {
    spelling: name
    for row in OPERATORS
    for spelling, name in zip(row.spellings, row.operations, strict=False)
}
_COMPARISONS = frozenset(("==", "!=", "<", "<=", ">", ">="))


def value_of(node: syntax.Expression, body: Body, depth: int = 0) -> SSAValue | None:
    """The value an expression has in ``body``; ``None`` after its faults were reported."""
    if depth > DEEPEST:
        body.report(
            f"the expression is nested deeper than {DEEPEST} levels",
            node.span,
            "name a part of it first: let part = …;",
        )
        return None
    if body.elements is not None and body.elements.takes(node):
        return body.elements.value(node, depth)
    match node:
        case syntax.Number():
            return _number(node.value, node.text, node.span, body)
        case syntax.Boolean():
            return body.add(ConstantOp(node.value, LiteralType()), node.span).result
        case syntax.Name() | syntax.Value():
            return name_value(node, body)
        case syntax.Group():
            return value_of(node.inner, body, depth + 1)
        case syntax.Unary():
            return _unary(node, body, depth)
        case syntax.Binary():
            return _binary(node, body, depth)
        case syntax.Conditional():
            return _conditional(node, body, depth)
        case syntax.Call():
            return _call(node, body, depth)
        case syntax.Index():
            return _part(node, body, depth)
        case syntax.String():
            body.report(
                "a string is not a value of a kernel",
                node.span,
                'strings are for attributes: gelu(x, approximate="tanh")',
            )
            return None
        case syntax.ListOf():
            body.report(
                "a list is not a value of a kernel",
                node.span,
                "lists are for attributes: reshape(x, [4, -1])",
            )
            return None


def _number(value: int | float, text: str, span: Span, body: Body) -> SSAValue | None:
    reason = out_of_range(value, text)
    if reason is not None:
        body.report(reason, span)
        return None
    return body.add(ConstantOp(value, LiteralType()), span).result


def _unary(node: syntax.Unary, body: Body, depth: int) -> SSAValue | None:
    operand = node.operand
    while isinstance(operand, syntax.Group):
        operand = operand.inner
    negative = node.operator.text == "-"
    if negative and isinstance(operand, syntax.Number):
        return _number(-operand.value, f"-{operand.text}", node.span, body)
    if not negative and isinstance(operand, syntax.Boolean):
        return body.add(ConstantOp(not operand.value, LiteralType()), node.span).result
    value = value_of(operand, body, depth + 1)
    if value is None:
        return None
    return body.add_op("neg" if negative else "logical_not", [value], node.span)


def _binary(node: syntax.Binary, body: Body, depth: int) -> SSAValue | None:
    """``a + b + c`` is walked down its left side by a loop: long sums do not nest."""
    chain = [node]
    while isinstance(chain[-1].left, syntax.Binary):
        chain.append(chain[-1].left)
    if body.in_notation and _calls_without_parentheses(chain[-1], body):
        return None
    left = value_of(chain[-1].left, body, depth + 1)
    for link in reversed(chain):
        if _is_comparison(link) and _is_comparison(link.left):
            body.report(
                "comparisons do not chain",
                link.operator.span,
                "write a < b && b < c, or put one comparison in parentheses",
            )
        right = _right_side(link, body, depth)
        if left is None or right is None:
            left = None
        else:
            left = body.add_op(_BINARY[link.operator.text], [left, right], link.span)
    return left


def _calls_without_parentheses(node: syntax.Binary, body: Body) -> bool:
    """Report ``relu %x``, which reads as the remainder of relu and x."""
    left, right = node.left, node.right
    if node.operator.text != "%" or not isinstance(left, syntax.Name):
        return False
    if left.text not in operations() and left.text not in body.signatures:
        return False
    shown = f"%{right.text}" if isinstance(right, syntax.Name) else "…"
    hint = f"write {left.text}({shown}), or tensor.{left.text} {shown}"
    body.report(f"{left.text!r} is not a value", left.span, hint)
    return True


def _right_side(node: syntax.Binary, body: Body, depth: int) -> SSAValue | None:
    right = node.right
    divides = node.operator.text == "//"
    if divides and isinstance(right, syntax.Name) and not _is_known(right.text, body):
        body.report(
            f"no value named {right.text!r}",
            node.operator.span.cover(right.span),
            "'//' after a value is floor division; write '#' for a comment",
        )
        return None
    return value_of(right, body, depth + 1)


def _is_known(name: str, body: Body) -> bool:
    seen = name in body.values or name in body.unset or body.has_size(name)
    return seen or body.is_parameter(name) or body.bound.find(name) is not None


def _is_comparison(node: syntax.Expression) -> bool:
    return isinstance(node, syntax.Binary) and node.operator.text in _COMPARISONS


def _conditional(node: syntax.Conditional, body: Body, depth: int) -> SSAValue | None:
    parts = (node.condition, node.first, node.second)
    values = [value_of(part, body, depth + 1) for part in parts]
    known = [value for value in values if value is not None]
    return body.add_op("where", known, node.span) if len(known) == len(parts) else None


def results_of(call: syntax.Call, body: Body, depth: int = 0) -> tuple[SSAValue, ...] | None:
    """Every value a call gives; ``None`` after its faults were reported."""
    return call_values(call, body, lambda argument: value_of(argument, body, depth + 1))


def _call(node: syntax.Call, body: Body, depth: int) -> SSAValue | None:
    values = results_of(node, body, depth)
    if values is None:
        return None
    if len(values) != 1:
        body.report(
            f"the call gives {len(values)} values, expected 1 here",
            node.span,
            f"name them first: {', '.join('abcdefgh'[: len(values)])} = …;",
        )
        return None
    return values[0]


def _part(node: syntax.Index, body: Body, depth: int) -> SSAValue | None:
    """A part of a tensor; a single element whose place is computed is a nest that reads it."""
    from wia_compiler.frontend.loop_statements import ElementsOutside  # it evaluates expressions

    if not body.in_notation and is_element(node, body):
        return ElementsOutside(body).value(node, depth)
    return part_value(node, body, lambda part: value_of(part, body, depth + 1))

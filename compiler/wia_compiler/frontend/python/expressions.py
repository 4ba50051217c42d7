"""Python expressions to expressions of the language."""

from __future__ import annotations

import ast

from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.calls import read_call
from wia_compiler.frontend.python.indexing import subscript
from wia_compiler.frontend.python.known_names import MISSING, is_array, library_of
from wia_compiler.frontend.python.scope import Scope
from wia_compiler.frontend.suggestions import nearest

_BINARY: dict[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.FloorDiv: "//",
    ast.Mod: "%",
    ast.Pow: "**",
    ast.MatMult: "@",
}
_BITS: dict[type[ast.operator], str] = {
    ast.BitAnd: "bitwise_and",
    ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor",
    ast.LShift: "bitwise_left_shift",
    ast.RShift: "bitwise_right_shift",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_DEEPEST = 90
_OUTSIDE: dict[type[ast.expr], tuple[str, str]] = {
    ast.Lambda: ("a lambda", "write the expression itself, or another @wia.kernel"),
    ast.Dict: ("a dict", "kernels compute numbers and tensors"),
    ast.Set: ("a set", "kernels compute numbers and tensors"),
    ast.ListComp: ("a comprehension", "write a loop, or an op over the whole tensor"),
    ast.SetComp: ("a comprehension", "write a loop, or an op over the whole tensor"),
    ast.DictComp: ("a comprehension", "write a loop, or an op over the whole tensor"),
    ast.GeneratorExp: ("a generator", "write a loop, or an op over the whole tensor"),
    ast.JoinedStr: ("a string", "kernels compute numbers and tensors"),
    ast.Await: ("await", "leave it out"),
    ast.Yield: ("yield", "return the values"),
    ast.YieldFrom: ("yield", "return the values"),
    ast.NamedExpr: ("an assignment inside an expression", "make it a statement before"),
    ast.Starred: ("a starred value", "write its elements out"),
}


def read(node: ast.expr, scope: Scope, depth: int = 0) -> syntax.Expression:
    """The value of an expression; raises ``Refused`` after reporting what cannot be read."""
    if depth > _DEEPEST:
        raise scope.text.refuse(
            node,
            f"the expression is nested deeper than {_DEEPEST} levels",
            "name a part of it first: part = …",
        )
    span = scope.text.span(node)

    def inner(part: ast.expr) -> syntax.Expression:
        return read(part, scope, depth + 1)

    match node:
        case ast.Constant():
            return _constant(node, scope)
        case ast.Name():
            return _name(node, scope)
        case ast.BinOp():
            return _binary(node, scope, depth)
        case ast.UnaryOp():
            return _unary(node, scope, depth)
        case ast.BoolOp():
            sign = "&&" if isinstance(node.op, ast.And) else "||"
            value = inner(node.values[0])
            for part in node.values[1:]:
                value = syntax.Binary(syntax.Word(sign, span), value, inner(part), span)
            return value
        case ast.Compare():
            return _comparison(node, scope, depth)
        case ast.IfExp():
            return syntax.Conditional(inner(node.test), inner(node.body), inner(node.orelse), span)
        case ast.Tuple() | ast.List():
            return syntax.ListOf(tuple(inner(each) for each in node.elts), span)
        case ast.Call():
            return read_call(node, scope, inner)
        case ast.Subscript():
            return subscript(node, scope, inner)
        case ast.Attribute():
            return _attribute(node, scope, depth)
        case _:
            what, instead = _OUTSIDE.get(
                type(node), ("this", "docs/front_ends.md lists what can be written")
            )
            raise scope.text.refuse(node, f"{what} is outside of the subset of Python", instead)


def _constant(node: ast.Constant, scope: Scope) -> syntax.Expression:
    span, value = scope.text.span(node), node.value
    if isinstance(value, bool):
        return syntax.Boolean(value, span)
    if isinstance(value, int | float):
        return syntax.Number(value, repr(value), span)
    if isinstance(value, str):
        return syntax.String(value, span)
    if value is None:
        return syntax.Name("none", span)
    raise scope.text.refuse(
        node, f"{ast.unparse(node)} is no number of the language", "write a number such as 1.5"
    )


def _name(node: ast.Name, scope: Scope) -> syntax.Expression:
    name, span = node.id, scope.text.span(node)
    if name in scope.aliases:
        return scope.aliases[name]
    if name in scope.local or name in scope.whole:
        return syntax.Name(name, span)
    value = scope.known.object(node)
    if value is MISSING:
        near = nearest(name, [*scope.local, *scope.known.names])
        hint = f"did you mean {near!r}?" if near else "set it before, or above the function"
        raise scope.text.refuse(node, f"no value named {name!r}", hint)
    number = scope.known.number(node)
    if number is not None or is_array(value) or isinstance(value, tuple | list):
        return syntax.Name(name, span)  # what it is bound to is looked up by the importer
    shown = f"a {type(value).__name__}"
    raise scope.text.refuse(
        node,
        f"{name!r} is {shown}, expected a number or an array",
        "pass what the kernel computes with",
    )


def _binary(node: ast.BinOp, scope: Scope, depth: int) -> syntax.Expression:
    """``a + b + c`` is walked down its left side by a loop: long sums do not nest."""
    chain = [node]
    while isinstance(chain[-1].left, ast.BinOp):
        chain.append(chain[-1].left)
    value = read(chain[-1].left, scope, depth + 1)
    for link in reversed(chain):
        right = read(link.right, scope, depth + 1)
        value = combined(link.op, value, right, link, scope)
    return value


def combined(
    operator: ast.operator,
    left: syntax.Expression,
    right: syntax.Expression,
    node: ast.AST,
    scope: Scope,
) -> syntax.Expression:
    """``left operator right``."""
    span = scope.text.span(node)
    if type(operator) in _BINARY:
        return syntax.Binary(syntax.Word(_BINARY[type(operator)], span), left, right, span)
    arguments = tuple(syntax.Argument(None, each, each.span) for each in (left, right))
    return syntax.Call(syntax.Name(f"tensor.{_BITS[type(operator)]}", span), arguments, span)


def _unary(node: ast.UnaryOp, scope: Scope, depth: int) -> syntax.Expression:
    span = scope.text.span(node)
    value = read(node.operand, scope, depth + 1)
    match node.op:
        case ast.UAdd():
            return value
        case ast.USub():
            return syntax.Unary(syntax.Word("-", span), value, span)
        case ast.Not():
            return syntax.Unary(syntax.Word("!", span), value, span)
        case _:
            argument = syntax.Argument(None, value, span)
            return syntax.Call(syntax.Name("tensor.bitwise_not", span), (argument,), span)


def _comparison(node: ast.Compare, scope: Scope, depth: int) -> syntax.Expression:
    """``a < b < c`` as ``a < b && b < c``: computing ``b`` twice gives the same."""
    sides = [read(each, scope, depth + 1) for each in (node.left, *node.comparators)]
    sides = [_in_parentheses(each) for each in sides]
    span = scope.text.span(node)
    found: list[syntax.Expression] = []
    for operator, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        sign = _COMPARISONS.get(type(operator))
        if sign is None:
            raise scope.text.refuse(
                node, "is and in compare objects", "compare numbers: ==, !=, <, <=, >, >="
            )
        place = left.span.cover(right.span) if len(node.ops) > 1 else span
        found.append(syntax.Binary(syntax.Word(sign, place), left, right, place))
    value = found[0]
    for each in found[1:]:
        value = syntax.Binary(syntax.Word("&&", span), value, each, span)
    return value


def _in_parentheses(node: syntax.Expression) -> syntax.Expression:
    is_comparison = isinstance(node, syntax.Binary) and node.operator.text in _COMPARISONS.values()
    return syntax.Group(node, node.span) if is_comparison else node


def _attribute(node: ast.Attribute, scope: Scope, depth: int) -> syntax.Expression:
    span = scope.text.span(node)
    owner = scope.known.object(node.value) if _is_outside(node.value, scope) else MISSING
    if owner is not MISSING and not is_array(owner) and library_of(owner) is not None:
        number = scope.known.number(node)
        if number is not None:
            return syntax.Number(number, repr(number), span)
        raise scope.text.refuse(
            node, f"{ast.unparse(node)} is no number", "call it, or write the number itself"
        )
    if node.attr in ("T", "mT"):
        return transposed(node, scope, depth)
    if node.attr == "shape":
        raise scope.text.refuse(
            node,
            "a shape is no value of a kernel",
            f"take one size of it: {ast.unparse(node.value)}.shape[0], or all: M, N = …shape",
        )
    raise scope.text.refuse(
        node,
        f"values have no attribute {node.attr!r}",
        "they have T, mT, shape and the ops as methods",
    )


def _is_outside(node: ast.expr, scope: Scope) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in scope.local


def transposed(node: ast.Attribute, scope: Scope, depth: int) -> syntax.Expression:
    """``x.T`` of a matrix: checked to be one, since of other ranks numpy reverses all axes."""
    value = read(node.value, scope, depth + 1)
    span = scope.text.span(node)
    array = scope.arrays.get(node.value.id) if isinstance(node.value, ast.Name) else None
    is_matrix = array is not None and array.axes is not None and len(array.axes) == 2
    if node.attr == "T" and not is_matrix:
        base = value.text if isinstance(value, syntax.Name) else "value"
        name = scope.fresh(base)
        place = syntax.Word("?", span)
        matrix = syntax.TypeName(syntax.Word("tensor", span), (place, place), span)
        scope.block.append(syntax.Let((syntax.Word(name, span),), (value,), span, (matrix,)))
        value = syntax.Name(name, span)
    callee = syntax.Name("tensor.transpose", span)
    return syntax.Call(callee, (syntax.Argument(None, value, span),), span)

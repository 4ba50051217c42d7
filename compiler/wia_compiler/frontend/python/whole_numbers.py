"""Python's ``min`` and ``max``: of whole numbers the ops, of others what Python says of NaN."""

from __future__ import annotations

import ast
from collections.abc import Callable

from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.scope import Scope

Read = Callable[[ast.expr], syntax.Expression]


def smaller_or_larger(node: ast.Call, name: str, scope: Scope, read: Read) -> syntax.Expression:
    """Python's ``min(a, b)`` is ``b if b < a else a``, also for NaN; of whole numbers the op."""
    if len(node.args) < 2 or node.keywords:
        raise scope.text.refuse(
            node, f"{name}() takes two numbers or more", f"write x.{name}() for all of a tensor"
        )
    span = scope.text.span(node)
    value = read(node.args[0])
    whole = all(is_whole(each, scope) for each in node.args)
    for each in node.args[1:]:
        other = read(each)
        parts: tuple[syntax.Expression, ...] = (value, other)
        operation = name
        if not whole:
            test = syntax.Binary(
                syntax.Word("<" if name == "min" else ">", span), other, value, span
            )
            parts, operation = (test, other, value), "where"
        arguments = tuple(syntax.Argument(None, part, part.span) for part in parts)
        value = syntax.Call(syntax.Name(f"tensor.{operation}", span), arguments, span)
    return value


def is_whole(node: ast.expr, scope: Scope) -> bool:
    """Whether an expression is made of indices, sizes and whole numbers."""
    match node:
        case ast.Constant(value):
            return isinstance(value, int)
        case ast.Name(name):
            if name in scope.whole or name in scope.aliases:
                return True
            return name not in scope.local and isinstance(scope.known.number(node), int)
        case ast.BinOp(
            left, ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod(), right
        ):
            return is_whole(left, scope) and is_whole(right, scope)
        case ast.Call(ast.Name("min" | "max" | "len"), arguments):
            return all(is_whole(each, scope) for each in arguments)
        case ast.Subscript(ast.Attribute(_, "shape"), _):
            return True
        case _:
            return False

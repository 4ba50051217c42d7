"""``x[i, j]``, ``x[0:16, :]``, ``x.shape[0]`` and elements of tuples around a function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import cast

from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.scope import Scope

Read = Callable[[ast.expr], syntax.Expression]


def subscript(node: ast.Subscript, scope: Scope, read: Read) -> syntax.Expression:
    """``x[i, j]``, ``x[0:16, :]``, and ``x.shape[0]``, the size of an axis."""
    base, span = node.value, scope.text.span(node)
    if isinstance(base, ast.Attribute) and base.attr == "shape":
        place = node.slice
        negative = isinstance(place, ast.UnaryOp) and isinstance(place.op, ast.USub)
        number = place.operand if isinstance(place, ast.UnaryOp) and negative else place
        if not isinstance(number, ast.Constant) or not isinstance(number.value, int):
            raise scope.text.refuse(place, "an axis is a number", "write x.shape[0]")
        return scope.axis(base.value, -number.value if negative else number.value)
    element = _element_of_tuple(node, scope)
    if element is not None:
        return element
    parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    inner = tuple(_place(each, scope, read) for each in parts)
    return syntax.Index(read(base), inner, span)


def _element_of_tuple(node: ast.Subscript, scope: Scope) -> syntax.Name | None:
    """``parameters[0]`` of a tuple around the function: bound as ``parameters.0``."""
    base, place = node.value, node.slice
    if not isinstance(base, ast.Name) or base.id in scope.local:
        return None
    value = scope.known.object(base)
    if not isinstance(value, tuple | list) or not isinstance(place, ast.Constant):
        return None
    count = len(cast("Sequence[object]", value))
    if not isinstance(place.value, int) or not 0 <= place.value < count:
        raise scope.text.refuse(
            node, f"{base.id} has {count} elements", f"write {base.id}[0] … {base.id}[{count - 1}]"
        )
    return syntax.Name(f"{base.id}.{place.value}", scope.text.span(node))


def _place(node: ast.expr, scope: Scope, read: Read) -> syntax.Expression | syntax.Slice:
    span = scope.text.span(node)
    if isinstance(node, ast.Slice):
        parts = [
            None if each is None else read(each) for each in (node.lower, node.upper, node.step)
        ]
        return syntax.Slice(parts[0], parts[1], parts[2], span)
    if isinstance(node, ast.Constant) and (node.value is None or node.value is ...):
        raise scope.text.refuse(
            node,
            f"{ast.unparse(node)} is outside of the subset",
            "write unsqueeze(x, dim), or x[:, 0]",
        )
    return read(node)

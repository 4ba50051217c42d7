"""Dtypes in Python: ``np.float16``, ``torch.float16``, ``"f16"``, ``float``; and casts to them."""

from __future__ import annotations

import ast

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.annotations import dtype_name
from wia_compiler.frontend.python.known_names import MISSING, is_array
from wia_compiler.frontend.python.scope import Scope

BUILTIN_CASTS = {"float": "f64", "int": "i64", "bool": "bool"}
"""What Python's own types are."""


def dtype_of(node: ast.expr, scope: Scope) -> str | None:
    """The dtype that an argument names, or ``None`` where it names none."""
    if isinstance(node, ast.Constant):
        return dtype_name(node.value)
    value = scope.known.object(node)
    if value is MISSING and isinstance(node, ast.Name):
        return dtype_name(node.id) if node.id in DTYPES else None
    if value is MISSING or is_array(value):
        return None
    if any(value is each for each in (float, int, bool)):
        return BUILTIN_CASTS[value.__name__]
    return dtype_name(value)


def cast_to(value: syntax.Expression, dtype: str, node: ast.AST, scope: Scope) -> syntax.Call:
    """``cast(value, dtype)``, spanning a node."""
    span = scope.text.span(node)
    parts = (value, syntax.Name(dtype, span))
    arguments = tuple(syntax.Argument(None, each, each.span) for each in parts)
    return syntax.Call(syntax.Name("tensor.cast", span), arguments, span)

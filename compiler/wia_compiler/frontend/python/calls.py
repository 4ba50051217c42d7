"""Calls in Python: ops by the names of numpy and torch, methods, and other kernels."""

from __future__ import annotations

import ast
from collections.abc import Callable

from wia_compiler.base.source import Span
from wia_compiler.dialects.wia.aliases import ALIASES
from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.annotations import dtype_name
from wia_compiler.frontend.python.dtypes import BUILTIN_CASTS, cast_to, dtype_of
from wia_compiler.frontend.python.known_names import MISSING, is_array, library_of
from wia_compiler.frontend.python.operation_names import (
    FUNCTIONS,
    KEYWORDS,
    LIBRARIES,
    LISTS,
    NAN_IGNORING,
    REFUSED,
)
from wia_compiler.frontend.python.scope import Scope
from wia_compiler.frontend.python.whole_numbers import smaller_or_larger
from wia_compiler.frontend.suggestions import nearest

Read = Callable[[ast.expr], syntax.Expression]

_CASTS = {
    "float": "f32",
    "double": "f64",
    "half": "f16",
    "bfloat16": "bf16",
    "int": "i32",
    "long": "i64",
    "bool": "bool",
}
"""Methods of tensors that convert."""
_REDUCTIONS = {"max": "reduce_max", "min": "reduce_min"}
_SPREADS = frozenset(("var", "variance", "std"))
_IGNORED_FALSE = frozenset(("training", "inplace"))
"""Keywords that say what is so anyway, where they are False."""


def read_call(node: ast.Call, scope: Scope, read: Read) -> syntax.Expression:
    """The value of a call; raises ``Refused`` for what is not known."""
    function = node.func
    if isinstance(function, ast.Name) and function.id not in scope.local:
        return _call_name(node, function, scope, read)
    if isinstance(function, ast.Attribute):
        owner = scope.known.object(function.value) if _is_outside(function, scope) else MISSING
        if owner is not MISSING and not is_array(owner):
            return _call_object(node, function, scope, read)
        return _call_method(node, function, scope, read)
    raise scope.text.refuse(
        function,
        f"{ast.unparse(function)} is a value and cannot be called",
        "call an op or a kernel",
    )


def _is_outside(function: ast.Attribute, scope: Scope) -> bool:
    node: ast.expr = function
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name) and node.id not in scope.local


def _call_name(node: ast.Call, function: ast.Name, scope: Scope, read: Read) -> syntax.Expression:
    name = function.id
    if name == scope.name and name not in DECLARATIONS:
        raise scope.text.refuse(
            function, f"{name} calls itself, and kernels do not", "write a loop"
        )
    value = scope.known.object(function)
    if scope.is_kernel(value):
        return _call_kernel(node, value, scope, read)
    if name in BUILTIN_CASTS and any(value is each for each in (float, int, bool)):
        _expect(node, scope, 1, f"{name}(x)")
        return cast_to(read(node.args[0]), BUILTIN_CASTS[name], node, scope)
    if name == "len":
        _expect(node, scope, 1, "len(x)")
        return scope.axis(node.args[0], 0)
    if value is min or value is max:
        return smaller_or_larger(node, name, scope, read)
    if value is MISSING or library_of(value) == "builtins":
        return _operation(node, name, "", scope, read)
    return _call_object(node, function, scope, read)


def _call_object(node: ast.Call, function: ast.expr, scope: Scope, read: Read) -> syntax.Expression:
    """A call of something from outside: a kernel, a dtype, a function of a library."""
    value = scope.known.object(function)
    if scope.is_kernel(value):
        return _call_kernel(node, value, scope, read)
    dtype = dtype_name(value) if isinstance(value, type) else None
    if dtype is not None:
        _expect(node, scope, 1, f"{ast.unparse(function)}(x)")
        return cast_to(read(node.args[0]), dtype, node, scope)
    owner = value if value is not MISSING else _root(function, scope)
    library = library_of(owner)
    if library not in LIBRARIES:
        shown = ast.unparse(function)
        if isinstance(function, ast.Name) and value is not MISSING:
            raise scope.text.refuse(
                function,
                f"{shown!r} is a {type(value).__name__} of Python, which no kernel can call",
                "make it a kernel: @wia.kernel",
            )
        raise scope.text.refuse(function, f"no function {shown!r}", "call an op: relu(x)")
    name = function.attr if isinstance(function, ast.Attribute) else ast.unparse(function)
    if isinstance(function, ast.Name):
        name = getattr(value, "__name__", name)
    return _operation(node, name, library, scope, read)


def _root(function: ast.expr, scope: Scope) -> object:
    while isinstance(function, ast.Attribute):
        function = function.value
    return scope.known.object(function)


def _call_method(
    node: ast.Call, function: ast.Attribute, scope: Scope, read: Read
) -> syntax.Expression:
    """``x.sum(axis=1)``: the op with ``x`` as its first argument."""
    name = function.attr
    if name in ("astype", "to", "type") and len(node.args) == 1 and not node.keywords:
        dtype = dtype_of(node.args[0], scope)
        if dtype is not None:
            return cast_to(read(function.value), dtype, node, scope)
        raise scope.text.refuse(
            node.args[0], f"{ast.unparse(node.args[0])} is no dtype", "write x.astype(np.float16)"
        )
    if name in _CASTS and not node.args and not node.keywords:
        return cast_to(read(function.value), _CASTS[name], node, scope)
    if name == "transpose":
        if not node.args and not node.keywords:
            from wia_compiler.frontend.python.expressions import transposed

            matrix = ast.Attribute(function.value, "T", ast.Load())
            return transposed(ast.copy_location(matrix, node), scope, 0)
        raise scope.text.refuse(
            node,
            "transpose with axes means one thing in numpy and another in torch",
            "write x.permute(1, 0), x.swapaxes(0, 1) or x.T",
        )
    if name in _SPREADS and not any(each.arg == "unbiased" for each in node.keywords):
        raise scope.text.refuse(
            node,
            f"{name}() divides by N in numpy and by N - 1 in torch",
            f"say which: x.{name}(unbiased=False)",
        )
    if name in ("max", "min") and any(each.arg == "dim" for each in node.keywords):
        raise scope.text.refuse(
            node, f"torch's {name}(dim=…) gives indices too", f"write x.a{name}(dim=…)"
        )
    if name in ("copy", "clone", "contiguous", "detach"):
        return read(function.value)  # values are never changed in place: a copy is the value
    return _operation(node, _REDUCTIONS.get(name, name), "", scope, read, first=function.value)


def _operation(
    node: ast.Call,
    name: str,
    library: str,
    scope: Scope,
    read: Read,
    first: ast.expr | None = None,
) -> syntax.Expression:
    """A call of the op that a function or method is."""
    span = scope.text.span(node)
    if name in REFUSED or name in NAN_IGNORING:
        message, hint = REFUSED.get(name, (f"{name} passes over NaN", "no op does; NaN stays NaN"))
        raise scope.text.refuse(node.func, message, hint)
    operation = _library_name(node, name, library, scope)
    if operation not in DECLARATIONS:
        near = nearest(name, [*DECLARATIONS, *ALIASES, *FUNCTIONS])
        hint = f"did you mean {near!r}?" if near else "docs/ops.md lists the ops"
        raise scope.text.refuse(node.func, f"no op or kernel named {name!r}", hint)
    scope.known.resolved[ast.unparse(node.func)] = operation
    values = [*([] if first is None else [first]), *node.args]
    if any(isinstance(each, ast.Starred) for each in values):
        raise scope.text.refuse(
            node, "a starred argument is outside of the subset", "write them out"
        )
    arguments = [
        syntax.Argument(None, _value(each, scope, read), scope.text.span(each)) for each in values
    ]
    if operation in LISTS and len(arguments) > 2:
        numbers = syntax.ListOf(tuple(each.value for each in arguments[1:]), span)
        arguments = [arguments[0], syntax.Argument(None, numbers, span)]
    elif operation in LISTS and len(arguments) == 2 and operation != "tile":
        only = arguments[1].value
        if not isinstance(only, syntax.ListOf):
            numbers = syntax.ListOf((only,), only.span)
            arguments = [arguments[0], syntax.Argument(None, numbers, only.span)]
    for keyword in node.keywords:
        argument = _keyword(keyword, operation, scope, read)
        arguments += [] if argument is None else [argument]
    if library == "numpy" and operation in ("variance", "std"):
        arguments.append(
            syntax.Argument(syntax.Word("unbiased", span), syntax.Boolean(False, span), span)
        )
    return syntax.Call(syntax.Name(f"tensor.{operation}", span), tuple(arguments), span)


def _library_name(node: ast.Call, name: str, library: str, scope: Scope) -> str:
    """The op that a function of a library is: ``max`` is one of two things."""
    if library == "numpy" and name in _REDUCTIONS:
        return _REDUCTIONS[name]
    if library == "torch" and name in _REDUCTIONS:
        if len(node.args) == 1 and not node.keywords:
            return _REDUCTIONS[name]
        if len(node.args) != 2 or isinstance(node.args[1], ast.Constant):
            raise scope.text.refuse(
                node,
                f"torch's {name} along an axis gives indices too",
                f"write torch.a{name}(x, dim)",
            )
    if library == "numpy" and name in ("transpose", "pad", "take", "repeat", "split"):
        if name == "transpose" and len(node.args) == 2:
            return "permute"
        hints = {
            "transpose": "write x.T, or np.transpose(x, (1, 0))",
            "pad": "write pad(x, [left, right, top, bottom]), as torch has it",
            "take": "write index_select(x, dim, index)",
            "repeat": "write repeat_interleave(x, repeats, dim)",
            "split": "write slices: x[0:16], x[16:32]",
        }
        raise scope.text.refuse(node, f"numpy's {name} is no op", hints[name])
    if name == "arange":
        if len(node.args) == 1:
            return "iota"
        raise scope.text.refuse(
            node, "arange with a start or a step is no op", "write np.arange(N) * step + start"
        )
    found = FUNCTIONS.get(name, name)
    return ALIASES.get(found, found)


def _keyword(node: ast.keyword, operation: str, scope: Scope, read: Read) -> syntax.Argument | None:
    if node.arg is None:
        raise scope.text.refuse(node.value, "** is outside of the subset", "write them out")
    if node.arg in _IGNORED_FALSE and isinstance(node.value, ast.Constant) and not node.value.value:
        return None
    name = KEYWORDS.get(operation, {}).get(node.arg, node.arg)
    span = scope.text.span(node)
    place = Span(span.line, span.column, span.line, span.column + len(node.arg))
    return syntax.Argument(syntax.Word(name, place), _value(node.value, scope, read), span)


def _value(node: ast.expr, scope: Scope, read: Read) -> syntax.Expression:
    """An argument: a dtype by its name, else a value."""
    if isinstance(node, ast.Attribute | ast.Name) and not (
        isinstance(node, ast.Name) and node.id in scope.local
    ):
        dtype = dtype_of(node, scope)
        if dtype is not None:
            return syntax.Name(dtype, scope.text.span(node))
    return read(node)


def _call_kernel(node: ast.Call, kernel: object, scope: Scope, read: Read) -> syntax.Expression:
    name = str(getattr(kernel, "name", ""))
    known = scope.callees.setdefault(name, kernel)
    if known is not kernel:
        raise scope.text.refuse(node.func, f"two kernels are named {name!r}", "rename one of them")
    scope.known.resolved[ast.unparse(node.func)] = f"@{name}"
    span = scope.text.span(node)
    arguments = [syntax.Argument(None, read(each), scope.text.span(each)) for each in node.args]
    for keyword in node.keywords:
        word = syntax.Word(keyword.arg or "", scope.text.span(keyword))
        arguments.append(syntax.Argument(word, read(keyword.value), scope.text.span(keyword)))
    return syntax.Call(syntax.Name(f"@{name}", span), tuple(arguments), span)


def _expect(node: ast.Call, scope: Scope, count: int, usage: str) -> None:
    if len(node.args) != count or node.keywords:
        raise scope.text.refuse(node, f"expected {count} argument", f"write {usage}")

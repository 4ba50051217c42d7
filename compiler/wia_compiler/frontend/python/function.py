"""A Python function to a kernel of the language."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.annotations import Annotation, read_annotation
from wia_compiler.frontend.python.known_names import KnownNames
from wia_compiler.frontend.python.python_source import PythonText, Refused, find_function
from wia_compiler.frontend.python.scope import Array, Scope
from wia_compiler.frontend.python.statements import read_statements
from wia_compiler.frontend.signatures import declared_type


@dataclass(frozen=True)
class ReadFunction:
    """A function as a kernel.

    ``callees`` are the kernels that it calls, by name; ``known`` is what its other free names stand
    for, and how they were read.
    """

    text: PythonText
    kernel: syntax.Kernel
    callees: dict[str, Any]
    known: KnownNames


def read_function(function: types.FunctionType, is_kernel: Callable[[Any], bool]) -> ReadFunction:
    """The kernel that a function is; ``CompileError`` with every fault, at the function's lines.

    ``is_kernel`` tells kernels among the objects that the function's names stand for.
    """
    text, node = find_function(function)
    known = KnownNames.of(function)
    scope = Scope(text, known, is_kernel, node.name)
    parameters: list[syntax.Parameter] = []
    _check_form(node, text)
    scope.check_name(node.name, node)
    for argument, default in _arguments(node):
        try:
            parameters.append(_parameter(argument, default, node, scope))
        except Refused:
            scope.variables.add(argument.arg)
    read_statements(node.body, scope)
    word = _name_word(node, text)
    gives = any(each.role in ("output", "inout") for each in parameters) or any(
        isinstance(each, syntax.Return) and each.values for each in syntax.walk(tuple(scope.block))
    )
    if not gives and not len(text.problems):
        hint = 'return a value, or write to an output: y: "output tensor<N, f32>"'
        text.problems.report(f"{node.name} gives nothing back", word.span, hint)
    text.problems.raise_any()
    kernel = syntax.Kernel(
        word,
        tuple(parameters),
        tuple(_without_last_empty(scope.block)),
        text.span(node),
    )
    return ReadFunction(text, kernel, scope.callees, known)


def _without_last_empty(statements: list[syntax.Statement]) -> list[syntax.Statement]:
    last = statements[-1] if statements else None
    return statements[:-1] if isinstance(last, syntax.Return) and not last.values else statements


def _name_word(node: ast.FunctionDef, text: PythonText) -> syntax.Word:
    """The function's name, where it stands behind ``def``."""
    span = text.first_line(node)
    column = span.column + len("def ")
    return syntax.Word(node.name, span._replace(column=column, end_column=column + len(node.name)))


def _check_form(node: ast.FunctionDef, text: PythonText) -> None:
    arguments = node.args
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            text.report(extra, "a kernel has a fixed number of parameters", "name each of them")


def _arguments(node: ast.FunctionDef) -> list[tuple[ast.arg, ast.expr | None]]:
    """The parameters with their defaults, in order."""
    arguments = node.args
    plain = [*arguments.posonlyargs, *arguments.args]
    without = len(plain) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*([None] * without), *arguments.defaults]
    return [
        *zip(plain, defaults, strict=True),
        *zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True),
    ]


def _parameter(
    argument: ast.arg, default: ast.expr | None, node: ast.FunctionDef, scope: Scope
) -> syntax.Parameter:
    text, name = scope.text, argument.arg
    scope.check_name(name, argument)
    span = text.span(argument)
    word = syntax.Word(name, span._replace(end_column=span.column + len(name)))
    if argument.annotation is None:
        if default is not None:
            raise text.refuse(
                argument,
                f"{name!r} has a default and no type, and only numbers have defaults",
                f'annotate it: {name}: "f32" = {ast.unparse(default)}',
            )
        axes = _axes_by_use(name, node, text)
        entries = None if axes is None else axes
        annotation = Annotation(
            None, syntax.TypeName(syntax.Word("tensor", word.span), entries, span)
        )
    else:
        annotation = read_annotation(argument.annotation, text, scope.known.evaluate)
    written = annotation.type
    faults = len(text.problems)
    declared_type(written, text.problems)
    if len(text.problems) > faults:
        raise Refused(name)
    is_array = written.name.text == "tensor"
    role = annotation.role or ("input" if is_array else None)
    if is_array:
        _enter_array(name, written, scope)
    else:
        scope.numbers.add(name)
        if written.name.text.startswith("i"):
            scope.whole.add(name)
    return syntax.Parameter(role, word, written, _default(default, scope), span)


def _enter_array(name: str, written: syntax.TypeName, scope: Scope) -> None:
    from wia_compiler.base.dtypes import DTYPES

    entries = written.entries
    dtype = entries[-1].text if entries and entries[-1].text in DTYPES else None
    axes = None if entries is None else entries[: len(entries) - (dtype is not None)]
    if axes == () and dtype is not None:
        axes = None
    scope.arrays[name] = Array(axes, dtype)
    for axis in axes or ():
        if axis.text.isidentifier():
            scope.whole.add(axis.text)


def _axes_by_use(
    name: str, node: ast.FunctionDef, text: PythonText
) -> tuple[syntax.Word, ...] | None:
    """Names for the axes of a parameter without a type, where the text takes its shape apart.

    ``M, K = A.shape`` says that A has two axes, and so does ``A[i, k]``; their sizes are then
    called ``A_0`` and ``A_1``.
    """
    rank = 0
    needs_sizes = False
    for each in ast.walk(node):
        if isinstance(each, ast.Assign) and _is_shape_of(each.value, name):
            target = each.targets[0]
            needs_sizes = True
            if isinstance(target, ast.Tuple | ast.List):
                rank = max(rank, len(target.elts))
        elif _asks_for_size(each, name):
            needs_sizes = True
        elif isinstance(each, ast.Subscript) and _is_name(each.value, name):
            places = each.slice.elts if isinstance(each.slice, ast.Tuple) else [each.slice]
            if not any(isinstance(place, ast.Slice) for place in places):
                rank = max(rank, len(places))
    if not needs_sizes or not rank:
        return None
    span = text.first_line(node)
    return tuple(syntax.Word(f"{name}_{axis}", span) for axis in range(rank))


def _asks_for_size(node: ast.AST, name: str) -> bool:
    """``x.shape`` or ``len(x)``."""
    if isinstance(node, ast.Call):
        is_len = isinstance(node.func, ast.Name) and node.func.id == "len"
        return is_len and len(node.args) == 1 and _is_name(node.args[0], name)
    return isinstance(node, ast.Attribute) and _is_shape_of(node, name)


def _is_shape_of(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "shape" and _is_name(node.value, name)


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _default(node: ast.expr | None, scope: Scope) -> syntax.Number | syntax.Boolean | None:
    if node is None:
        return None
    span = scope.text.span(node)
    inner = (
        node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else node
    )
    value = inner.value if isinstance(inner, ast.Constant) else scope.known.number(inner)
    if isinstance(value, bool):
        return syntax.Boolean(value, span)
    if not isinstance(value, int | float):
        raise scope.text.refuse(node, "a default is a number", 'write alpha: "f32" = 1.0')
    value = -value if inner is not node else value
    return syntax.Number(value, repr(value), span)

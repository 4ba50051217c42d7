"""``for i in range(…)``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.expressions import read
from wia_compiler.frontend.python.scope import Scope
from wia_compiler.frontend.ranges import rounds_down, value_down

ReadStatements = Callable[[Sequence[ast.stmt], Scope], None]

_HINT = "write for i in range(N):"


def for_statement(node: ast.For, scope: Scope, read_statements: ReadStatements) -> None:
    """``for i in range(0, N, 4)`` becomes ``for i in 0..N step 4``.

    A range that counts down runs over how far it has come: ``i = start - i_down``.
    """
    if node.orelse:
        raise scope.text.refuse(
            node, "else of a loop is outside of the subset of Python", "write it behind the loop"
        )
    if not isinstance(node.target, ast.Name):
        raise scope.text.refuse(node.target, "a loop counts with one name", _HINT)
    name = node.target.id
    scope.check_name(name, node.target)
    if name in scope.local and name not in scope.whole:
        raise scope.text.refuse(
            node.target,
            f"{name!r} has a value already, this loop would hide it",
            "use another name",
        )
    bounds = _range(node.iter, scope)
    for each in ast.walk(ast.Module(node.body, [])):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store) and each.id == name:
            raise scope.text.refuse(
                each,
                f"{name!r} is the variable of the loop and cannot be set",
                "use a while loop, or another name",
            )
    start, stop, step = bounds
    down = -step.value if isinstance(step, ast.Constant) and isinstance(step.value, int) else 0
    if isinstance(step, ast.UnaryOp) and isinstance(step.operand, ast.Constant):
        down = int(step.operand.value) if isinstance(step.op, ast.USub) else 0  # pyright: ignore[reportArgumentType]
    if down > 0:
        _count_down(node, name, (start, stop, down), scope, read_statements)
        return
    span = scope.text.span(node)
    zero = syntax.Number(0, "0", scope.text.span(node.iter))
    first = zero if start is None else read(start, scope)
    last = read(stop, scope)
    by = None if step is None or _is_one(step) else read(step, scope)
    with scope.nested() as block:
        _enter(name, scope)
        read_statements(node.body, scope)
    keyword = scope.text.first_line(node)._replace(end_column=span.column + 3)
    word = scope.text.word(name, node.target)
    scope.block.append(syntax.For(word, first, last, by, tuple(block), keyword, span))


def _enter(name: str, scope: Scope) -> None:
    scope.whole.add(name)
    scope.variables.add(name)


def _range(node: ast.expr, scope: Scope) -> tuple[ast.expr | None, ast.expr, ast.expr | None]:
    """The start, stop and step of ``range(…)``."""
    is_range = isinstance(node, ast.Call) and scope.known.object(node.func) is range
    if not isinstance(node, ast.Call) or not is_range:
        raise scope.text.refuse(node, "a loop runs over a range", _HINT)
    if node.keywords or not 1 <= len(node.args) <= 3:
        raise scope.text.refuse(node, f"range takes 1 to 3 numbers, found {len(node.args)}", _HINT)
    if len(node.args) == 1:
        return None, node.args[0], None
    return node.args[0], node.args[1], node.args[2] if len(node.args) == 3 else None


def _is_one(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _count_down(
    node: ast.For,
    name: str,
    parts: tuple[ast.expr | None, ast.expr, int],
    scope: Scope,
    read_statements: ReadStatements,
) -> None:
    start, stop, step = parts
    span, place = scope.text.span(node), scope.text.span(node.iter)
    first = syntax.Number(0, "0", place) if start is None else read(start, scope)
    last = read(stop, scope)
    if isinstance(last, syntax.Unary) and isinstance(last.operand, syntax.Number):
        last = syntax.Number(-last.operand.value, f"-{last.operand.text}", last.span)
    counter = f"{name}_down"
    if counter in scope.local:
        counter = scope.fresh(counter)
    rounds = rounds_down(first, last, step, place)
    with scope.nested() as block:
        _enter(name, scope)
        value = value_down(first, counter, step, place)
        block.append(syntax.Let((scope.text.word(name, node.target),), (value,), place))
        read_statements(node.body, scope)
    keyword = scope.text.first_line(node)._replace(end_column=span.column + 3)
    zero = syntax.Number(0, "0", place)
    word = scope.text.word(counter, node.target)
    scope.block.append(syntax.For(word, zero, rounds, None, tuple(block), keyword, span))

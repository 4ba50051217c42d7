"""``pattern NAME { match: … rewrite: … }`` to two functions over the same values."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.dialects import func

from wia_compiler.base.signature import DeclaredType, KernelSignature, ParameterDeclaration
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, Exit
from wia_compiler.frontend.functions import enter, finish
from wia_compiler.frontend.notation import import_operation
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.snippets import (
    free_values,
    returning,
    tensor_parameter,
    unread_values,
    values_set,
)
from wia_compiler.frontend.suggestions import did_you_mean


@dataclass(frozen=True)
class _Sides:
    """A pattern taken apart: what comes in, the lines of both sides, what they give."""

    free: tuple[str, ...]
    match: tuple[syntax.Operation, ...]
    rewrite: tuple[syntax.Operation, ...]
    results: tuple[tuple[str, str], ...]


def import_pattern(
    pattern: syntax.Pattern, problems: Problems, tokens: itertools.count[int]
) -> PatternDeclaration | None:
    """The declaration of a pattern; ``None`` after its faults were reported."""
    faults = len(problems)
    sides = _sides(pattern, problems)
    if sides is None:
        return None
    matched = [first for first, _ in sides.results]
    rewritten = [second for _, second in sides.results]
    match = _function(pattern, sides.free, sides.match, matched, problems, tokens)
    if len(problems) > faults:
        return None
    rewrite = _function(
        pattern, sides.free, sides.rewrite, rewritten, problems, tokens, in_rewrite=True
    )
    if match is None or rewrite is None:
        return None
    return PatternDeclaration(pattern.name.text, problems.source, pattern.name.span, match, rewrite)


def _sides(pattern: syntax.Pattern, problems: Problems) -> _Sides | None:
    lines = _operations(pattern.match, "match", pattern, problems)
    new = _operations(pattern.rewrite, "rewrite", pattern, problems)
    if lines is None or new is None:
        return None
    free = tuple(each.text for each in free_values(pattern.match))
    known = {word.text for word in values_set(pattern.match)}
    for value in free_values(pattern.rewrite):
        if value.text not in known and value.text not in free:
            near = did_you_mean(f"%{value.text}", [f"%{each}" for each in (*free, *known)])
            problems.report(
                f"'%{value.text}' is no value of the match",
                value.span,
                near or "a rewrite reads what the match reads or computes",
            )
    results = _results(pattern, problems)
    if results is None:
        return None
    return _Sides(free, lines, (*_needed(lines, pattern), *new), results)


def _operations(
    blocks: Sequence[syntax.Block], side: str, pattern: syntax.Pattern, problems: Problems
) -> tuple[syntax.Operation, ...] | None:
    found: list[syntax.Operation] = []
    for block in blocks:
        for line in block.lines:
            if not isinstance(line, syntax.Operation):
                problems.report(
                    f"the {side} of a pattern has no branches and no return",
                    line.span,
                    "write lines such as %y = relu(%x)",
                )
                return None
            found.append(line)
        if block.label is not None:
            problems.report(f"the {side} of a pattern has no labels", block.label.span, "remove it")
            return None
    if not found:
        problems.report(
            f"the {side} of pattern {pattern.name.text!r} is empty",
            pattern.name.span,
            "write lines such as %y = relu(%x)",
        )
        return None
    return tuple(found)


def _results(pattern: syntax.Pattern, problems: Problems) -> tuple[tuple[str, str], ...] | None:
    """What both sides give: the names that both set, else the one value each does not read."""
    new = {word.text for word in values_set(pattern.rewrite)}
    shared = [word.text for word in values_set(pattern.match) if word.text in new]
    if shared:
        return tuple((name, name) for name in shared)
    matched, rewritten = unread_values(pattern.match), unread_values(pattern.rewrite)
    if len(matched) == len(rewritten) == 1:
        return ((matched[0].text, rewritten[0].text),)
    problems.report(
        f"match and rewrite of pattern {pattern.name.text!r} set no value of the same name",
        pattern.name.span,
        f"set %{matched[-1].text} in the rewrite too: it takes the place of the match's",
    )
    return None


def _needed(lines: Sequence[syntax.Operation], pattern: syntax.Pattern) -> list[syntax.Operation]:
    """The lines of the match that compute what the rewrite reads of it."""
    wanted = {value.text for value in free_values(pattern.rewrite)}
    found: list[syntax.Operation] = []
    for line in reversed(lines):
        if any(word.text in wanted for word in line.results):
            found.append(line)
            wanted |= {n.text for n in syntax.walk(line.value) if isinstance(n, syntax.Value)}
    return found[::-1]


def _function(
    pattern: syntax.Pattern,
    free: Sequence[str],
    lines: Sequence[syntax.Operation],
    results: Sequence[str],
    problems: Problems,
    tokens: itertools.count[int],
    *,
    in_rewrite: bool = False,
) -> func.FuncOp | None:
    parameters = tuple(ParameterDeclaration(name, "input", DeclaredType()) for name in free)
    signature = KernelSignature(
        pattern.name.text, parameters, problems.source, len(results), pattern.name.span
    )
    body = Body(signature, {}, {}, problems, tokens, in_notation=True, in_rewrite=in_rewrite)
    enter(body)
    faults = len(problems)
    known: dict[str, syntax.Word] = {}
    for line in lines:
        for word in line.results:
            first = known.setdefault(word.text, word)
            if first is not word and first.span != word.span and not in_rewrite:
                problems.report(
                    f"'%{word.text}' is set twice; the first is on line {first.span.line}",
                    word.span,
                    "a value is set once: give one of them another name",
                )
        import_operation(line, body)
    values = [body.values.get(name) for name in results]
    given = [value for value in values if value is not None]
    if len(problems) > faults or len(given) < len(values):
        return None
    body.exits.append(Exit(body.block, tuple(given), pattern.span))
    return finish(body, pattern.span)


def fused_functions(patterns: Sequence[syntax.Pattern]) -> dict[str, syntax.Function]:
    """The kernels that the rewrites of patterns name: what their match computes, as a func.

    ``rewrite: %out = fused_conv_relu(%x, %w)`` lets a text call ``fused_conv_relu(%x, %w)``.
    """
    found: dict[str, syntax.Function] = {}
    for pattern in patterns:
        lines = [line for block in pattern.rewrite for line in block.lines]
        matched = pattern.match[0]
        free = {value.text for value in free_values(pattern.match)}
        results = [each.text for each in unread_values(pattern.match)]
        for line in lines:
            call = line.value if isinstance(line, syntax.Operation) else None
            if not isinstance(call, syntax.Call) or not isinstance(call.callee, syntax.Name):
                continue
            names = [a.value for a in call.arguments if isinstance(a.value, syntax.Value)]
            if {each.text for each in names} != free or len(names) != len(call.arguments):
                continue
            values = [syntax.Word(each, pattern.name.span) for each in results]
            found.setdefault(
                call.callee.text,
                syntax.Function(
                    replace(pattern.name, text=call.callee.text),
                    tuple(tensor_parameter(each.text, each.span) for each in names),
                    None,
                    (returning(matched, values),),
                    pattern.span,
                ),
            )
    return found

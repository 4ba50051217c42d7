"""``if``, ``for`` and ``while`` over whole tensors to blocks with ``cf`` branches.

A name that a branch or a loop sets and that has a value before becomes an argument of the block
where the ways meet; one that has a value on some ways only cannot be used there. Values are SSA
from the start: no memory, nothing to promote later.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.ir import Block, SSAValue

from wia_compiler.base.source import Span
from wia_compiler.dialects.wia.bound import BoundOp
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.ops import AnyTensorType, ConstantOp, LiteralType
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, literal_of
from wia_compiler.frontend.expressions import value_of
from wia_compiler.frontend.scopes import block_of_statements, drop_lets, may_make, names_set

Run = Callable[[Sequence[syntax.Statement], Body], bool]
"""Imports statements; whether control comes to their end."""


class _Way(NamedTuple):
    """The end of one way through statements: where it stands and what the names are there."""

    block: Block
    values: dict[str, SSAValue | None]
    unset: dict[str, str]


def condition_of(node: syntax.Expression, body: Body) -> SSAValue | None:
    """The i1 that a branch decides by; ``None`` after faults were reported."""
    value = value_of(node, body)
    if value is None:
        return None
    number = literal_of(value)
    if number is not None and not isinstance(number, bool):
        body.report(f"a condition is a bool, found {number}", node.span, "compare: x != 0")
        return None
    return body.add(ConditionOp(value), node.span).result


def import_if(node: syntax.If, body: Body, run: Run) -> bool:
    """``if c { … } else { … }``; whether control comes to what follows."""
    condition = condition_of(node.condition, body)
    start = _Way(body.block, body.values, body.unset)
    first = _branch("then", node.body, start, body, run)
    if node.otherwise:
        second = _branch("else", node.otherwise, start, body, run)
        ways = [way for way in (first[1], second[1]) if way is not None]
        _split(start, condition, first[0], second[0], node.keyword, body)
        if not ways:
            return False
        _join(ways, f"the if of line {node.keyword.line}", node.keyword, body)
        return True
    after = body.start_block("else")
    if first[1] is None:
        _split(start, condition, first[0], after, node.keyword, body)
        _go_on(_Way(after, start.values, start.unset), body)
        return True
    _go_on(_Way(after, start.values, start.unset), body)
    _split(start, condition, first[0], after, node.keyword, body)
    skipped = _Way(after, dict(start.values), dict(start.unset))
    _join([first[1], skipped], f"the if of line {node.keyword.line}", node.keyword, body)
    return True


def _branch(
    label: str,
    statements: Sequence[syntax.Statement],
    start: _Way,
    body: Body,
    run: Run,
) -> tuple[Block, _Way | None]:
    """One branch: its first block, and its end where control comes to it."""
    block = body.start_block(label)
    body.values, body.unset = dict(start.values), dict(start.unset)
    with block_of_statements(body):
        reached = run(statements, body)
    drop_lets(statements, start.values, body)
    end = _Way(body.block, body.values, body.unset)
    return block, end if reached else None


def _split(
    start: _Way,
    condition: SSAValue | None,
    first: Block,
    second: Block,
    span: Span,
    body: Body,
) -> None:
    if condition is not None:
        body.add_to(start.block, ConditionalBranchOp(condition, first, [], second, []), span)


def _go_on(way: _Way, body: Body) -> None:
    body.block, body.values, body.unset = way


def _join(ways: Sequence[_Way], where: str, span: Span, body: Body) -> None:
    """Go on where ways meet; names that differ become arguments of the block there."""
    if len(ways) == 1:
        _go_on(ways[0], body)
        return
    values: dict[str, SSAValue | None] = {}
    unset: dict[str, str] = {}
    passed: list[str] = []
    for name in dict.fromkeys(name for way in ways for name in (*way.values, *way.unset)):
        found = [way.values[name] for way in ways if name in way.values]
        if len(found) < len(ways):
            reasons = (way.unset[name] for way in ways if name in way.unset)
            unset[name] = next(reasons, f"{name!r} is set in one branch of {where} only")
        elif None in found:
            values[name] = None
        elif all(value is found[0] for value in found):
            values[name] = found[0]
        else:
            passed.append(name)
    block = body.start_block("join", passed)
    for name, argument in zip(passed, block.args, strict=True):
        values[name] = argument
    for way in ways:
        given = [value for name in passed if (value := way.values[name]) is not None]
        body.add_to(way.block, BranchOp(block, *given), span)
    body.values, body.unset = values, unset


def import_while(node: syntax.While, body: Body, run: Run) -> bool:
    """``while c { … }``: the condition is computed before each time."""
    return _loop(
        node.body,
        node.keyword,
        body,
        run,
        condition=lambda _: condition_of(node.condition, body),
    )


def import_for(node: syntax.For, body: Body, run: Run) -> bool:
    """``for i in a..b step s { … }``: i is a, a + s … below b, an i64; the step is above 0."""
    name = node.variable.text
    bounds, before = _bounds(node, body), dict(body.values)
    if not may_make(node.variable, body, anew=True):
        bounds = None
    if bounds is None:
        body.values[name] = None  # the body's faults are still found
    start, stop, step = bounds or (None, None, None)

    def condition(variable: SSAValue | None) -> SSAValue | None:
        if variable is None or stop is None or step is None:
            return None
        below = body.add_op("lt", [variable, stop], node.keyword)
        if below is not None and literal_of(step) is None:
            zero = body.add(ConstantOp(0, LiteralType()), node.keyword).result
            moves = body.add_op("gt", [step, zero], node.keyword)
            below = (
                None if moves is None else body.add_op("logical_and", [below, moves], node.keyword)
            )
        return None if below is None else body.add(ConditionOp(below), node.keyword).result

    def following(variable: SSAValue) -> SSAValue | None:
        return None if step is None else body.add_op("add", [variable, step], node.keyword)

    around = body.loops.get(name)
    body.loops[name] = node.keyword.line
    reached = _loop(
        node.body, node.keyword, body, run, condition=condition, variable=(name, start, following)
    )
    body.loops.pop(name)
    if around is not None:
        body.loops[name] = around
    if name in before:
        body.values[name] = before[name]
        return reached
    body.values.pop(name, None)
    body.unset[name] = f"{name!r} is the variable of the loop of line {node.keyword.line} only"
    return reached


def _bounds(node: syntax.For, body: Body) -> tuple[SSAValue, SSAValue, SSAValue] | None:
    start = _bound(node.start, "start", node, body)
    stop = _bound(node.stop, "stop", node, body)
    if node.step is None:
        step: SSAValue | None = body.add(ConstantOp(1, LiteralType()), node.keyword).result
    else:
        step = _bound(node.step, "step", node, body)
        number = literal_of(step)
        if number is not None and number < 1:
            body.report(
                f"a step is above 0, found {number}",
                node.step.span,
                "count upwards: i in 0..N, with N - 1 - i where the order matters",
            )
            return None
    return None if start is None or stop is None or step is None else (start, stop, step)


def _bound(node: syntax.Expression, what: str, loop: syntax.For, body: Body) -> SSAValue | None:
    """One bound of a loop, an i64; a step that is a number of the text stays one."""
    value = value_of(node, body)
    if value is None:
        return None
    number = literal_of(value)
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        body.report(
            f"the bounds of a loop are whole numbers, found {str(number).lower()}",
            node.span,
            "write for i in 0..N",
        )
        return None
    if what == "step" and number is not None:
        return value
    bound = BoundOp(value, f"the {what} of {loop.variable.text}", AnyTensorType())
    return body.add(bound, node.span).result


Variable = tuple[str, "SSAValue | None", Callable[[SSAValue], "SSAValue | None"]]


def _loop(
    statements: Sequence[syntax.Statement],
    span: Span,
    body: Body,
    run: Run,
    *,
    condition: Callable[[SSAValue | None], SSAValue | None],
    variable: Variable | None = None,
) -> bool:
    """A loop: ``^test(names)`` decides, the body comes back to it; what follows sees its names."""
    entry = _Way(body.block, body.values, body.unset)
    carried = [name for name in names_set(statements) if entry.values.get(name) is not None]
    own = [] if variable is None else [variable[0]]
    test = body.start_block("test", [*own, *carried])
    body.values = {**entry.values, **dict(zip([*own, *carried], test.args, strict=True))}
    body.unset = dict(entry.unset)
    starts = [entry.values[name] for name in carried]
    if variable is not None:
        starts.insert(0, variable[1])
    given = [each for each in starts if each is not None]
    body.add_to(entry.block, BranchOp(test, *given), span)
    if variable is not None and variable[1] is None:
        body.values[variable[0]] = None
    decided = condition(body.values[own[0]] if own else None)
    before = _Way(body.block, body.values, body.unset)
    inside = body.start_block("body")
    body.values, body.unset = dict(before.values), dict(before.unset)
    with block_of_statements(body):
        reached = run(statements, body)
    drop_lets(statements, before.values, body)
    if reached:
        values = [body.values.get(name) for name in carried]
        if variable is not None:
            values.insert(0, variable[2](test.args[0]))
        back = [each for each in values if each is not None]
        body.add(BranchOp(test, *back), span)
    ended = {name: why for name, why in body.unset.items() if name not in before.values}
    new = {name: None for name in (*body.values, *ended) if name not in before.values}
    poisoned = [name for name, value in body.values.items() if value is None]
    after = body.start_block("done")
    if decided is not None:
        body.add_to(before.block, ConditionalBranchOp(decided, inside, [], after, []), span)
    body.block = after
    body.values, body.unset = dict(before.values), dict(before.unset)
    for name in poisoned:
        body.values[name] = None
    for name in new:
        if name not in body.values and name not in body.unset:
            inside_only = f"is set inside the loop of line {span.line} only, which may run 0 times"
            body.unset[name] = ended.get(name, f"{name!r} {inside_only}")
    return True

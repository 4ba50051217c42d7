"""Random programs of assignments, branches and loops: every level says what Python says."""

import itertools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import wia_compiler as wia
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wia_compiler.passes.control_flow import edges_into, immediate_dominators, reachable_blocks
from xdsl.dialects import test
from xdsl.dialects.builtin import i1
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.ir import Block, Region

NAMES = ("p", "q", "r")
Values = dict[str, Any]


@dataclass(frozen=True)
class Statement:
    """A line of text, and what it does to the values of the names."""

    text: str
    run: Callable[[Values], None]


def _operand(draw) -> tuple[str, Callable[[Values], Any]]:
    name = draw(st.sampled_from((*NAMES, "a", "b")))
    if draw(st.booleans()):
        return name, lambda values: values[name]
    number = draw(st.integers(-3, 3))
    return f"({name} + {number})", lambda values: values[name] + number


@st.composite
def assignments(draw) -> Statement:
    """``p = q * r;``"""
    target = draw(st.sampled_from(NAMES))
    sign, function = draw(st.sampled_from([("+", np.add), ("-", np.subtract), ("*", np.multiply)]))
    (left, first), (right, second) = _operand(draw), _operand(draw)

    def run(values: Values) -> None:
        values[target] = function(first(values), second(values))

    return Statement(f"{target} = {left} {sign} {right};", run)


@st.composite
def swaps(draw) -> Statement:
    """``t = p; p = q; q = t;``"""
    one, other = draw(st.sampled_from([("p", "q"), ("q", "r"), ("p", "r")]))

    def run(values: Values) -> None:
        values[one], values[other] = values[other], values[one]

    return Statement(f"t = {one}; {one} = {other}; {other} = t;", run)


def _run_all(statements: list[Statement], values: Values) -> None:
    for statement in statements:
        statement.run(values)


def _joined(statements: list[Statement]) -> str:
    return " ".join(statement.text for statement in statements)


def branches(inner: st.SearchStrategy[list[Statement]]) -> st.SearchStrategy[Statement]:
    """``if (reduce_sum(p) > n) { … } else { … }``"""

    @st.composite
    def made(draw) -> Statement:
        name, bound = draw(st.sampled_from(NAMES)), draw(st.integers(-4, 4))
        then, otherwise = draw(inner), draw(inner)

        def run(values: Values) -> None:
            _run_all(then if values[name].sum() > bound else otherwise, values)

        text = f"if (reduce_sum({name}) > {bound}) {{ {_joined(then)} }}"
        return Statement(f"{text} else {{ {_joined(otherwise)} }}" if otherwise else text, run)

    return made()


def loops(inner: st.SearchStrategy[list[Statement]]) -> st.SearchStrategy[Statement]:
    """``for i in 0..n { … }``"""

    @st.composite
    def made(draw) -> Statement:
        count, body = draw(st.integers(0, 3)), draw(inner)

        def run(values: Values) -> None:
            for _ in range(count):
                _run_all(body, values)

        return Statement(f"for @ in 0..{count} {{ {_joined(body)} }}", run)

    return made()


def several(each: st.SearchStrategy[Statement]) -> st.SearchStrategy[list[Statement]]:
    """Up to three statements."""
    return st.lists(each, max_size=3)


STATEMENTS = st.recursive(
    st.one_of(assignments(), swaps()),
    lambda each: st.one_of(branches(several(each)), loops(several(each))),
    max_leaves=8,
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(STATEMENTS, min_size=1, max_size=5), st.integers(0, 2**32))
def test_every_level_says_what_python_says(statements: list[Statement], seed: int) -> None:
    """i64 wraps alike everywhere, so that nothing is up to rounding."""
    numbers = itertools.count()
    text = (
        "kernel k(input a: tensor, input b: tensor, output p: tensor, output q: tensor) {"
        f" p = a; q = b; r = a - b; {_joined(statements)} p = p + r; }}"
    )
    text = re.sub("@", lambda _: f"step{next(numbers)}", text)
    generator = np.random.default_rng(seed)
    a, b = generator.integers(-3, 4, (2, 3))
    values: Values = {"a": a, "b": b, "p": a, "q": b, "r": a - b}
    with np.errstate(all="ignore"):
        _run_all(statements, values)
        expected = (values["p"] + values["r"], values["q"])
    kernel = wia.compile(text)["k"]
    for found in (wia.reference(kernel, a, b), kernel.build(a, b, verify=True)(a, b)):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=9))
def test_what_dominates_is_on_every_way(ways: list[tuple[int, int]]) -> None:
    """A block that is taken out keeps control from those that it dominates, and from no other."""
    blocks = [Block(arg_types=[i1]) for _ in ways]
    region = Region(blocks)
    for block, (one, other) in zip(blocks, ways, strict=True):
        targets = [blocks[each] for each in (one, other) if each < len(blocks)]
        if len(targets) == 2:
            block.add_op(
                ConditionalBranchOp(
                    block.args[0], targets[0], [block.args[0]], targets[1], [block.args[0]]
                )
            )
        elif targets:
            block.add_op(BranchOp(targets[0], block.args[0]))
        else:
            block.add_op(test.TestTermOp())
    closest = immediate_dominators(region)
    reached = reachable_blocks(region)
    assert set(closest) == set(reached) == _reached(blocks[0], None)
    assert set(edges_into(region)) == set(reached)
    for block in reached:
        over = _dominators(block, closest)
        for each in reached:
            kept_away = block not in _reached(blocks[0], each)
            assert (each in over) == kept_away


def _dominators(block: Block, closest) -> set[Block]:
    found = {block}
    while (above := closest[block]) is not None:
        found.add(above)
        block = above
    return found


def _reached(first: Block, without: Block | None) -> set[Block]:
    pending = [] if first is without else [first]
    seen = set(pending)
    while pending:
        last = pending.pop().last_op
        for target in last.successors:
            if target is not without and target not in seen:
                seen.add(target)
                pending.append(target)
    return seen

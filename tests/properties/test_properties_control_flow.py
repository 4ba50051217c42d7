"""Random programs of branches and loops compute what the same statements compute in Python."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np
import wia_compiler as wia
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ("a", "b", "y")


@dataclass(frozen=True)
class Lines:
    """The same statements in the language and in Python."""

    wia: tuple[str, ...]
    python: tuple[str, ...]

    def __add__(self, other: Lines) -> Lines:
        return Lines(self.wia + other.wia, self.python + other.python)

    def inside(self, opening: str, header: str, closing: str = "}") -> Lines:
        """The statements as the body of a branch or loop."""
        body = self.python or ("pass",)
        return Lines(
            (opening, *(f"    {line}" for line in self.wia), closing),
            (header, *(f"    {line}" for line in body)),
        )


@st.composite
def assignments(draw: st.DrawFn, loops: tuple[str, ...]) -> Lines:
    target = draw(st.sampled_from(NAMES))
    left, right = draw(st.sampled_from(NAMES)), draw(st.sampled_from(NAMES))
    form = draw(st.integers(0, 4 if loops else 3))
    match form:
        case 0:
            return Lines(
                (f"{target} = {left} + {right} * 0.5;",), (f"{target} = {left} + {right} * f(0.5)",)
            )
        case 1:
            return Lines(
                (f"{target} = min({left}, {right}) - 1.0;",),
                (f"{target} = np.minimum({left}, {right}) - f(1)",),
            )
        case 2:
            return Lines(
                (f"{left}, {right} = {right}, {left};",) if left != right else (),
                (f"{left}, {right} = {right}, {left}",) if left != right else (),
            )
        case 3:
            return Lines(
                (f"{target} += {left};", f"{target} *= 0.25;"),
                (f"{target} = {target} + {left}", f"{target} = {target} * f(0.25)"),
            )
        case _:
            loop = draw(st.sampled_from(loops))
            return Lines(
                (f"{target} = {left} + cast({loop}, f32);",), (f"{target} = {left} + f({loop})",)
            )


@st.composite
def blocks(draw: st.DrawFn, depth: int, loops: tuple[str, ...] = ()) -> Lines:
    found = Lines((), ())
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.integers(0, 5)) if depth else 0
        match kind:
            case 3:
                found += draw(branches(depth, loops))
            case 4:
                found += draw(counted(depth, loops))
            case 5:
                found += draw(whiles(depth, loops))
            case _:
                found += draw(assignments(loops))
    return found


@st.composite
def branches(draw: st.DrawFn, depth: int, loops: tuple[str, ...]) -> Lines:
    name, bound = draw(st.sampled_from(NAMES)), draw(st.integers(-3, 3))
    then = draw(blocks(depth - 1, loops))
    if draw(st.integers(0, 5)) == 0:
        then += Lines(("return;",), ("return y",))
    found = then.inside(
        f"if (reduce_sum({name}) > {bound}.0) {{", f"if np.sum({name}, dtype=np.float32) > {bound}:"
    )
    if draw(st.booleans()):
        other = draw(blocks(depth - 1, loops)).inside("else {", "else:")
        found += other
    return found


@st.composite
def counted(draw: st.DrawFn, depth: int, loops: tuple[str, ...]) -> Lines:
    variable = f"i{depth}_{draw(st.integers(0, 9))}"
    if variable in loops:
        variable += "x"
    start, stop = draw(st.integers(-1, 2)), draw(st.sampled_from(["0", "2", "n", "n + 1"]))
    step = draw(st.integers(1, 3))
    inner = draw(blocks(depth - 1, (*loops, variable)))
    return inner.inside(
        f"for {variable} in {start}..{stop} step {step} {{",
        f"for {variable} in range({start}, {stop}, {step}):",
    )


@st.composite
def whiles(draw: st.DrawFn, depth: int, loops: tuple[str, ...]) -> Lines:
    limit = draw(st.sampled_from(["0", "2", "n"]))
    count = f"w{depth}_{draw(st.integers(0, 99))}"
    inner = draw(blocks(depth - 1, loops)) + Lines((f"{count} += 1;",), (f"{count} += 1",))
    start = Lines((f"{count} = 0;",), (f"{count} = 0",))
    return start + inner.inside(f"while ({count} < {limit}) {{", f"while {count} < {limit}:")


def program(statements: Lines) -> tuple[str, str]:
    """The kernel and the Python function."""
    wia_text = textwrap.indent("\n".join(statements.wia), "    ")
    python = textwrap.indent("\n".join((*statements.python, "return y")), "    ")
    kernel = (
        "kernel k(input p: tensor, input q: tensor, n: i64, output y: tensor) {\n"
        f"    a, b, y = p, q, p - q;\n{wia_text}\n}}\n"
    )
    return kernel, f"def k(p, q, n):\n    a, b, y = p, q, p - q\n{python}\n"


def check(statements: Lines, run: object) -> None:
    text, python = program(statements)
    scope: dict[str, object] = {"np": np, "f": np.float32}
    exec(python, scope)
    kernel = wia.compile(text).k
    for p, q, n in ((1.5, -1.0, 3), (0.25, 0.5, 0)):
        arrays = np.full(3, p, np.float32), np.array([q, 2.0, -q], np.float32)
        expected = scope["k"](*arrays, n)  # pyright: ignore
        found = run(kernel, *arrays, n)  # pyright: ignore
        np.testing.assert_array_equal(found, expected, err_msg=f"{text}\n{python}")


@settings(max_examples=120, deadline=None, derandomize=True)
@given(blocks(3))
def test_the_reference_runs_as_python_does(statements: Lines) -> None:
    check(statements, wia.reference)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(blocks(2))
def test_the_cpu_runs_as_python_does(statements: Lines) -> None:
    check(statements, lambda kernel, *arguments: kernel(*arguments))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(blocks(3))
def test_what_the_notation_prints_of_a_program_computes_the_same(statements: Lines) -> None:
    def run(kernel: wia.Kernel, *arguments: object) -> object:
        printed = kernel.ir("chapter")
        again = wia.compile(printed).k
        assert again.ir("chapter") == printed
        return wia.reference(again, *arguments)

    check(statements, run)

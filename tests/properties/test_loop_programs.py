"""Random programs over elements: the compiler does what the same text in Python does.

Each program is written twice, as a kernel and as Python over lists that refuse an index outside.
Either both give the same arrays, or both fail at the same index: when the kernel is compiled, where
that is certain, else while it runs. So no access that is not checked may lie outside its array.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import wia_compiler as wia
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from wia_compiler.base.errors import OutOfRangeError

SIZES = st.sampled_from([0, 1, 2, 5, 8])


class Outside(Exception):
    """An access of the Python program outside its array."""


class Elements:
    """A list of whole numbers without negative indices."""

    def __init__(self, numbers: list[int]):
        self.numbers = numbers

    def __getitem__(self, index: int) -> int:
        self.check(index)
        return self.numbers[index]

    def __setitem__(self, index: int, value: int) -> None:
        self.check(index)
        self.numbers[index] = value

    def check(self, index: int) -> None:
        if not 0 <= index < len(self.numbers):
            raise Outside(index)


@dataclass
class Writer:
    """Draws a program; each piece of it is a pair of texts, of the kernel and of Python."""

    draw: Any
    variables: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=lambda: ["t"])
    count: int = 0

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def index(self, depth: int = 2) -> tuple[str, str]:
        """A whole number made of loop variables, sizes and elements."""
        choices = ["number", "size"]
        if self.variables:
            choices += ["variable"] * 4
        if depth:
            choices += ["add", "sub", "mul", "min", "max", "div", "mod", "where"]
            choices += ["element"] if self.variables else []
        kind = self.draw(st.sampled_from(choices))
        if kind == "number":
            text = str(self.number(0, 6))
            return text, text
        if kind == "size":
            return "N", "N"
        if kind == "variable":
            name = self.draw(st.sampled_from(self.variables))
            return name, name
        a, b = self.index(depth - 1)
        if kind == "element":
            return f"I[({a}) % N]", f"I[({b}) % N if N else 0]"
        if kind in ("div", "mod"):
            by = self.number(1, 4)
            sign = "//" if kind == "div" else "%"
            return f"(({a}) {sign} {by})", f"(({b}) {sign} {by})"
        c, d = self.index(depth - 1)
        if kind in ("min", "max"):
            return f"{kind}({a}, {c})", f"{kind}({b}, {d})"
        if kind == "where":
            e, f = self.condition(0)
            return f"(({e}) ? {a} : {c})", f"({b} if {f} else {d})"
        if kind == "mul":
            factor = self.number(0, 3)
            return f"({a}) * {factor}", f"({b}) * {factor}"
        sign = "+" if kind == "add" else "-"
        return f"({a} {sign} ({c}))", f"({b} {sign} ({d}))"

    def condition(self, depth: int = 1) -> tuple[str, str]:
        kind = self.draw(st.sampled_from(["compare", "not", "and", "or", "guard"]))
        if kind == "guard" and self.variables:
            name = self.draw(st.sampled_from(self.variables))
            add = self.number(-2, 2)
            text = f"{name} + {add} < N" if add >= 0 else f"{name} >= {-add}"
            return text, text
        if kind in ("compare", "guard") or not depth:
            (a, b), (c, d) = self.index(1), self.index(1)
            sign = self.draw(st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
            return f"({a}) {sign} ({c})", f"({b}) {sign} ({d})"
        a, b = self.condition(depth - 1)
        if kind == "not":
            return f"!({a})", f"not ({b})"
        c, d = self.condition(depth - 1)
        word, sign = ("and", "&&") if kind == "and" else ("or", "||")
        return f"({a}) {sign} ({c})", f"({b}) {word} ({d})"

    def value(self, depth: int = 1) -> tuple[str, str]:
        kind = self.draw(st.sampled_from(["element", "element", "scalar", "index", "add", "where"]))
        if kind == "element" or not depth:
            a, b = self.index(1)
            name = self.draw(st.sampled_from(["A", "C"]))
            return f"{name}[{a}]", f"{name}[{b}]"
        if kind == "scalar":
            name = self.draw(st.sampled_from(self.scalars))
            return name, name
        if kind == "index":
            return self.index(1)
        a, b = self.value(depth - 1)
        c, d = self.value(depth - 1)
        if kind == "add":
            return f"({a} + {c})", f"({b} + {d})"
        e, f = self.condition(1)
        return f"(({e}) ? {a} : {c})", f"({b} if {f} else {d})"

    def statements(self, indent: int, depth: int) -> list[tuple[str, str]]:
        made: list[tuple[str, str]] = []
        for _ in range(self.number(1, 3)):
            made += self.statement(indent, depth)
        return made

    def statement(self, indent: int, depth: int) -> list[tuple[str, str]]:
        space = "    " * indent
        kinds = ["store", "store", "add", "scalar"] + (["for", "for", "if", "while"] * bool(depth))
        kind = self.draw(st.sampled_from(kinds))
        if kind in ("store", "add"):
            (a, b), (c, d) = self.index(), self.value()
            sign = "=" if kind == "store" else "+="
            python = f"C[{b}] {sign} {d}" if kind == "store" else f"C.add({b}, lambda: {d})"
            if kind == "add":  # the right side is computed first, as in the language
                python = f"held = {d}; C[{b}] = C[{b}] + held"
            return [(f"{space}C[{a}] {sign} {c};", f"{space}{python}")]
        if kind == "scalar":
            a, b = self.value()
            return [(f"{space}t = {a};", f"{space}t = {b}")]
        self.count += 1
        if kind == "if":
            a, b = self.condition()
            body = self.statements(indent + 1, depth - 1)
            other = self.statements(indent + 1, depth - 1)
            return [
                (f"{space}if ({a}) {{", f"{space}if {b}:"),
                *body,
                (f"{space}}} else {{", f"{space}else:"),
                *other,
                (f"{space}}}", ""),
            ]
        if kind == "while":
            name = f"w{self.count}"
            a, b = self.index(1)
            self.scalars.append(name)
            self.variables.append(name)
            body = self.statements(indent + 1, depth - 1)
            self.scalars.remove(name)
            self.variables.remove(name)
            step = self.number(1, 2)
            return [
                (f"{space}let {name}: i64 = 0;", f"{space}{name} = 0"),
                (f"{space}while ({name} < min({a}, 6)) {{", f"{space}while {name} < min({b}, 6):"),
                *body,
                (f"{space}    {name} += {step};", f"{space}    {name} += {step}"),
                (f"{space}}}", ""),
            ]
        name = f"v{self.count}"
        (a, b), (c, d) = self.index(1), self.index(1)
        step = self.number(1, 3)
        self.variables.append(name)
        body = self.statements(indent + 1, depth - 1)
        self.variables.remove(name)
        return [
            (
                f"{space}for {name} in {a}..min({c}, 9) step {step} {{",
                f"{space}for {name} in range({b}, min({d}, 9), {step}):",
            ),
            *body,
            (f"{space}}}", ""),
        ]


@st.composite
def programs(draw: Any) -> tuple[str, str]:
    """A kernel and the same in Python."""
    writer = Writer(draw)
    writer.variables.append("i0")
    body = writer.statements(2, 2)
    kernel = "\n".join(line for line, _ in body)
    python = "\n".join(line for _, line in body if line)
    return (
        "kernel k(input A: tensor<N, i64>, input I: tensor<N, i64>, inout C: tensor<N, i64>,\n"
        "         output last: i64) {\n"
        "    let t = 0;\n"
        f"    for i0 in 0..N {{\n{kernel}\n    }}\n"
        "    last = t;\n}",
        f"def k(A, I, C, N):\n    t = 0\n    for i0 in range(N):\n{python}\n    return t",
    )


def _in_python(text: str, arrays: list[list[int]]) -> tuple[list[int], int] | int:
    """The array and the number that a program leaves, or the index at which it fails."""
    names: dict[str, Any] = {}
    exec(text, names)
    a, i, c = (Elements(list(each)) for each in arrays)
    try:
        last = names["k"](a, i, c, len(arrays[0]))
    except Outside as outside:
        return int(outside.args[0])
    return c.numbers, last


def _wrapped(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


# A failure is told as it is found: smaller programs of its kind take minutes to find.
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(programs(), SIZES, st.integers(0, 1000))
def test_programs_do_what_python_does(texts: tuple[str, str], size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    arrays = [random.integers(-9, 9, size).tolist() for _ in range(3)]
    arrays[1] = random.integers(0, max(size, 1), size).tolist()
    wanted = _in_python(texts[1], arrays)
    given_arrays = [np.asarray(each, np.int64) for each in arrays]
    try:
        kernel = wia.compile(texts[0]).k
        builds = [kernel.build(*given_arrays, debug=debug) for debug in (False, True)]
    except wia.CompileError as error:
        assert isinstance(wanted, int), error
        assert all("lies outside" in str(each) for each in error.diagnostics), error
        return
    for run in (*builds, lambda *arrays: wia.reference(kernel, *arrays)):
        copies = [each.copy() for each in given_arrays]
        try:
            c, last = run(*copies)
        except OutOfRangeError as error:
            assert error.index == (wanted,), (error, wanted)
            continue
        assert not isinstance(wanted, int), wanted
        assert c.tolist() == [_wrapped(each) for each in wanted[0]]
        assert int(last) == _wrapped(wanted[1])

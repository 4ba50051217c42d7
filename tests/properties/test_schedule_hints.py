"""Random hints on random loops: written out, they compute what the plain loops compute."""

from dataclasses import dataclass, field

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from llvm_running import load_module
from wia_compiler.dialects.loop_hints import LoopHints, Prefetch, note_hints
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.passes.scf_rewrites import expand_hints
from xdsl.dialects import func, scf
from xdsl.dialects.builtin import ModuleOp

SIZE = 40
"""Elements of each array: loops stay inside, whatever their bounds."""


@dataclass
class Text:
    """A function being written: one line an op."""

    lines: list[str] = field(default_factory=list[str])
    names: int = 0

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def add(self, text: str) -> str:
        made = self.name()
        self.lines.append(f"{made} = {text}")
        return made

    def index(self, value: int) -> str:
        return self.add(f"arith.constant {value} : index")


@st.composite
def nests(draw: st.DrawFn) -> str:
    """Up to three loops in one another: reads of two arrays, a sum that is carried, stores."""
    text = Text()
    depth = draw(st.integers(1, 3))
    dynamic = draw(st.booleans())
    bounds = [
        (draw(st.integers(0, 3)), draw(st.integers(0, 9)), draw(st.integers(1, 3)))
        for _ in range(depth)
    ]

    def loop(level: int, variables: list[str], carried: str) -> str:
        if level == depth:
            place = variables[0]
            for each in variables[1:]:
                place = text.add(f"arith.addi {place}, {each} : index")
            x = text.add(f"memref.load %a[{place}] : memref<{SIZE}xi32>")
            y = text.add(f"memref.load %b[{variables[-1]}] : memref<{SIZE}xi32>")
            product = text.add(f"arith.muli {x}, {y} : i32")
            if draw(st.booleans()):
                text.lines.append(f"memref.store {product}, %o[{place}] : memref<{SIZE}xi32>")
            return text.add(f"arith.addi {carried}, {product} : i32")
        first, last, step = bounds[level]
        low, by = text.index(first), text.index(step)
        if dynamic and level == depth - 1:
            count = text.add("memref.load %n[] : memref<i64>")
            high = text.add(f"arith.index_cast {count} : i64 to index")
        else:
            high = text.index(last)
        start = text.add("arith.constant 3 : i32") if level else carried
        result, variable, held = text.name(), text.name(), text.name()
        text.lines.append(
            f"{result} = scf.for {variable} = {low} to {high} step {by} "
            f"iter_args({held} = {start}) -> (i32) {{"
        )
        inner = loop(level + 1, [*variables, variable], held)
        text.lines.append(f'scf.yield {inner} : i32 }} {{wia.axis = "l{level}"}}')
        return text.add(f"arith.addi {result}, {carried} : i32") if level else result

    zero = text.add("arith.constant 0 : i32")
    total = loop(0, [], zero)
    text.lines.append(f"memref.store {total}, %s[] : memref<i32>")
    body = "\n".join(text.lines)
    array = f"memref<{SIZE}xi32>"
    return (
        f"func.func @k(%a: {array}, %b: {array}, %n: memref<i64>, %o: {array}, %s: memref<i32>) "
        f"attributes {{wia.host}} {{\n{body}\nfunc.return }}"
    )


@st.composite
def hints(draw: st.DrawFn) -> LoopHints:
    prefetch = (Prefetch("a", 0, draw(st.integers(1, 40)), draw(st.integers(1, 3))),)
    return LoopHints(
        unroll=draw(st.integers(0, 5)),
        accumulators=draw(st.integers(1, 4)),
        pipeline=draw(st.integers(1, 4)),
        prefetch=draw(st.sampled_from([(), prefetch])),
    )


def run(module: ModuleOp, count: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(1)
    a, b = (random.integers(-(2**31), 2**31, SIZE).astype(np.int32) for _ in range(2))
    o, s = np.zeros(SIZE, np.int32), np.zeros((), np.int32)
    load_module(module, "k", 5, opt=0)([a, b, np.array(count, np.int64)], [o, s])
    return o, s


def written_out(module: ModuleOp, wanted: list[LoopHints]) -> ModuleOp:
    made = module.clone()
    loops = [op for op in made.walk() if isinstance(op, scf.ForOp)]
    for loop, each in zip(loops, wanted, strict=False):
        note_hints(loop, each)
    for function in made.ops:
        assert isinstance(function, func.FuncOp)
        expand_hints(function)
    made.verify()
    assert print_ir(parse_ir(print_ir(made))) == print_ir(made)
    return made


@settings(max_examples=40, deadline=None)
@given(nests(), st.lists(hints(), min_size=3, max_size=3), st.integers(0, 9))
def test_hints_do_not_change_results(text: str, wanted: list[LoopHints], count: int) -> None:
    """Sums of integers wrap, so that their order does not show: every bit must be the same."""
    module = parse_ir(text)
    for one, other in zip(run(module, count), run(written_out(module, wanted), count), strict=True):
        np.testing.assert_array_equal(one, other)

"""Warps whose lanes part ways, against a scalar model: a stack of immediate post-dominators.

The model runs random structured programs lane by lane on its own small language, knows nothing of
the simulator, and counts what a SIMT stack would: instructions of warps, branches, those that part.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from ptx_texts import element, engine_alone, launch

LANES = 32


@dataclass
class Block:
    """Instructions on ``a`` and ``b`` (text of PTX and Python), then where it goes.

    ``branch`` is (condition on a: multiplier, mask, number of the block taken) or ``None``;
    ``after`` the number of the block that follows, ``None`` at the end.
    """

    code: list[tuple[str, int]] = field(default_factory=list)
    branch: tuple[int, int, int] | None = None
    after: int | None = None


class Program:
    """A random program of sequences, choices and loops; every loop ends by its counter."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.blocks: list[Block] = [Block()]
        self.counters = 0
        end = self.sequence(0, 3)
        self.blocks[end].after = None

    def new(self) -> int:
        self.blocks.append(Block())
        return len(self.blocks) - 1

    def work(self, at: int) -> None:
        for _ in range(self.random.randint(1, 3)):
            word = self.random.choice(["add", "xor", "mul"])
            self.blocks[at].code.append((word, self.random.randrange(1, 99) * 2 + 1))

    def condition(self) -> tuple[int, int]:
        return self.random.randrange(1, 64) * 2 + 1, self.random.choice([1, 3, 7, 16])

    def sequence(self, at: int, depth: int) -> int:
        """Write parts from a block on; the block where they end."""
        for _ in range(self.random.randint(1, 3)):
            self.work(at)
            kind = self.random.choice(["work", "choice", "choice", "loop"]) if depth else "work"
            if kind == "choice":
                taken, other, join = self.new(), self.new(), self.new()
                self.blocks[at].branch = (*self.condition(), taken)
                self.blocks[at].after = other
                for side in (taken, other):
                    end = self.sequence(side, depth - 1) if self.random.random() < 0.8 else side
                    self.blocks[end].after = join
                at = join
            elif kind == "loop":
                head, body, out = self.new(), self.new(), self.new()
                self.blocks[at].after = head
                number = self.counters
                self.counters += 1
                self.blocks[at].code.append((f"reset{number}", 0))
                self.blocks[head].code.append((f"count{number}", self.random.randint(1, 5)))
                self.blocks[head].branch = (-number - 1, 0, out)
                self.blocks[head].after = body
                end = self.sequence(body, depth - 1)
                self.blocks[end].after = head
                at = out
        return at

    def successors(self, at: int) -> list[int | None]:
        block = self.blocks[at]
        return [block.branch[2], block.after] if block.branch else [block.after]

    def text(self) -> str:
        """The program as PTX: a in %q10, b in %q11, counters from %q20 on."""
        lines = []
        for number, block in enumerate(self.blocks):
            lines.append(f"B{number}:")
            for word, value in block.code:
                if word.startswith("reset"):
                    lines.append(f"mov.u32 %q{20 + int(word[5:])}, 0;")
                elif word.startswith("count"):
                    counter = f"%q{20 + int(word[5:])}"
                    lines.append(f"add.u32 {counter}, {counter}, 1;")
                    # How often a loop turns depends on the lane.
                    lines.append(f"rem.u32 %q12, %q10, {value};")
                    lines.append(f"setp.gt.u32 %p1, {counter}, %q12;")
                else:
                    name = {"add": "add.u32", "xor": "xor.b32", "mul": "mul.lo.u32"}[word]
                    lines.append(f"{name} %q10, %q10, {value};")
                    lines.append("add.u32 %q11, %q11, %q10;")
            if block.branch:
                factor, mask, target = block.branch
                if factor > 0:
                    lines.append(f"mul.lo.u32 %q12, %q10, {factor};")
                    lines.append(f"and.b32 %q12, %q12, {mask};")
                    lines.append("setp.eq.u32 %p1, %q12, 0;")
                lines.append(f"@%p1 bra B{target};")
            lines.append("bra DONE;" if block.after is None else f"bra B{block.after};")
        return "\n".join([*lines, "DONE:"])

    def post_dominators(self) -> list[int | None]:
        """The block where the ways of each block meet again (``None``: at the end)."""
        count = len(self.blocks)
        end = count
        every = set(range(count + 1))
        sets = [set(every) for _ in range(count)] + [{end}]
        changed = True
        while changed:
            changed = False
            for at in reversed(range(count)):
                after = [end if each is None else each for each in self.successors(at)]
                found = {at} | set.intersection(*(sets[each] for each in after))
                if found != sets[at]:
                    sets[at], changed = found, True
        nearest: list[int | None] = []
        for at in range(count):
            (first,) = (
                each for each in sets[at] - {at}
                if sets[at] - {at} == sets[each] | {each}
            )  # fmt: skip
            nearest.append(None if first == end else first)
        return nearest


@dataclass
class Model:
    """One warp on the stack."""

    program: Program
    a: list[int]
    b: list[int]
    warps: int = 0
    branches: int = 0
    divergent: int = 0

    def run(self) -> None:
        meets = self.program.post_dominators()
        counters = [[0] * self.program.counters for _ in range(LANES)]
        tests = [False] * LANES
        # Of each entry: the next block, where it ends, its lanes.
        stack: list[tuple[int | None, int | None, list[int]]] = [(0, None, list(range(LANES)))]
        while stack:
            at, until, lanes = stack.pop()
            if at == until or not lanes:
                continue
            assert at is not None
            block = self.program.blocks[at]
            for word, value in block.code:
                self.warps += 1 if word.startswith("reset") else 3 if word[0] == "c" else 2
                for lane in lanes:
                    if word.startswith("reset"):
                        counters[lane][int(word[5:])] = 0
                    elif word.startswith("count"):
                        counters[lane][int(word[5:])] += 1
                        tests[lane] = counters[lane][int(word[5:])] > self.a[lane] % value
                    else:
                        old = self.a[lane]
                        made = {"add": old + value, "xor": old ^ value, "mul": old * value}[word]
                        self.a[lane] = made % 2**32
                        self.b[lane] = (self.b[lane] + self.a[lane]) % 2**32
            taken: list[int] = []
            if block.branch:
                factor, mask, target = block.branch
                if factor > 0:
                    self.warps += 3
                    for lane in lanes:
                        tests[lane] = (self.a[lane] * factor) & mask == 0
                self.warps += 1
                self.branches += 1
                taken = [lane for lane in lanes if tests[lane]]
            rest = [lane for lane in lanes if lane not in taken]
            if rest:
                # The jump to what follows is an instruction and a branch of its own.
                self.warps += 1
                self.branches += 1
            if taken and rest:
                self.divergent += 1
                meet = meets[at]
                stack.append((meet, until, lanes))
                stack.append((target, meet, taken))
                stack.append((block.after, meet, rest))
            else:
                stack.append((target if taken else block.after, until, lanes))


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize("seed", range(12))
def test_lanes_meet_again_where_a_stack_would_join_them(seed, engine):
    program = Program(seed)
    warps = 3
    x = np.random.default_rng(seed).integers(0, 2**32, warps * LANES, np.uint32)
    y = np.zeros((warps * LANES, 2), np.uint32)
    head = element("%d2", "%d0", 4) + element("%d3", "%d1", 8)
    head += "ld.global.u32 %q10, [%d2]; mov.u32 %q11, 0;\n"
    tail = "\nst.global.v2.u32 [%d3], {%q10, %q11};"
    declared = ".reg .b32 %q<400>;"

    def count(body: str) -> dict[str, int | float]:
        with engine_alone(engine):
            done = launch(body, x, y, block=warps * LANES, engine=engine)
        return dict(done.counters)

    around = count("{\n" + declared + "\n" + head + tail + "\n}")
    found = count("{\n" + declared + "\n" + head + program.text() + tail + "\n}")
    models = []
    for warp in range(warps):
        lanes = slice(warp * LANES, (warp + 1) * LANES)
        model = Model(program, [int(each) for each in x[lanes]], [0] * LANES)
        model.run()
        np.testing.assert_array_equal(y[lanes, 0], np.array(model.a, np.uint32))
        np.testing.assert_array_equal(y[lanes, 1], np.array(model.b, np.uint32))
        models.append(model)
    assert found["ptx_branches_divergent"] == sum(each.divergent for each in models)
    assert found["ptx_branches"] == sum(each.branches for each in models)
    inside = found["ptx_inst_executed"] - around["ptx_inst_executed"]
    assert inside == sum(each.warps for each in models)

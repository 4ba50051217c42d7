"""Fuses small kernels for tests, and checks what holds of every fusion."""

import unittest.mock
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from bare_target import BARE_FACTS
from building import context, kernel, specs
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.text import parse_ir, print_ir
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp
from wia_compiler.passes import pipeline
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing import build
from wia_compiler.passes.fusion import Fusion
from wia_compiler.passes.infer_shapes import InferShapes
from wia_compiler.passes.pipeline import high_passes, mid_passes
from wia_compiler.reference.interpret import run_module
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

NUMBERS = {
    "saved_launches",
    "registers",
    "register_capacity",
    "other_users",
    "other_user_names",
    "saved_bytes",
    "benefit",
    "cost",
    "ratio",
    "threshold",
}


def fuse(
    body: Callable[..., SSAValue | list[SSAValue]], facts: TargetFacts = BARE_FACTS, **inputs: str
) -> tuple[ModuleOp, list[Decision]]:
    """Fuse a kernel; its result must not change, and its text must read back."""
    module = kernel(list(inputs), body)
    InferShapes(specs(**inputs)).run(module, context())
    random = np.random.default_rng(3)
    arrays = [
        random.normal(size=each.spec.shape).astype(each.spec.dtype.numpy)
        for each in specs(**inputs)
    ]
    before = run_module(module, "k", arrays)
    made = context(facts=facts)
    edges = edges_of(module)
    Fusion().run(module, made)
    module.verify()
    for found, expected in zip(run_module(module, "k", arrays), before, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert print_ir(parse_ir(print_ir(module))) == print_ir(module)
    check_nests(module, facts)
    vertical = [decision for decision in made.decisions if decision.kind == "vertical"]
    assert [decision.candidate for decision in vertical] == edges
    for decision in vertical:
        assert set(decision.numbers) >= NUMBERS
        assert decision.taken != ("would_fuse_if" in decision.numbers)
    return module, made.decisions


def edges_of(module: ModuleOp) -> list[str]:
    """Every edge from an op to an op that reads it, once, in order of the text."""
    ops = [op for op in module.walk() if isinstance(op, TensorOp)]
    found: list[str] = []
    for op in ops:
        readers = [user for user in ops if op.result in user.arguments]
        found += [f"{op.declaration.name} → {user.declaration.name}" for user in readers]
    return found


def kernels(module: ModuleOp) -> list[str]:
    """Names of the fused kernels, in order."""
    return [op.kernel_name.data for op in module.walk() if isinstance(op, FusedOp)]


def refusal(decisions: list[Decision], candidate: str) -> Decision:
    (found,) = [each for each in decisions if each.candidate == candidate and not each.taken]
    return found


def check_nests(module: ModuleOp, facts: TargetFacts) -> None:
    """Every kernel has to be what the mid level can make nests of, and one nest where it can."""
    copy, made = module.clone(), context(facts=facts)
    for step in (*high_passes(())[-1:], *mid_passes(())):
        step.run(copy, made)
    copy.verify()
    refused = [each.reason for each in made.decisions if each.kind == "nest" and not each.taken]
    assert refused == []


def of_kind(decisions: list[Decision], kind: str) -> list[Decision]:
    """The decisions of one kind, in order."""
    return [decision for decision in decisions if decision.kind == kind]


@dataclass(frozen=True)
class Apart:
    """A pass in the place of fusion that leaves each op a kernel of its own."""

    name: ClassVar[str] = "fusion"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Put ops that read a constant into kernels that hold it, as fusion does."""
        names: set[str] = set()
        for op in list(module.walk()):
            reads = op.arguments if isinstance(op, TensorOp) else ()
            if isinstance(op, TensorOp) and any(isinstance(v.owner, ConstantOp) for v in reads):
                build.fuse([op], [op], names)


@contextmanager
def without_fusion() -> Iterator[None]:
    """Programs that are compiled meanwhile have a kernel for each op."""
    with unittest.mock.patch.object(pipeline, "Fusion", Apart):
        yield

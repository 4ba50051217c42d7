"""``verify=True``: agreement is recorded, the first pass that changes the answer is named."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import wia_compiler as wia
from bare_target import BareTarget
from building import specs
from wia_compiler.base.errors import TargetError, VerificationError
from wia_compiler.base.record import Level
from wia_compiler.base.source import Source
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.wia.ops import TensorOp, make_op
from wia_compiler.frontend.dsl import parse
from wia_compiler.frontend.import_dsl import import_program
from wia_compiler.passes import pipeline
from wia_compiler.passes.cse import Cse
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.options import CompileOptions
from wia_compiler.passes.pipeline import Compiled, compile_kernel
from wia_compiler.passes.target import Artifact
from wia_compiler.reference.comparison import first_difference
from wia_compiler.reference.random_arrays import random_array, with_strides
from xdsl.dialects.arith import AddfOp, SubfOp
from xdsl.dialects.builtin import ModuleOp
from xdsl.rewriter import Rewriter

TEXT = """kernel k(input A: tensor, input B: tensor, output C: tensor, output D: tensor) {
    C = relu(A) + B;
    D = A;
    while (reduce_max(abs(D)) > 1.0) { D = D * 0.5; }
}"""


@dataclass(frozen=True)
class Codeless(BareTarget):
    """A target whose code this machine cannot run."""

    def load(self, artifact: Artifact):
        """Say so."""
        raise TargetError("no such machine")


def build(target=None, *, verify: bool = True, inputs=None, A="4x5xf32") -> Compiled:
    """The kernel for a target, verified on ``inputs``."""
    imported = import_program(parse(Source(TEXT)))
    options = CompileOptions(verify=verify, inputs=inputs)
    return compile_kernel(
        imported, "k", specs(A=A, B="5xf32"), target or Codeless(), options=options
    )


def verified(made: Compiled) -> dict[str, str]:
    """What each stage says of its results."""
    return {d.candidate: d.reason for d in made.trace.decisions if d.kind == "verify"}


def test_every_stage_after_types_are_known_is_run() -> None:
    found = verified(build())
    high = ["canonicalize", "fold-constants", "cse", "dce", "fusion", "decompose"]
    assert list(found) == [*high, "loops"]
    assert all("bit for bit" in found[name] for name in high)


def test_nothing_is_run_unless_it_is_asked_for() -> None:
    assert verified(build(verify=False)) == {}


@dataclass(frozen=True)
class WrongCse(Cse):
    """CSE that takes an addition for a subtraction."""

    name: ClassVar[str] = "cse"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Break one op."""
        for op in list(module.walk()):
            if isinstance(op, TensorOp) and op.declaration.name == "add":
                Rewriter.replace_op(op, make_op("sub", list(op.arguments)))


def test_a_wrong_high_pass_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    right = pipeline.high_passes

    def wrong(*arguments):
        return tuple(WrongCse() if isinstance(s, Cse) else s for s in right(*arguments))

    monkeypatch.setattr(pipeline, "high_passes", wrong)
    A = np.zeros((4, 5), np.float32)
    B = np.array([0, 0, 3, 0, 0], np.float32)
    with pytest.raises(VerificationError) as caught:
        build(inputs=[A, B])
    assert caught.value.stage == "cse"
    message = str(caught.value)
    assert "k: stage 'cse' gives C[0, 2] = -3.0, it is 3.0 as written" in message
    assert "stage 'fold-constants' was still right" in message


@dataclass(frozen=True)
class WrongSchedule:
    """A schedule after which leaves subtract."""

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Break every leaf that adds."""
        for op in list(module.walk()):
            if isinstance(op, AddfOp) and isinstance(op.parent_op(), ComputeOp):
                Rewriter.replace_op(op, SubfOp(op.lhs, op.rhs))


def test_a_wrong_mid_pass_is_named() -> None:
    with pytest.raises(VerificationError, match="stage 'loops' was still right") as caught:
        build(BareTarget(own_passes=(WrongSchedule(),)))
    assert caught.value.stage == "schedule"


@dataclass(frozen=True)
class Unwritten:
    """A schedule that forgets to write."""

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Drop every nest's leaves."""
        for op in list(module.walk()):
            if isinstance(op, ComputeOp) and not op.folds:
                op.detach()
                op.erase()


def test_what_cannot_run_is_named_too() -> None:
    with pytest.raises(VerificationError, match="stage 'schedule' does not run: "):
        build(BareTarget(own_passes=(Unwritten(),)))


def test_machine_code_is_run() -> None:
    kernel = wia.compile(TEXT)["k"]
    made = kernel.build(wia.spec((4, 5), "f32"), wia.spec((5,), "f32"), verify=True)
    (last,) = [d for d in made.stages[-1].decisions if d.kind == "verify"]
    assert (made.stages[-1].name, last.candidate) == ("x86", "x86")


def test_a_call_is_verified_on_its_own_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """``inf`` and NaN are in nobody's random numbers."""
    seen: list[np.ndarray] = []
    from wia_compiler.passes import stage_check

    right = stage_check.inputs_for

    def look(arguments, given):
        seen.extend(made := right(arguments, given))
        return made

    monkeypatch.setattr(stage_check, "inputs_for", look)
    kernel = wia.compile("kernel k(input A: tensor, output C: tensor) { C = A * 2; }")["k"]
    A = np.array([[np.inf, np.nan, 3.0]], np.float64).T
    kernel.to(verify=True)(A)
    np.testing.assert_array_equal(seen[0], A)


@pytest.mark.parametrize("strides", [None, (6, 1), (1, 4), (-3, 1), (0, 1), (8, -2)])
def test_arrays_lie_in_memory_as_their_specs_say(strides) -> None:
    array = random_array((4, 3), wia.spec((4, 3), "f32").dtype, np.random.default_rng(1))
    made = with_strides(array, strides)
    steps = (3, 1) if strides is None else strides
    assert made.strides == tuple(4 * step for step in steps)
    kept = array[:1] if strides == (0, 1) else array
    np.testing.assert_array_equal(made, np.broadcast_to(kept, array.shape))


def test_scalars_and_arrays_without_elements() -> None:
    assert with_strides(np.array(3, np.int64), None).shape == ()
    assert with_strides(np.zeros((0, 3)), (5, 1)).shape == (0, 3)


def test_the_first_difference() -> None:
    wanted = np.array([[1.0, np.nan, np.inf], [2.0, 3.0, -np.inf]])
    result = wanted.copy()
    assert first_difference(result, wanted, 0.0) is None
    result[1, 1] = 3.5
    assert first_difference(result, wanted, 0.1) == (1, 1)
    assert first_difference(result, wanted, 0.6) is None
    result[0, 1] = 0.0
    assert first_difference(result, wanted, 9.0) == (0, 1)

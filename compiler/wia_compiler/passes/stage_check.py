"""``verify=True``: every stage that can be interpreted, run beside the kernel as written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.errors import TargetError, VerificationError
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.target import ArraySpec, Artifact, Target
from wia_compiler.reference.comparison import (
    BASE_ROUNDINGS,
    EPSILON,
    Comparison,
    compare,
    first_difference,
    largest_magnitude,
)
from wia_compiler.reference.interpret import run_module
from wia_compiler.reference.random_arrays import random_array, with_strides
from wia_compiler.reference.tile import run_tile_module
from wia_compiler.reference.tile_leaf import TileError

Array = NDArray[Any]


def inputs_for(arguments: Sequence[ArraySpec], given: Sequence[Any] | None) -> list[Array]:
    """An array for each argument, in memory as the argument says.

    Those that are not ``given`` are random, the same each time.
    """
    generator = np.random.default_rng(0)
    found: list[Array] = []
    for number, argument in enumerate(arguments):
        value = None if given is None else given[number]
        if value is None:
            value = random_array(argument.spec.shape, argument.spec.dtype, generator)
        found.append(with_strides(np.asarray(value), argument.strides))
    return found


@dataclass
class StageCheck:
    """The results of a kernel as written, against which the results of later stages are held.

    ``module`` is the kernel right after its types are known: each op is run by its definition.
    Integers and bools must stay equal; floats may differ by the roundings that the numerics
    contract leaves open: the order of a sum, the steps of a composite op.
    """

    kernel: str
    inputs: Sequence[Array]
    outputs: Sequence[ArraySpec]
    expected: Sequence[Array] = ()
    roundings: float = BASE_ROUNDINGS
    last_right: str = "infer-shapes"
    _largest_input: float = field(default=0.0, init=False)

    @staticmethod
    def of(
        module: ModuleOp,
        kernel: str,
        inputs: Sequence[Array],
        outputs: Sequence[ArraySpec],
        sums: int = 0,
    ) -> StageCheck:
        """Run the kernel as written.

        ``sums`` are operations of loops over elements whose order a schedule may change.
        """
        operations = sums

        def count(op: Operation) -> None:
            nonlocal operations
            operations += op.flops if isinstance(op, TensorOp) else 0

        expected = run_module(module, kernel, inputs, watch=count)
        elements = sum(array.size for array in expected)
        roundings = BASE_ROUNDINGS + float(np.sqrt(operations / max(1, elements)))
        check = StageCheck(kernel, inputs, outputs, expected, roundings)
        check._largest_input = max((largest_magnitude(array) for array in inputs), default=0.0)
        return check

    def after(self, stage: str, level: Level, module: ModuleOp) -> list[Decision]:
        """Run a stage's IR; one decision that it agrees, none where the level cannot be run.

        Raises ``VerificationError`` where it does not: the stage's pass changed the answer.
        """
        if level == "high":
            return [self._agree(stage, run_module(module, self.kernel, self.inputs))]
        if level != "mid":
            return []
        results = self._empty_outputs()
        try:
            run_tile_module(module, self.inputs, results)
        except TileError as fault:
            raise VerificationError(stage, self._message(stage, f"does not run: {fault}")) from None
        return [self._agree(stage, results)]

    def machine_code(self, artifact: Artifact, target: Target, stage: str) -> list[Decision]:
        """Run what the target made, where this machine can."""
        results = self._empty_outputs()
        try:
            target.load(artifact)(self.inputs, results)
        except TargetError:
            return []
        name: str | None = getattr(target, "multiply_dtype", None)
        operand = EPSILON[DTYPES[name].name] if name is not None else 0.0
        return [self._agree(stage, results, operand)]

    def _empty_outputs(self) -> list[Array]:
        return [np.zeros(each.spec.shape, each.spec.dtype.numpy) for each in self.outputs]

    def _agree(
        self, stage: str, results: Sequence[Array], operand_epsilon: float = 0.0
    ) -> Decision:
        worst: Comparison | None = None
        for output, result, wanted in zip(self.outputs, results, self.expected, strict=True):
            found = compare(
                output.name, result, wanted, self.roundings, operand_epsilon, self._largest_input
            )
            if not found.agrees:
                raise VerificationError(stage, self._difference(stage, found, result, wanted))
            if worst is None or found.largest_difference > worst.largest_difference:
                worst = found
        difference = worst.largest_difference if worst is not None else 0.0
        allowed = worst.allowed if worst is not None else 0.0
        self.last_right = stage
        reason = (
            "the results are those of the kernel as written, bit for bit"
            if not difference
            else f"the results are those of the kernel as written up to {difference:.3g}, "
            f"rounding explains {allowed:.3g}"
        )
        numbers = {"largest_difference": difference, "allowed": allowed}
        return Decision("verify", stage, True, reason, numbers)

    def _difference(self, stage: str, found: Comparison, result: Array, wanted: Array) -> str:
        if result.shape != wanted.shape or result.dtype != wanted.dtype:
            what = (
                f"gives {found.name} as {result.dtype}{list(result.shape)}, "
                f"it is {wanted.dtype}{list(wanted.shape)}"
            )
            return self._message(stage, what)
        index = first_difference(result, wanted, found.allowed) or ()
        place = f"[{', '.join(map(str, index))}]" if index else ""
        what = (
            f"gives {found.name}{place} = {result[index]}, it is {wanted[index]} as written "
            f"(rounding explains {found.allowed:.3g})"
        )
        return self._message(stage, what)

    def _message(self, stage: str, what: str) -> str:
        return (
            f"{self.kernel}: stage {stage!r} {what}\n"
            f"  stage {self.last_right!r} was still right: the fault is in the pass {stage!r}\n"
            "  help: this is a fault of the compiler, not of the kernel; report it with the text "
            "and the arguments"
        )

"""Values of a nest that are known numbers, given those of some (loop variables)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from xdsl.ir import Operation, SSAValue

from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_control import IfOp
from wia_compiler.dialects.types import dtype_of
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    LiteralType,
    TensorOp,
)
from wia_compiler.reference.meaning import evaluate
from wia_compiler.reference.rounding import Array

PlainNumber = bool | int | float


@dataclass
class Evaluator:
    """Computes typed scalars where all that they depend on is known, as the reference does."""

    known: dict[SSAValue, Array] = field(default_factory=dict[SSAValue, Array])
    _unknown: set[SSAValue] = field(default_factory=set[SSAValue])

    def set(self, value: SSAValue, number: PlainNumber) -> None:
        """Let a value be a number of its dtype."""
        self.known[value] = np.asarray(number).astype(dtype_of(value.type).numpy)

    def number(self, value: SSAValue) -> PlainNumber | None:
        """The number that a value is, or ``None``."""
        array = self.array(value)
        return None if array is None else array.item()

    def array(self, value: SSAValue) -> Array | None:
        """The number as an array of rank 0 and of its dtype."""
        if value in self.known:
            return self.known[value]
        if value in self._unknown:
            return None
        found = self._computed(value)
        if found is None:
            self._unknown.add(value)
        else:
            self.known[value] = found
        return found

    def _computed(self, value: SSAValue) -> Array | None:
        match value.owner:
            case ConstantOp() as op if isinstance(op.result.type, LiteralType | AnyTensorType):
                return np.asarray(op.number)
            case ConstantOp() as op:
                return np.asarray(op.number).astype(dtype_of(op.result.type).numpy)
            case DeclareOp() as op:
                return self.array(op.input)
            case TensorOp() as op if op.declaration.family == "elementwise":
                return self._elementwise(op)
            case IfOp() as op:
                return self._branch(op, list(op.outputs).index(value))  # pyright: ignore[reportArgumentType]
            case _:
                return None

    def _elementwise(self, op: TensorOp) -> Array | None:
        operands = [self.array(each) for each in op.arguments]
        known = [each for each in operands if each is not None]
        if len(known) < len(operands) or not op.is_specialized:
            return None
        return evaluate(op.declaration.name, dict(zip(op.given, known, strict=True)), op.values)

    def _branch(self, op: IfOp, position: int) -> Array | None:
        condition = self.number(op.condition)
        if condition is None:
            return None
        first, second = op.yielded()[position]
        return self.array(first if condition else second)


def integer_of(value: SSAValue) -> int | None:
    """The whole number that a value always is, or ``None``."""
    number = Evaluator().number(value)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def enclosing(op: Operation) -> list[tuple[Operation, int]]:
    """The loops and branches around an op inside its nest, outermost first, and in which region
    of each it stands.
    """
    found: list[tuple[Operation, int]] = []
    region = op.parent_region()
    while region is not None and region.parent is not None:
        parent = region.parent
        if isinstance(parent, NestOp):
            break
        found.append((parent, list(parent.regions).index(region)))
        region = parent.parent_region()
    return list(reversed(found))

"""What infer-shapes lends to the typing of a nest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from wia_compiler.base.dtypes import BOOL, DType
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.passes.literal_values import LiteralValues


@dataclass(frozen=True)
class Inference:
    """Types found so far and literals; ``fault`` notes one in ``faults``, ``visit`` treats an op of
    ``wia``, ``set_spec`` gives a value its type.
    """

    specs: dict[SSAValue, TensorSpec]
    literals: LiteralValues
    faults: Sequence[object]
    fault: Callable[[Operation, str, str | None], None]
    visit: Callable[[Operation], None]
    set_spec: Callable[[SSAValue, TensorSpec], None]

    def typed(self, value: SSAValue, dtype: DType, partner: str) -> SSAValue | None:
        """A literal in a dtype; ``None`` after a fault. ``partner`` is what messages call it."""
        typed = self.literals.materialize(value, dtype, partner)
        if typed is not None and typed not in self.specs:
            self.specs[typed] = self.literals.spec(typed)
        return typed

    def fit(self, op: Operation, position: int, dtype: DType, name: str, told: str = "") -> None:
        """Make an operand a scalar of a dtype: a literal becomes it, another must be of it.

        ``told`` begins the message where it is not (``sum is f32 in the loop``).
        """
        value = op.operands[position]
        if value in self.literals:
            typed = self.typed(value, dtype, name)
            if typed is not None:
                op.operands[position] = typed
            return
        spec = self.specs.get(value)
        if spec is None:
            return
        op = narrowest(op, value)
        if spec.rank:
            label = spec.label or "a value"
            hint = f"write {label}[{', '.join('ijklmn'[: spec.rank])}]"
            self.fault(op, f"{label} is {spec}, expected one element of it", hint)
        elif spec.dtype != dtype:
            label = f"{spec.label}: {spec.dtype}" if spec.label else str(spec.dtype)
            hint = "compare it: x != 0" if dtype is BOOL else f"convert it: cast(…, {dtype})"
            self.fault(op, f"{told or f'{name} is {dtype}'}, found {label}", hint)


def narrowest(op: Operation, value: SSAValue) -> Operation:
    """Where to report what is wrong with an operand: at its own text where that is part of the
    op's, else at the op.
    """
    if not isinstance(value.owner, Operation):
        return op
    inner, outer = (next(iter(spans_of(each)), None) for each in (value.owner, op))
    if inner is None or outer is None or outer.cover(inner) != outer:
        return op
    return value.owner

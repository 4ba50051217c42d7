"""Formulas written out: each op they name is appended, one after another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from wia_compiler.dialects.types import TensorSpec, Value, spec_of, type_of
from wia_compiler.dialects.wia.formula import Algebra
from wia_compiler.dialects.wia.ops import ConstantOp, make_op


@dataclass
class Steps(Algebra[SSAValue]):
    """Ops in the making, in order."""

    ops: list[Operation] = field(default_factory=list[Operation])
    constants: dict[tuple[str, TensorSpec], SSAValue] = field(
        default_factory=dict[tuple[str, TensorSpec], SSAValue]
    )

    def op(self, name: str, *operands: SSAValue, **attributes: Value) -> SSAValue:
        """Append an op of the language; its result."""
        return self._append(make_op(name, operands, attributes))

    def named(
        self, name: str, operands: Mapping[str, SSAValue], attributes: Mapping[str, Value]
    ) -> SSAValue:
        """Append an op with operands by parameter name."""
        return self._append(make_op(name, operands, attributes))

    def splat(self, number: bool | int | float, spec: TensorSpec) -> SSAValue:
        """A constant tensor; equal ones are made once."""
        key = (repr(number), spec)
        if key not in self.constants:
            self.constants[key] = self._append(ConstantOp(number, type_of(spec)))
        return self.constants[key]

    def spec(self, value: SSAValue) -> TensorSpec:
        """Shape and dtype of a value."""
        return spec_of(value.type)

    def _append(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

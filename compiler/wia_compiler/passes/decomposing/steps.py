"""A small vocabulary for writing decompositions: ops appended one after another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.types import TensorSpec, Value, spec_of, tensor_type, type_of
from wia_compiler.dialects.wia.ops import ConstantOp, make_op


@dataclass
class Steps:
    """Ops in the making, in order. Values are computed in the dtype of their operands."""

    ops: list[Operation] = field(default_factory=list[Operation])
    constants: dict[tuple[float, str], SSAValue] = field(
        default_factory=dict["tuple[float, str]", SSAValue]
    )

    def op(self, name: str, *operands: SSAValue, **attributes: Value) -> SSAValue:
        """Append an op of the language; its result."""
        return self._append(make_op(name, operands, attributes))

    def named(
        self, name: str, operands: dict[str, SSAValue], attributes: dict[str, Value]
    ) -> SSAValue:
        """Append an op with operands by parameter name."""
        return self._append(make_op(name, operands, attributes))

    def constant(self, number: int | float, like: SSAValue) -> SSAValue:
        """A scalar in the dtype of ``like``."""
        dtype = spec_of(like.type).dtype
        key = (number, dtype.name)
        if key not in self.constants:
            value = float(number) if dtype.is_float else number
            self.constants[key] = self._append(ConstantOp(value, tensor_type((), dtype)))
        return self.constants[key]

    def splat(self, number: float, spec: TensorSpec) -> SSAValue:
        """A constant tensor."""
        return self._append(ConstantOp(number, type_of(spec)))

    def cast(self, value: SSAValue, dtype: DType) -> SSAValue:
        """The value in another dtype; itself where it has that dtype."""
        if spec_of(value.type).dtype == dtype:
            return value
        return self.op("cast", value, dtype=dtype.name)

    def widened(self, value: SSAValue) -> SSAValue:
        """The value in the dtype that folds of it are carried in (f32 for f16 and bf16)."""
        return self.cast(value, DTYPES[spec_of(value.type).dtype.accumulator])

    def total(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """The sum over axes, kept with size 1."""
        return self.op("reduce_sum", value, dim=tuple(axes), keepdim=True)

    def mean(self, value: SSAValue, axes: Sequence[int]) -> SSAValue:
        """The mean over axes, kept with size 1; NaN of no elements."""
        shape = spec_of(value.type).shape
        count = math.prod(shape[axis] for axis in axes)
        return self.op("div", self.total(value, axes), self.constant(count, value))

    def _append(self, op: Operation) -> SSAValue:
        self.ops.append(op)
        return op.results[0]

"""Values made of literals alone, turned into typed ones when they meet a dtype."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from wia_compiler.base.dtypes import BOOL, DType
from wia_compiler.dialects.types import TensorSpec, spec_of, tensor_type
from wia_compiler.dialects.wia.declaration import InferenceError
from wia_compiler.dialects.wia.literals import literal_fault
from wia_compiler.dialects.wia.ops import ConstantOp, LiteralType, TensorOp, make_op

Fault = Callable[[Operation, str, "str | None"], None]


@dataclass
class LiteralValues:
    """The literals of a function and what is computed from nothing else.

    A literal may meet several dtypes (``c = 2.0`` beside an f32 and an f16): each gets a copy.
    """

    fault: Fault
    ops: list[Operation] = field(default_factory=list[Operation])
    typed: dict[tuple[SSAValue, str], SSAValue | None] = field(
        default_factory=dict["tuple[SSAValue, str]", "SSAValue | None"]
    )

    def __post_init__(self) -> None:
        self._values: set[SSAValue] = set()

    def __contains__(self, value: object) -> bool:
        return value in self._values

    def add(self, op: ConstantOp | TensorOp) -> None:
        """Note an op whose operands are literals (``where``'s condition aside)."""
        self.ops.append(op)
        self._values.add(op.result)

    def spec(self, value: SSAValue) -> TensorSpec:
        """Shape and dtype of a value that ``materialize`` made."""
        owner = value.owner
        label = str(owner.number) if isinstance(owner, ConstantOp) else ""
        return spec_of(value.type, value.name_hint or label)

    def materialize(self, value: SSAValue, dtype: DType, partner: str) -> SSAValue | None:
        """A literal value in a dtype; ``None`` after a fault, such as a number it cannot hold.

        ``partner`` is what the message calls that from which the literal takes its dtype.
        """
        if value not in self._values:
            return value
        key = (value, dtype.name)
        if key not in self.typed:
            self.typed[key] = self._make(value, dtype, partner)
        return self.typed[key]

    def _make(self, value: SSAValue, dtype: DType, partner: str) -> SSAValue | None:
        op = value.owner
        number = _number(op)
        if number is not None and isinstance(op, Operation):
            return self._constant(op, number, dtype, partner)
        if not isinstance(op, TensorOp):
            return None
        operands = [self.materialize(each, dtype, partner) for each in op.arguments]
        if any(each is None for each in operands):
            return None
        by_name = {n: v for n, v in zip(op.given, operands, strict=True) if v is not None}
        try:
            made = make_op(op.declaration.name, by_name, op.values, location=op.location)
        except InferenceError as error:
            self.fault(op, error.message, error.hint)
            return None
        result = spec_of(made.result.type)
        if result.dtype != dtype:
            hint = "write the dtype of one side, e.g. cast(1.0, f32)"
            self.fault(op, f"{op.declaration.name} compares literals alone", hint)
            return None
        return _insert_after(op, made, value)

    def _constant(
        self, op: Operation, number: bool | int | float, dtype: DType, partner: str
    ) -> SSAValue | None:
        fault = literal_fault(number, dtype)
        if fault is not None:
            message, hint = fault
            self.fault(op, f"{message} (a literal takes the dtype of {partner})", hint)
            return None
        made = ConstantOp(_stored(number, dtype), tensor_type((), dtype))
        made.location = op.location
        return _insert_after(op, made, op.results[0])

    def erase(self) -> None:
        """Remove the untyped literals, which nothing uses any more."""
        for op in reversed(self.ops):
            op.detach()
            op.erase()


def _number(op: object) -> bool | int | float | None:
    """The number that an op spells: a literal, or a literal with minus signs before it."""
    if isinstance(op, ConstantOp) and isinstance(op.result.type, LiteralType):
        return op.number
    if isinstance(op, TensorOp) and op.declaration.name == "neg":
        number = _number(op.arguments[0].owner)
        return None if number is None or isinstance(number, bool) else -number
    return None


def _stored(number: bool | int | float, dtype: DType) -> bool | int | float:
    if dtype is BOOL:
        return bool(number)
    return float(number) if dtype.is_float else int(number)


def _insert_after(op: Operation, made: ConstantOp | TensorOp, named: SSAValue) -> SSAValue:
    block = op.parent_block()
    if block is None:
        raise ValueError("a literal stands in a block")
    block.insert_op_after(made, op)
    made.result.name_hint = named.name_hint
    return made.result

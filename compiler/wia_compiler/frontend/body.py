"""The block of one kernel while it is being filled, and what its names stand for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.signature import KernelSignature
from wia_compiler.base.source import Span
from wia_compiler.dialects.location import Origin, location
from wia_compiler.dialects.types import Value
from wia_compiler.dialects.wia.declaration import InferenceError
from wia_compiler.dialects.wia.ops import ConstantOp, LiteralType, make_op
from wia_compiler.frontend import syntax
from wia_compiler.frontend.problems import Problems

OpT = TypeVar("OpT", bound=Operation)


class Elements(Protocol):
    """How expressions that name single elements are read (``A[i, j]``)."""

    def takes(self, node: syntax.Expression) -> bool:
        """Whether ``value`` is to be asked for this node."""
        ...

    def value(self, node: syntax.Expression, depth: int) -> SSAValue | None:
        """Its value; ``None`` after faults were reported."""
        ...


@dataclass
class Body:
    """One kernel in the making.

    ``values`` maps each name in sight to its SSA value, or to ``None`` where a fault was reported
    about it already, so that its uses stay silent. ``functions`` holds the kernels imported so
    far (``None``: one with faults). ``tokens`` numbers the ops of the module. ``elements`` reads
    what ``expressions.value_of`` leaves to it, inside loops over elements.
    """

    signature: KernelSignature
    signatures: Mapping[str, KernelSignature]
    functions: Mapping[str, func.FuncOp | None]
    problems: Problems
    tokens: itertools.count[int]
    block: Block = field(default_factory=Block)
    values: dict[str, SSAValue | None] = field(default_factory=dict[str, SSAValue | None])
    elements: Elements | None = None

    def add(self, op: OpT, span: Span | None) -> OpT:
        """Append an op that the text of ``span`` stands for."""
        op.location = location(Origin(next(self.tokens), span))
        self.block.add_op(op)
        return op

    def add_op(
        self,
        name: str,
        operands: Mapping[str, SSAValue] | Sequence[SSAValue],
        span: Span,
        attributes: Mapping[str, Value] | None = None,
    ) -> SSAValue | None:
        """The result of an op; what its rule refuses already here (scalars) is reported."""
        try:
            op = make_op(name, operands, attributes)
        except InferenceError as error:
            self.report(error.message, span, error.hint)
            return None
        return self.add(op, span).result

    def report(self, message: str, span: Span, hint: str | None = None) -> None:
        """Note a fault of the kernel."""
        self.problems.report(message, span, hint)

    @property
    def literals(self) -> dict[str, bool | int | float]:
        """The names whose value is a number of the text."""
        found = {name: literal_of(value) for name, value in self.values.items()}
        return {name: value for name, value in found.items() if value is not None}


def literal_of(value: SSAValue | None) -> bool | int | float | None:
    """The number of the text that a value is, or ``None`` for a computed one."""
    if value is None or not isinstance(value.type, LiteralType):
        return None
    return value.owner.number if isinstance(value.owner, ConstantOp) else None

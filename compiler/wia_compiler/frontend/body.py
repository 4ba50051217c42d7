"""One function while it is being filled: its blocks, and what its names stand for."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.signature import KernelSignature
from wia_compiler.base.source import Span
from wia_compiler.dialects.location import Origin, location
from wia_compiler.dialects.types import Value
from wia_compiler.dialects.wia.declaration import InferenceError
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    LiteralType,
    TensorOp,
    make_op,
)
from wia_compiler.frontend import syntax
from wia_compiler.frontend.bound_names import BoundNames
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


class Exit(NamedTuple):
    """A place where the function returns: the end of a block and what it gives there."""

    block: Block
    results: tuple[SSAValue, ...]
    span: Span


@dataclass
class Body:
    """One function in the making.

    ``blocks`` are its blocks in order, ``block`` is the one that ops go to. ``values`` maps each
    name in sight to its SSA value, or to ``None`` where a fault was reported about it already, so
    that its uses stay silent; ``unset`` says of names that have a value only on some ways to this
    place where that is. ``loops`` are the variables of the loops around this place and ``made`` the
    names that the block of statements at hand made, each with its line. ``functions`` holds the
    functions imported so far (``None``: one with faults). ``tokens`` numbers the ops of the module.
    ``elements`` reads what ``expressions.value_of`` leaves to it, inside loops over elements.
    ``in_notation`` is true in a func, whose values are written ``%x``, ``in_rewrite`` in the
    rewrite of a pattern.
    """

    signature: KernelSignature
    signatures: Mapping[str, KernelSignature]
    functions: Mapping[str, func.FuncOp | None]
    problems: Problems
    tokens: itertools.count[int]
    bound: BoundNames = field(default_factory=BoundNames)
    block: Block = field(default_factory=Block)
    blocks: list[Block] = field(default_factory=list[Block])
    values: dict[str, SSAValue | None] = field(default_factory=dict[str, SSAValue | None])
    unset: dict[str, str] = field(default_factory=dict[str, str])
    exits: list[Exit] = field(default_factory=list[Exit])
    loops: dict[str, int] = field(default_factory=dict[str, int])
    made: dict[str, int] = field(default_factory=dict[str, int])
    elements: Elements | None = None
    in_notation: bool = False
    in_rewrite: bool = False

    def __post_init__(self) -> None:
        if not self.blocks:
            self.blocks.append(self.block)

    def start_block(self, label: str, names: Sequence[str] = ()) -> Block:
        """A new block that takes a value for each name; ops go there from now on."""
        block = Block(arg_types=[AnyTensorType()] * len(names))
        if Block.is_valid_name(label):
            block.name_hint = label
        for argument, name in zip(block.args, names, strict=True):
            give_name(argument, name)
        self.blocks.append(block)
        self.block = block
        return block

    def add(self, op: OpT, span: Span | None) -> OpT:
        """Append an op that the text of ``span`` stands for."""
        op.location = location(Origin(next(self.tokens), span))
        self.block.add_op(op)
        return op

    def add_to(self, block: Block, op: OpT, span: Span | None) -> OpT:
        """Append an op to another block than the current one."""
        op.location = location(Origin(next(self.tokens), span))
        block.add_op(op)
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
        """Note a fault of the function."""
        self.problems.report(message, span, hint)

    def is_parameter(self, name: str) -> bool:
        """Whether the text declares a parameter of that name."""
        return any(name == p.name and p.role != "bound" for p in self.signature.parameters)

    def has_size(self, name: str) -> bool:
        """Whether a type of the parameters names a size so."""
        return any(name in (p.type.dims or ()) for p in self.signature.parameters)

    def bound_array(self, name: str) -> SSAValue:
        """The argument that a bound array comes in as; made at its first use."""
        if name not in self.bound.arrays:
            entry = self.blocks[0]
            argument = entry.insert_arg(AnyTensorType(), len(entry.args))
            argument.name_hint = name
            self.bound.arrays[name] = argument
        return self.bound.arrays[name]

    @property
    def literals(self) -> dict[str, bool | int | float]:
        """The names whose value is a number of the text."""
        found = {name: literal_of(value) for name, value in self.values.items()}
        return {name: value for name, value in found.items() if value is not None}


def give_name(value: SSAValue, name: str) -> None:
    """Let a value without a name be called so in IR; ``%0`` stays without: IR numbers by itself."""
    if value.name_hint is None and SSAValue.is_valid_name(name):
        value.name_hint = name


def is_made_of_literals(value: SSAValue) -> bool:
    """Whether a value is computed from numbers of the text alone, so that its dtype is open."""
    pending, seen = [value], set[SSAValue]()
    while pending:
        each = pending.pop()
        if each in seen:
            continue
        seen.add(each)
        owner = each.owner
        if isinstance(owner, TensorOp) and owner.declaration.name != "cast":
            pending += owner.operands
        elif not isinstance(each.type, LiteralType):
            return False
    return True


def literal_of(value: SSAValue | None) -> bool | int | float | None:
    """The number of the text that a value is, or ``None`` for a computed one."""
    if value is None or not isinstance(value.type, LiteralType):
        return None
    return value.owner.number if isinstance(value.owner, ConstantOp) else None

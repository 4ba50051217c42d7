"""Which shape and dtype each argument of a block has, found before ops are given theirs.

An argument takes the type that comes over an edge; a loop needs more than one look, since what
comes back depends on the argument itself. A number of the text (``s = 0.0``) takes dtype and shape
of what else reaches the argument (``s = s + x``), else the dtype of what the name first meets; what
meets nothing but numbers is i64 where these are integers and bool where they are ``true``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from wia_compiler.base.dtypes import BOOL, DTYPES, I64, DType
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.bound import BoundOp
from wia_compiler.dialects.wia.declaration import InferenceError
from wia_compiler.dialects.wia.literals import literal_dtype
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    LiteralType,
    TensorOp,
)
from wia_compiler.passes.control_flow import edge_values, edges_into, reachable_blocks


@dataclass(frozen=True)
class Open:
    """A value made of numbers of the text alone, which has no dtype yet."""

    kind: Literal["bool", "int", "float"]


Known: TypeAlias = "TensorSpec | Open"
OtherTypes: TypeAlias = "Callable[[Operation, list[Known | None]], list[TensorSpec | None]]"
"""The types of the results of an op that is not of ``wia``, from those of its operands."""

_DEFAULTS: Mapping[str, DType] = {"int": I64, "bool": BOOL}


@dataclass
class BlockTypes:
    """The types of one function's values as far as they are known; nothing is rewritten.

    ``known`` begins with the types of the function's parameters.
    """

    function: FuncOp
    known: dict[SSAValue, Known]
    other_types: OtherTypes
    chosen: dict[SSAValue, TensorSpec] = field(default_factory=dict[SSAValue, TensorSpec])

    def __post_init__(self) -> None:
        self._blocks = reachable_blocks(self.function.body)
        self._edges = edges_into(self.function.body)
        self._parameters = dict(self.known)
        ops = (op for block in self._blocks for op in block.ops)
        self._places = {op: number for number, op in enumerate(ops)}

    def solve(self) -> Mapping[SSAValue, TensorSpec]:
        """The types of the blocks' arguments; one that nothing determines is left out."""
        if len(self._blocks) == 1:
            return {}
        arguments = [argument for block in self._blocks[1:] for argument in block.args]
        while True:
            self._settle()
            open_ = [each for each in arguments if isinstance(self.known.get(each), Open)]
            progress = False
            for argument in open_:
                dtype = self._met(argument, set())
                if dtype is not None:
                    self.chosen[argument] = TensorSpec((), dtype)
                    progress = True
                    break
            if not progress:
                return {**self._found(arguments), **self._defaults(open_)}

    def _found(self, arguments: list[BlockArgument]) -> dict[SSAValue, TensorSpec]:
        found = {each: self.known.get(each) for each in arguments}
        return {each: spec for each, spec in found.items() if isinstance(spec, TensorSpec)}

    def _defaults(self, arguments: list[BlockArgument]) -> dict[SSAValue, TensorSpec]:
        found: dict[SSAValue, TensorSpec] = {}
        for argument in arguments:
            kind = self.known[argument]
            assert isinstance(kind, Open)
            if kind.kind in _DEFAULTS:
                found[argument] = TensorSpec((), _DEFAULTS[kind.kind])
        return found

    def _settle(self) -> None:
        """Look at every op until nothing changes; an argument's type only ever becomes narrower."""
        self.known = {**self._parameters, **self.chosen}
        changed = True
        while changed:
            changed = False
            for block in self._blocks:
                for position, argument in enumerate(block.args):
                    if argument not in self._parameters and argument not in self.chosen:
                        changed |= self._join(argument, position)
                for op in block.ops:
                    self._visit(op)

    def _join(self, argument: BlockArgument, position: int) -> bool:
        before = self.known.get(argument)
        if isinstance(before, TensorSpec):
            return False
        joined = before
        for edge in self._edges[argument.block]:
            joined = _joined(joined, self.known.get(edge.values[position]))
        if joined is None or joined == before:
            return False
        self.known[argument] = joined
        return True

    def _visit(self, op: Operation) -> None:
        if len(op.results) == 1:
            known = self._result(op)
            if known is not None:
                self.known[op.results[0]] = known
            return
        for result, spec in zip(op.results, self._others(op), strict=True):
            if spec is not None:
                self.known[result] = spec

    def _result(self, op: Operation) -> Known | None:
        type = op.results[0].type
        match op:
            case ConstantOp() if isinstance(type, LiteralType | AnyTensorType):
                return Open(_kind(op.number))
            case DeclareOp():
                value = self.known.get(op.input)
                dtype = op.declared_dtype
                open_ = isinstance(value, Open) and dtype is not None
                return TensorSpec((), dtype) if open_ and dtype is not None else value
            case BoundOp():
                return TensorSpec((), I64)
            case TensorOp():
                return self._tensor_op(op)
            case _:
                return self._others(op)[0]

    def _others(self, op: Operation) -> list[TensorSpec | None]:
        return self.other_types(op, [self.known.get(value) for value in op.operands])

    def _tensor_op(self, op: TensorOp) -> Known | None:
        if op.is_specialized:
            return op.result_spec
        operands = dict(zip(op.given, (self.known.get(v) for v in op.arguments), strict=True))
        if any(each is None for each in operands.values()):
            return None
        if op.declaration.name == "cast" and isinstance(operands["input"], Open):
            dtype = DTYPES.get(str(op.values["dtype"]))
            return None if dtype is None else TensorSpec((), dtype)
        dtype = self._dtype(op)
        if dtype is None:
            return _of_numbers(op, [each for each in operands.values() if isinstance(each, Open)])
        specs = [
            each if isinstance(each, TensorSpec) else TensorSpec((), dtype)
            for each in operands.values()
        ]
        try:
            return op.declaration.infer(op.declaration.operands(op.given, specs), op.values)
        except InferenceError:
            return None  # said where ops are given their types

    def _dtype(self, op: TensorOp) -> DType | None:
        """What numbers beside the operands of an op become; ``None`` where all are numbers."""
        known = {name: self.known.get(value) for name, value in zip(op.given, op.arguments)}  # noqa: B905
        return literal_dtype(
            op.declaration,
            {n: each.dtype if isinstance(each, TensorSpec) else None for n, each in known.items()},
        )

    def _met(self, value: SSAValue, seen: set[SSAValue]) -> DType | None:
        """The dtype of what a value of numbers first meets, in order of the text."""
        if value in seen:
            return None
        seen.add(value)
        for use in sorted(value.uses, key=lambda use: self._places.get(use.operation, 0)):
            dtype = self._met_in(use.operation, use.index, seen)
            if dtype is not None:
                return dtype
        return None

    def _met_in(self, op: Operation, index: int, seen: set[SSAValue]) -> DType | None:
        match op:
            case DeclareOp():
                return op.declared_dtype or self._met(op.result, seen)
            case TensorOp() if op.given[index : index + 1] == ("condition",):
                return BOOL
            case TensorOp() if isinstance(self.known.get(op.result), Open):
                # A comparison of numbers is a bool whatever their dtype is.
                compares = op.declaration.name in _COMPARING
                return None if compares else self._met(op.result, seen)
            case TensorOp() if self.known.get(op.result) is not None:
                return self._dtype(op) if op.declaration.name != "cast" else None
            case _:
                return self._met_beyond(op, index, seen)

    def _met_beyond(self, op: Operation, index: int, seen: set[SSAValue]) -> DType | None:
        """The dtype of the block argument that a branch's operand becomes."""
        passed = [value for values in edge_values(op) for value in values]
        targets = [argument for block in op.successors for argument in block.args]
        if not passed or not targets:
            return None
        target = targets[index - (len(op.operands) - len(passed))]
        known = self.known.get(target)
        return known.dtype if isinstance(known, TensorSpec) else self._met(target, seen)


def _joined(one: Known | None, other: Known | None) -> Known | None:
    if one is None or isinstance(other, TensorSpec):
        return one if isinstance(one, TensorSpec) else other
    if isinstance(one, Open) and isinstance(other, Open):
        return Open("float" if "float" in (one.kind, other.kind) else one.kind)
    return one


def _of_numbers(op: TensorOp, operands: list[Open]) -> Open:
    if op.declaration.name in _COMPARING:
        return Open("bool")
    kinds = {each.kind for each in operands}
    return Open("float" if "float" in kinds or op.declaration.name == "div" else "int")


_COMPARING = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not")


def _kind(number: bool | int | float) -> Literal["bool", "int", "float"]:
    if isinstance(number, bool):
        return "bool"
    return "int" if isinstance(number, int) else "float"

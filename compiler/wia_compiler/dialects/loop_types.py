"""The dtype of every value of a nest, from those of its operands; nothing is rewritten.

What a loop carries has one dtype from the first iteration to the last. A number of the text that
it starts from (``sum = 0.0``) takes that of what is carried on (``sum + A[i]``). A variable that is
made of numbers alone throughout (``count = 0 … count += 1``) takes the dtype of what it first
meets: an element, an index (i64), the type that the text gives an output. What meets nothing is
i64 where it is a whole number and bool where it is ``true``; floats are left open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.dtypes import BOOL, DTYPES, I64, DType
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import LocalOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import ConditionOp, LoadOp, StoreOp, YieldOp
from wia_compiler.dialects.types import TensorSpec, spec_of
from wia_compiler.dialects.wia.declaration import InferenceError
from wia_compiler.dialects.wia.literals import literal_dtype
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    LiteralType,
    TensorOp,
)


@dataclass(frozen=True)
class OpenNumber:
    """A value made of numbers of the text alone.

    ``roots`` are the loop-carried values that it depends on.
    """

    kind: Literal["bool", "int", "float"]
    roots: frozenset[SSAValue] = frozenset()


Known: TypeAlias = "TensorSpec | OpenNumber"

_DEFAULTS: Mapping[str, DType] = {"int": I64, "bool": BOOL}
COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
"""Ops that give a bool, also of numbers of the text alone."""


@dataclass
class NestTypes:
    """The types of one nest's values in ``known``, once ``solve`` ran.

    ``operands`` are the types of the nest's operands (``None``: unknown). An array whose dtype only
    the nest tells has it in ``elements``.
    """

    nest: NestOp
    operands: Sequence[Known | None]
    known: dict[SSAValue, Known] = field(default_factory=dict[SSAValue, Known])
    elements: dict[SSAValue, DType] = field(default_factory=dict[SSAValue, DType])
    chosen: dict[SSAValue, DType] = field(default_factory=dict[SSAValue, DType])

    def __post_init__(self) -> None:
        self._met: dict[SSAValue, DType] = {}
        self._seen: dict[SSAValue, OpenNumber] = {}

    def solve(self) -> None:
        """Find all types: run over the nest until no carried value can be told better."""
        while True:
            self._pass()
            open_ = [root for root in self._seen if root not in self.chosen]
            met = next((root for root in open_ if root in self._met), None)
            if met is not None:
                self.chosen[met] = self._met[met]
                continue
            defaults = [root for root in open_ if self._seen[root].kind in _DEFAULTS]
            if not defaults:
                return
            self.chosen[defaults[0]] = _DEFAULTS[self._seen[defaults[0]].kind]

    def result(self, index: int) -> Known | None:
        """The type of a scalar result of the nest, counted after the arrays."""
        yielded = self.nest.yielded
        return self.known.get(yielded[index]) if index < len(yielded) else None

    def _pass(self) -> None:
        self.known, self._met, self._seen = {}, {}, {}
        for argument, known in zip(self.nest.body.block.args, self.operands, strict=True):
            if isinstance(known, OpenNumber):
                self._open(argument, known)
            elif known is not None:
                self.known[argument] = known
                self.elements[argument] = known.dtype
        self._block(self.nest.body.block)
        scalars = self.nest.outputs[len(self.nest.written) :]
        for value, result in zip(self.nest.yielded, scalars, strict=True):
            dtype = _declared(result)
            if dtype is not None:
                self._meets(value, dtype)

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case ForOp():
                    self._for(op)
                case WhileOp():
                    self._carried(op.carried, (op.test.block, op.body.block), op.yielded, op)
                    self._meets(op.condition, BOOL)
                case IfOp():
                    self._if(op)
                case LoadOp():
                    self._load(op)
                case StoreOp():
                    self._store(op)
                case LocalOp():
                    self._local(op)
                case YieldOp() | ConditionOp():
                    pass
                case _:
                    known = self._simple(op)
                    if known is not None:
                        self.known[op.results[0]] = known

    def _simple(self, op: Operation) -> Known | None:
        match op:
            case ConstantOp() if isinstance(op.result.type, LiteralType | AnyTensorType):
                return OpenNumber(_kind(op.number))
            case ConstantOp():
                return spec_of(op.result.type)
            case DeclareOp():
                known, dtype = self.known.get(op.input), op.declared_dtype
                if dtype is not None:
                    self._meets(op.input, dtype)
                    return TensorSpec((), dtype) if isinstance(known, OpenNumber) else known
                return known
            case TensorOp():
                return self._tensor_op(op)
            case _:
                return None

    def _tensor_op(self, op: TensorOp) -> Known | None:
        found = {name: self.known.get(v) for name, v in zip(op.given, op.arguments, strict=True)}
        if any(each is None for each in found.values()):
            return None
        if op.declaration.name == "cast":
            dtype = DTYPES.get(str(op.values["dtype"]))
            if isinstance(found["input"], OpenNumber) and dtype is not None:
                self._meets(op.arguments[0], dtype)
            return None if dtype is None else TensorSpec((), dtype)
        dtypes = {
            name: each.dtype if isinstance(each, TensorSpec) else None
            for name, each in found.items()
        }
        dtype = literal_dtype(op.declaration, dtypes)
        if dtype is None:
            return _open_result(op.declaration.name, found)
        for value in op.arguments:
            self._meets(value, dtype)
        specs = [
            each if isinstance(each, TensorSpec) else TensorSpec((), dtype)
            for each in found.values()
        ]
        try:
            return op.declaration.infer(op.declaration.operands(op.given, specs), op.values)
        except InferenceError:
            return None

    def _load(self, op: LoadOp) -> None:
        for index in op.indices:
            self._meets(index, I64)
        dtype = self.elements.get(op.array)
        if dtype is not None:
            self.known[op.result] = TensorSpec((), dtype)

    def _store(self, op: StoreOp) -> None:
        for index in op.indices:
            self._meets(index, I64)
        value = self.known.get(op.value)
        if op.array not in self.elements and isinstance(value, TensorSpec):
            self.elements[op.array] = value.dtype
        if op.array in self.elements:
            self._meets(op.value, self.elements[op.array])

    def _local(self, op: LocalOp) -> None:
        for size in op.sizes:
            self._meets(size, I64)
        self.elements[op.result] = op.element_dtype
        self._meets(op.start, op.element_dtype)

    def _for(self, op: ForOp) -> None:
        for bound in (op.lower, op.upper, op.step):
            self._meets(bound, I64)
        self.known[op.variable] = TensorSpec((), I64)
        self._carried(op.carried, (op.body.block,), op.yielded, op)

    def _carried(
        self,
        starts: Sequence[SSAValue],
        blocks: Sequence[Block],
        yielded: Sequence[SSAValue],
        op: ForOp | WhileOp,
    ) -> None:
        """Run over a loop until what it carries is what it started from."""
        arguments = [block.args[-len(starts) :] if starts else () for block in blocks]
        types = [self.known.get(each) for each in starts]
        while True:
            for position, result in enumerate(op.outputs):
                known = self._rooted(result, types[position])
                for each in (result, *(args[position] for args in arguments)):
                    if known is not None:
                        self.known[each] = known
                if isinstance(known, TensorSpec):
                    self._meets(starts[position], known.dtype)
            for block in blocks:
                self._block(block)
            after = [self.known.get(each) for each in yielded]
            for value, result in zip(yielded, op.outputs, strict=True):
                known = self.known.get(result)
                if isinstance(known, TensorSpec):
                    self._meets(value, known.dtype)
            joined = [_join(a, b) for a, b in zip(types, after, strict=True)]
            if joined == types:
                return
            types = joined

    def _if(self, op: IfOp) -> None:
        self._meets(op.condition, BOOL)
        for region in (op.then, op.otherwise):
            self._block(region.block)
        for result, values in zip(op.outputs, op.yielded(), strict=True):
            first, second = (self.known.get(each) for each in values)
            known = self._rooted(result, _join(first, second))
            if known is not None:
                self.known[result] = known
            if isinstance(known, TensorSpec):
                for each in values:
                    self._meets(each, known.dtype)

    def _rooted(self, result: SSAValue, known: Known | None) -> Known | None:
        """An open result takes the dtype that was chosen for it, else it is a root itself."""
        if not isinstance(known, OpenNumber):
            return known
        if result in self.chosen:
            return TensorSpec((), self.chosen[result])
        rooted = OpenNumber(known.kind, known.roots | {result})
        self._seen[result] = rooted
        return rooted

    def _open(self, argument: SSAValue, known: OpenNumber) -> None:
        rooted = self._rooted(argument, known)
        if rooted is not None:
            self.known[argument] = rooted

    def _meets(self, value: SSAValue, dtype: DType) -> None:
        known = self.known.get(value)
        if isinstance(known, OpenNumber):
            for root in known.roots:
                self._met.setdefault(root, dtype)


def _open_result(name: str, operands: Mapping[str, Known | None]) -> Known:
    """What an op of open numbers gives; a comparison of one that a loop carries is a bool."""
    numbers = [
        each
        for parameter, each in operands.items()
        if isinstance(each, OpenNumber) and parameter != "condition"
    ]
    joined = _joined(numbers)
    if name not in COMPARISONS:
        return joined
    return TensorSpec((), BOOL)


def _kind(number: bool | int | float) -> Literal["bool", "int", "float"]:
    if isinstance(number, bool):
        return "bool"
    return "int" if isinstance(number, int) else "float"


def _joined(numbers: Sequence[OpenNumber]) -> OpenNumber:
    kinds = {each.kind for each in numbers}
    kind = "float" if "float" in kinds else "int" if "int" in kinds else "bool"
    return OpenNumber(kind, frozenset(root for each in numbers for root in each.roots))


def _join(first: Known | None, second: Known | None) -> Known | None:
    """What a value is that comes from two places; of two types the first."""
    if first is None or second is None:
        return first or second
    if isinstance(first, OpenNumber) and isinstance(second, OpenNumber):
        return _joined((first, second))
    return second if isinstance(first, OpenNumber) else first


def _declared(value: SSAValue) -> DType | None:
    """The dtype that the text gives a result of a nest."""
    for use in value.uses:
        if isinstance(use.operation, DeclareOp) and use.operation.declared_dtype is not None:
            return use.operation.declared_dtype
    return None

"""Common subexpressions: computes once what is written twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region

from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp
from wia_compiler.passes.control_flow import immediate_dominators
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import kernel_function
from wia_compiler.passes.rules import COMMUTATIVE

_Key: TypeAlias = "tuple[Any, ...]"
_Pure: TypeAlias = "ConstantOp | TensorOp | ConditionOp"
_Seen: TypeAlias = "dict[_Key, _Pure]"


@dataclass(frozen=True)
class Cse:
    """Removes an op that equals one that was computed before it on every way.

    ``%1 = wia.exp %x``, ``%2 = wia.exp %x`` → ``%1`` for both. Equal are ops of the same name,
    operands, attributes and type; operands of commutative ops may stand in either order. The op
    that stays keeps the places in the text of all.
    """

    name: ClassVar[str] = "cse"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Merge equal ops of the context's kernel."""
        merger = _Merger(context)
        merger.region(kernel_function(module, context.kernel).body, {})
        for first, others in merger.merged.items():
            first.location = merge_locations([first, *others])
        for op in (op for others in merger.merged.values() for op in others):
            op.detach()
            op.erase()


@dataclass
class _Merger:
    context: PassContext
    merged: dict[_Pure, list[_Pure]] = field(default_factory=dict["_Pure", "list[_Pure]"])

    def region(self, region: Region, seen: _Seen) -> None:
        """Merge in a region: a block sees what was computed in the blocks that dominate it."""
        dominators = immediate_dominators(region)
        ends: dict[Block, _Seen] = {}
        for block, closest in dominators.items():
            known = dict(seen if closest is None else ends[closest])
            self._ops(block.ops, known)
            ends[block] = known

    def _ops(self, ops: Iterable[Operation], seen: _Seen) -> None:
        for op in ops:
            if isinstance(op, FusedOp):
                continue
            for region in op.regions:
                # What a loop's body computes is not known after it; a nest sees nothing of outside.
                self.region(region, {} if op.name == "loop.nest" else seen)
            if not isinstance(op, ConstantOp | TensorOp | ConditionOp):
                continue
            first = seen.setdefault(_key(op), op)
            if first is not op:
                self._merge(op, first)

    def _merge(self, op: _Pure, first: _Pure) -> None:
        self.merged.setdefault(first, []).append(op)
        _record(op, first, self.context)
        first.result.name_hint = first.result.name_hint or op.result.name_hint
        op.result.replace_all_uses_with(first.result)


def _key(op: _Pure) -> _Key:
    if isinstance(op, ConstantOp):
        return (op.name, op.value, op.result.type)
    operands = [id(value) for value in op.operands]
    if isinstance(op, TensorOp) and op.declaration.name in COMMUTATIVE:
        operands.sort()
    attributes = tuple(sorted(op.attributes.items()))
    return (op.name, *operands, attributes, op.result.type)


def _record(op: _Pure, first: _Pure, context: PassContext) -> None:
    if not isinstance(op, TensorOp):
        return
    label = op.declaration.name
    reason = f"{label} is written again with the same operands, it is computed once"
    subjects = tuple(filter(None, [context.id_of(first), context.id_of(op)]))
    context.decisions.append(Decision("cse", label, True, reason, {}, subjects))

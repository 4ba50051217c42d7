"""Common subexpressions: computes once what is written twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import kernel_function
from wia_compiler.passes.rules import COMMUTATIVE

_Key: TypeAlias = "tuple[Any, ...]"


@dataclass(frozen=True)
class Cse:
    """Removes an op that equals an earlier one: same name, operands, attributes and type.

    ``%1 = wia.exp %x``, ``%2 = wia.exp %x`` → ``%1`` for both. Operands of commutative ops may
    stand in either order. The op that stays keeps the places in the text of both.
    """

    name: ClassVar[str] = "cse"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Merge equal ops of the context's kernel."""
        seen: dict[_Key, list[ConstantOp | TensorOp]] = {}
        for op in list(kernel_function(module, context.kernel).body.block.ops):
            if not isinstance(op, ConstantOp | TensorOp):
                continue
            equal = seen.setdefault(_key(op), [])
            equal.append(op)
            if len(equal) > 1:
                _record(op, equal[0], context)
                _merge(op, equal[0])
        for first, *others in seen.values():
            if others:
                first.location = merge_locations([first, *others])


def _key(op: ConstantOp | TensorOp) -> _Key:
    if isinstance(op, ConstantOp):
        return (op.name, op.value, op.result.type)
    operands = [id(value) for value in op.arguments]
    if op.declaration.name in COMMUTATIVE:
        operands.sort()
    attributes = tuple(sorted(op.attributes.items()))
    return (op.name, *operands, attributes, op.result.type)


def _merge(op: ConstantOp | TensorOp, first: ConstantOp | TensorOp) -> None:
    first.result.name_hint = first.result.name_hint or op.result.name_hint
    op.result.replace_all_uses_with(first.result)
    op.detach()
    op.erase()


def _record(op: ConstantOp | TensorOp, first: ConstantOp | TensorOp, context: PassContext) -> None:
    if isinstance(op, ConstantOp):
        return
    label = op.declaration.name
    reason = f"{label} is written again with the same operands, it is computed once"
    subjects = tuple(filter(None, [context.id_of(first), context.id_of(op)]))
    context.decisions.append(Decision("cse", label, True, reason, {}, subjects))

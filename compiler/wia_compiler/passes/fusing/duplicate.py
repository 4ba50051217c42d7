"""Cheap ops with consumers in several kernels: each may compute the value for itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusing.costs import Estimate
from wia_compiler.passes.fusing.graph import users_of
from wia_compiler.passes.fusing.group import Group

_ARITHMETIC: Final = ("add", "sub", "mul", "neg", "abs", "min", "max", "relu", "clamp", "cast")
_CHOICE: Final = ("where", "eq", "ne", "lt", "le", "gt", "ge")
_LOGIC: Final = ("logical_and", "logical_or", "logical_not")
CHEAP: Final = frozenset({*_ARITHMETIC, *_CHOICE, *_LOGIC})
"""Elementwise ops that take an instruction or two an element on every target."""


def can_repeat(op: TensorOp) -> bool:
    """Whether an op may be computed more than once: cheap, and rounded the same each time."""
    return op.declaration.name in CHEAP


def repeated_estimate(op: TensorOp, groups: Sequence[Group], facts: TargetFacts) -> Estimate:
    """The numbers for computing ``op`` in each kernel that reads it, and not on its own.

    Saved: writing the value once, reading it in each kernel, one launch. Paid: the operations of
    all kernels but one, and the operands that a kernel does not read anyway, beyond the one time
    they are read now.
    """
    size, copies = op.result_spec.size_bytes, len(groups)
    demands = [group.demand_with(op) for group in groups]
    registers = max(demand.registers(facts) for demand in demands)
    operands = [v for v in dict.fromkeys(op.arguments) if not isinstance(v.owner, ConstantOp)]
    read_again = 0
    for value in operands:
        readers = sum(1 for group in groups if not _reads(group, value))
        read_again += (readers - 1) * spec_of(value.type).size_bytes
    times = sum(group.times_computed(op) for group in groups)
    return Estimate(
        registers,
        facts.register_capacity,
        saved_bytes=size * (1 + copies) - read_again,
        launch_cost_bytes=facts.launch_cost_bytes,
        risked_bytes=size * copies,
        extra_cost=(times - 1) * op.flops * facts.bytes_per_flop,
    )


def repeat(op: TensorOp, groups: Sequence[Group]) -> list[TensorOp]:
    """One op for each kernel: copies for all but the last, which keeps ``op`` itself."""
    block = op.parent_block()
    if block is None:
        raise ValueError("an op that is repeated stands in a block")
    made: list[TensorOp] = []
    for group in groups[:-1]:
        copy = op.clone()
        copy.result.name_hint = op.result.name_hint
        block.insert_op_before(copy, op)
        for user in users_of(op):
            if user in group.members:
                for index, value in enumerate(user.operands):
                    user.operands[index] = copy.result if value is op.result else value
        made.append(copy)
    return [*made, op]


def _reads(group: Group, value: SSAValue) -> bool:
    return any(value in member.arguments for member in group.members)

"""Turns the ops of a group into one ``wia.fused`` op."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp, YieldOp

_NAMED_OPS = 5
"""Ops that a kernel's name spells out; longer ones end in how many more there are."""


def fuse(ops: Sequence[TensorOp], sink: TensorOp, taken_names: set[str]) -> FusedOp:
    """Move ``ops``, in order of the text, into a kernel that stands where the last, ``sink``, did.

    Constants that they use are copied into it.
    """
    inside = {op.result for op in ops}
    read = dict.fromkeys(value for op in ops for value in op.arguments if value not in inside)
    constants = [value.owner for value in read if isinstance(value.owner, ConstantOp)]
    arguments = [value for value in read if not isinstance(value.owner, ConstantOp)]
    fused = FusedOp(kernel_name(ops, taken_names), arguments, [sink.result.type])
    fused.location = merge_locations([*ops, *constants])
    fused.outputs[0].name_hint = sink.result.name_hint
    block = sink.parent_block()
    if block is None:
        raise ValueError("ops that are fused stand in a block")
    block.insert_op_before(fused, sink)
    inner: dict[SSAValue, SSAValue] = dict(zip(arguments, fused.body.block.args, strict=True))
    for constant in constants:
        copy = constant.clone()
        fused.body.block.add_op(copy)
        inner[constant.result] = copy.results[0]
    sink.result.replace_all_uses_with(fused.outputs[0])
    for op in ops:
        op.detach()
        for index, value in enumerate(op.operands):
            op.operands[index] = inner.get(value, value)
        fused.body.block.add_op(op)
    fused.body.block.add_op(YieldOp([sink.result]))
    for constant in constants:
        if constant.result.first_use is None:
            constant.detach()
            constant.erase()
    return fused


def kernel_name(ops: Sequence[TensorOp], taken_names: set[str]) -> str:
    """``fused_conv2d_add_relu``; movement ops are named where there is nothing else."""
    names = [op.declaration.name for op in ops if op.declaration.family != "movement"]
    names = names or [op.declaration.name for op in ops]
    more = len(names) - _NAMED_OPS
    if more > 1:
        names = [*names[:_NAMED_OPS], f"and_{more}_more"]
    base = "_".join(names if len(ops) == 1 else ["fused", *names])
    name, number = base, 2
    while name in taken_names:
        name, number = f"{base}_{number}", number + 1
    taken_names.add(name)
    return name

"""Turns the ops of a group into one ``wia.fused`` op."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp, YieldOp

_NAMED_OPS = 5
"""Ops that a kernel's name spells out; longer ones end in how many more there are."""


def fuse(
    ops: Sequence[TensorOp],
    sinks: Sequence[TensorOp],
    taken_names: set[str],
    *,
    name: str | None = None,
) -> FusedOp:
    """Move ``ops``, in order of the text, into a kernel that stands where the last of them did.

    Its results are those of ``sinks``. Constants that the ops use are copied into it. It is called
    ``name``, or else after its ops; a number is added where that name is taken.
    """
    inside = {op.result for op in ops}
    read = dict.fromkeys(value for op in ops for value in op.arguments if value not in inside)
    constants = [value.owner for value in read if isinstance(value.owner, ConstantOp)]
    arguments = [value for value in read if not isinstance(value.owner, ConstantOp)]
    members, results = set[Operation](ops), [sink.result for sink in sinks]
    title = _free(name, taken_names) if name is not None else kernel_name(ops, taken_names)
    fused = FusedOp(title, arguments, [result.type for result in results])
    fused.location = merge_locations([*ops, *constants])
    block = ops[-1].parent_block()
    if block is None:
        raise ValueError("ops that are fused stand in a block")
    block.insert_op_before(fused, ops[-1])
    inner: dict[SSAValue, SSAValue] = dict(zip(arguments, fused.body.block.args, strict=True))
    for constant in constants:
        copy = constant.clone()
        fused.body.block.add_op(copy)
        inner[constant.result] = copy.results[0]
    for result, output in zip(results, fused.outputs, strict=True):
        output.name_hint = result.name_hint
        result.replace_uses_with_if(output, lambda use: use.operation not in members)
    for op in ops:
        op.detach()
        for index, value in enumerate(op.operands):
            op.operands[index] = inner.get(value, value)
        fused.body.block.add_op(op)
    last = YieldOp(results)
    last.location = merge_locations(sinks)
    fused.body.block.add_op(last)
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
    return _free("_".join(names if len(ops) == 1 else ["fused", *names]), taken_names)


def _free(base: str, taken_names: set[str]) -> str:
    """The name, with a number where it is taken; it is taken from then on."""
    name, number = base, 2
    while name in taken_names:
        name, number = f"{base}_{number}", number + 1
    taken_names.add(name)
    return name

"""The memory of a ``loop.nest`` in the host function, and its call."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from xdsl.dialects import func
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import FusedOp, TensorOp
from wia_compiler.passes.loops.full_write import writes_all
from wia_compiler.passes.nests.loop_nest import LoopNest
from wia_compiler.passes.nests.views import View
from wia_compiler.passes.points.parts import raised_parts

if TYPE_CHECKING:
    from wia_compiler.passes.nests.host import HostLowering


def share_targets(blocks: Iterable[Block], targets: dict[SSAValue, View]) -> None:
    """Let an array that a nest changes be made in the memory that the changed one goes to."""
    for block in blocks:
        for op in reversed(list(block.ops)):
            if not isinstance(op, NestOp):
                continue
            for position, result in zip(op.written, op.outputs, strict=False):
                if result in targets and _is_given_up(op.arguments[position], op):
                    targets.setdefault(op.arguments[position], targets[result])


def _is_given_up(value: SSAValue, nest: NestOp) -> bool:
    """Whether nothing but a nest needs an array, which then need not be kept."""
    owner = value.owner
    if not isinstance(owner, Operation) or owner.parent is not nest.parent:
        return False
    makes_array = isinstance(owner, NestOp | FusedOp) or (
        isinstance(owner, TensorOp) and owner.declaration.family not in ("movement",)
    )
    return makes_array and value.has_one_use()


def lower_loop_nest(host: HostLowering, op: NestOp, name: str) -> None:
    """Add a nest's arrays, what they start from, its function and the call.

    An array that it changes is a copy of the operand, unless nothing else needs that one. What the
    operand holds is not copied (or zeros not written) where the nest writes all of it first.
    """
    written = op.written
    targets: list[View] = []
    for place, result in enumerate(op.outputs):
        target = host.targets.get(result)
        value = op.arguments[written[place]] if place < len(written) else None
        if (
            target is None
            and value in host.arrays
            and value is not None
            and _is_given_up(value, op)
        ):
            target = host.arrays[value]
        targets.append(target if target is not None else host.allocate(result, op.location))
    for place, position in enumerate(written):
        _start(host, op, position, targets[place])
    for position, value in enumerate(op.arguments):
        if position not in written and spec_of(value.type).rank:
            host.array(value)
    nest = LoopNest(
        op,
        host.arrays,
        host.numbers,
        targets,
        host.checks,
        host.context.id_of,
        host.context.options.debug,
    )
    function = nest.function(name)
    host.context.decisions += nest.decisions
    memory = nest.memory()
    parts = [(function, list(range(len(memory))))]
    if not host.context.options.debug:
        parts = raised_parts(function, nest.axis_names, host.context)
    for part, positions in parts:
        callee = host.nests.add(part, [host.context.id_of(op)])
        arguments = [host.cast(memory[position], op.location) for position in positions]
        host.add(func.CallOp(callee, arguments, []), op.location)
    for result, target in zip(op.outputs, targets, strict=True):
        host.arrays[result] = target


def _start(host: HostLowering, op: NestOp, position: int, target: View) -> None:
    """Give an array that a nest changes what it starts from."""
    value = op.arguments[position]
    if not target.num_elements or host.arrays.get(value) == target:
        return
    name = op.body.block.args[position].name_hint or "an array"
    whole = writes_all(op, op.body.block.args[position])
    reason = "every element is written" if whole else "not every element is certain to be written"
    kind = "zeros" if value in host.numbers else "copy"
    subjects = tuple(filter(None, [host.context.id_of(op)]))
    host.context.decisions.append(
        Decision("start", f"{kind} for {name}", not whole, reason, {}, subjects)
    )
    if whole:
        return
    if value in host.numbers:
        host.fill(value, host.numbers[value], target)
    else:
        host.copy(value, host.arrays[value], target, op)

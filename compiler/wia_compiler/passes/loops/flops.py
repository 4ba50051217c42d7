"""How many operations a nest performs: those on data, as often as its loops run."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_control import ForOp, IfOp, WhileOp
from wia_compiler.dialects.loop_elements import LoadOp
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.loops.values import Evaluator

_MOST_ITERATIONS = 4096
"""Iterations of a loop, whose inner loops depend on it, that are counted one by one."""


def nest_flops(nest: NestOp) -> int:
    """Operations of one run of a typed nest; index arithmetic does not count.

    A branch counts as its longer way, a ``while`` as one iteration, a loop whose bounds depend on
    data too, as nothing is known of them when the kernel is compiled.
    """
    return round(_Counter(_data(nest)).block(nest.body.block, Evaluator()))


def _data(nest: NestOp) -> set[SSAValue]:
    """Values that are computed from elements, or from scalars that come from outside."""
    found: set[SSAValue] = set(nest.body.block.args)
    for op in nest.body.walk():
        match op:
            case LoadOp():
                found.add(op.result)
            case ForOp():
                found.update(op.body.block.args[1:], op.outputs)
            case WhileOp():
                found.update(op.test.block.args, op.body.block.args, op.outputs)
            case IfOp():
                found.update(op.outputs)
            case TensorOp() if any(each in found for each in op.arguments):
                found.add(op.result)
            case _:
                pass
    return found


class _Counter:
    def __init__(self, data: set[SSAValue]):
        self.data = data

    def block(self, block: Block, known: Evaluator) -> float:
        """Operations of one run of a block, given the numbers that are known around it."""
        return sum(self._op(op, known) for op in block.ops)

    def _op(self, op: Operation, known: Evaluator) -> float:
        match op:
            case TensorOp():
                return op.flops if op.result in self.data else 0
            case ForOp():
                return self._loop(op, known)
            case IfOp():
                return self._branch(op, known)
            case WhileOp():
                blocks = (op.test.block, op.body.block)
                return sum(self.block(each, Evaluator(dict(known.known))) for each in blocks)
            case _:
                return 0

    def _branch(self, op: IfOp, known: Evaluator) -> float:
        condition = known.number(op.condition)
        ways = [self.block(region.block, known) for region in (op.otherwise, op.then)]
        return max(ways) if condition is None else ways[bool(condition)]

    def _loop(self, op: ForOp, known: Evaluator) -> float:
        lower, upper, step = (known.number(each) for each in (op.lower, op.upper, op.step))
        if not isinstance(lower, int) or not isinstance(upper, int) or not isinstance(step, int):
            return self.block(op.body.block, Evaluator(dict(known.known)))
        places = range(lower, upper, max(step, 1))
        if not places:
            return 0
        if not _depends(op):
            return len(places) * self._iteration(op, places[0], known)
        if len(places) <= _MOST_ITERATIONS:
            return sum(self._iteration(op, each, known) for each in places)
        # Simpson's rule, exact for loops that grow with this one up to its third power.
        ends = self._iteration(op, places[0], known) + self._iteration(op, places[-1], known)
        middle = self._iteration(op, places[len(places) // 2], known)
        return len(places) * (ends + 4 * middle) / 6

    def _iteration(self, op: ForOp, place: int, known: Evaluator) -> float:
        inside = Evaluator(dict(known.known))
        inside.set(op.variable, place)
        return self.block(op.body.block, inside)


def _depends(loop: ForOp) -> bool:
    """Whether what a loop's body does may differ between iterations."""
    pending: list[SSAValue] = [loop.variable]
    seen: set[SSAValue] = set()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.operation
            if isinstance(user, ForOp | IfOp) and use.index < 3:
                return True
            if isinstance(user, TensorOp):
                pending.append(user.result)
    return False

"""What a nest of several passes over a row knows of its values, noted for the code of functions.

A softmax subtracts the largest element of a row from each: no difference is above 0, so ``exp``
needs no test for that, and which zero is the largest of zeros plays no part.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, math
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import UnitAttr
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Operation, SSAValue

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.emit_leaf import fold_op, is_folded_into
from wia_compiler.passes.expand_math.ranges import NEVER_POSITIVE
from wia_compiler.passes.tile_rewrites import leaves_of, scope_of

_NO_SIGNED_ZEROS = FastMathFlagsAttr([FastMathFlag.NO_SIGNED_ZEROS])


def note_row_facts(nest: Operation) -> None:
    """Note what the largest element of a row says of the differences from it.

    ::

        reduce m = max(m, x[j])                  reduce m = max<nsz>(m, x[j])
        reduce s += exp(x[j] - m)          →     reduce s += exp(x[j] - m {wia.never_positive})

    Results stay the same to the last bit: of the zero's sign nothing is left after ``exp``.
    """
    leaves = leaves_of(nest)
    for leaf in leaves:
        if leaf.kind.data == "reduce" and len(leaf.inputs) == 1:
            for output in range(len(leaf.outputs)):
                _note(leaf, output, leaves)


def _note(largest: ComputeOp, output: int, leaves: Sequence[ComputeOp]) -> None:
    buffer, row = largest.outputs[output], largest.inputs[0]
    if not is_folded_into(largest, output) or scope_of(buffer) != "register":
        return
    fold = fold_op(largest, output)
    element = largest.body.block.args[0]
    if not isinstance(fold, arith.MaximumfOp) or element not in fold.operands:
        return
    readers = [leaf for leaf in leaves if buffer in leaf.inputs]
    writers = [leaf for leaf in leaves if buffer in leaf.outputs and leaf.inputs]
    differences = [_differences(leaf, buffer) for leaf in readers]
    if writers != [largest] or not differences or any(each is None for each in differences):
        return
    fold.properties["fastmath"] = _NO_SIGNED_ZEROS
    if any(row in leaf.outputs for leaf in leaves):
        return
    for leaf, found in zip(readers, differences, strict=True):
        for op in found or ():
            number = _input_of(leaf, op.lhs)
            if number is None or leaf.inputs[number] is not row:
                continue
            if _same_rows(largest, leaf, number):
                op.attributes[NEVER_POSITIVE] = UnitAttr()


def _differences(leaf: ComputeOp, buffer: SSAValue) -> list[arith.SubfOp] | None:
    """The subtractions of a buffer's element; ``None`` if it is read for more than ``exp``."""
    found: list[arith.SubfOp] = []
    for number, value in enumerate(leaf.inputs):
        if value is not buffer:
            continue
        for use in leaf.body.block.args[number].uses:
            op = use.operation
            if not isinstance(op, arith.SubfOp) or use.index != 1:
                return None
            if not all(isinstance(each.operation, math.ExpOp) for each in op.result.uses):
                return None
            found.append(op)
    return found


def _input_of(leaf: ComputeOp, value: SSAValue) -> int | None:
    arguments = leaf.body.block.args[: len(leaf.inputs)]
    return next((n for n, each in enumerate(arguments) if each is value), None)


def _same_rows(largest: ComputeOp, leaf: ComputeOp, number: int) -> bool:
    """Whether both leaves walk the same points of the row."""
    return (
        largest.axis_names == leaf.axis_names
        and largest.sizes == leaf.sizes
        and tuple(largest.ivs) == tuple(leaf.ivs)
        and largest.input_maps[0] == leaf.input_maps[number]
        and largest.bounds == leaf.bounds
        and largest.limit_values == leaf.limit_values
    )

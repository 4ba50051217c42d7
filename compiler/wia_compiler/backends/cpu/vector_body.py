"""The body of a leaf on vectors: every scalar a vector, every op lane by lane."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.arith import ConstantOp
from xdsl.ir import SSAValue

from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.emit_leaf import fold_permissions
from wia_compiler.passes.lane_ops import on_lanes


def emit_vector_body(
    leaf: ComputeOp,
    emitter: IndexEmitter,
    arguments: Sequence[SSAValue],
    lanes: int,
    known: dict[object, SSAValue] | None = None,
) -> list[SSAValue]:
    """What a leaf yields for vectors of ``lanes`` points; ``arguments`` are its body's, as vectors.

    Ops keep their locations and names; those that fold get the permissions of the numerics
    contract. ``known`` holds what was computed of the same vectors before, and gets what is new.
    """
    block = leaf.body.block
    values: dict[SSAValue, SSAValue] = dict(zip(block.args, arguments, strict=True))
    flags = fold_permissions(leaf)
    for op in block.ops:
        if isinstance(op, YieldOp):
            return [values[value] for value in op.arguments]
        operands = [values[value] for value in op.operands]
        key = (op, *operands)
        if known is not None and op not in flags and key in known:
            values[op.results[0]] = known[key]
            continue
        made = on_lanes(op, operands, lanes)
        if op in flags:
            made.properties["fastmath"] = flags[op]
        made.location = op.location
        emitter.builder.insert(made)
        for old, new in zip(op.results, made.results, strict=True):
            values[old] = new
            new.name_hint = old.name_hint
            if known is not None:
                known[key] = new
    raise ValueError("a leaf's body ends with tile.yield")


def emit_fixed_ops(
    leaf: ComputeOp, emitter: IndexEmitter, fixed: Mapping[int, SSAValue], lanes: int
) -> dict[object, SSAValue]:
    """What a leaf's body computes of inputs that are the same at every point, as ``known``.

    ``fixed`` has these inputs by their number: a norm's mean and scale, say, of one row.
    """
    arguments = leaf.body.block.args
    values: dict[SSAValue, SSAValue] = {arguments[n]: value for n, value in fixed.items()}
    flags, known = fold_permissions(leaf), dict[object, SSAValue]()
    for op in leaf.body.block.ops:
        if op in flags or len(op.results) != 1 or not op.operands:
            continue
        constants = [each.owner for each in op.operands if isinstance(each.owner, ConstantOp)]
        if len(constants) == len(op.operands) or not all(
            each in values or each.owner in constants for each in op.operands
        ):
            continue
        for constant in constants:
            if constant.result not in values:
                made = on_lanes(constant, [], lanes)
                made.location = constant.location
                values[constant.result] = emitter.builder.insert(made).results[0]
                known[(constant,)] = values[constant.result]
        operands = [values[each] for each in op.operands]
        made = on_lanes(op, operands, lanes)
        made.location = op.location
        new = emitter.builder.insert(made).results[0]
        new.name_hint = op.results[0].name_hint
        values[op.results[0]] = known[(op, *operands)] = new
    return known

"""The body of a leaf on vectors: every scalar a vector, every op lane by lane."""

from __future__ import annotations

from collections.abc import Sequence

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

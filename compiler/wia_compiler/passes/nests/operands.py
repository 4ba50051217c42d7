"""What ops of a group are computed from: operands at their indices, arrays and views of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.dialects.wia.rules import normalize_axis
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.nests.movement import (
    Index,
    broadcast_index,
    kind_of,
    moved_view,
    operand_index,
)
from wia_compiler.passes.nests.plan import Group
from wia_compiler.passes.nests.views import View


def is_within_axes(index: Index, axes: Collection[int]) -> bool:
    """Whether an index moves along no other axes than these."""
    read = (atom for each in index for atom in atoms(each))
    return all(isinstance(atom, AffineDimExpr) and atom.position in axes for atom in read)


def operand_indices(
    op: TensorOp, index: Index, sizes: Sequence[int]
) -> list[tuple[SSAValue, Index]]:
    """Each operand of an elementwise or movement op with the index at which it is read."""
    if op.declaration.family == "movement":
        return [(op.arguments[0], operand_index(op, index, sizes))]
    return [
        (operand, broadcast_index(index, spec_of(operand.type).shape)) for operand in op.arguments
    ]


def listed_place(op: TensorOp, index: Index) -> Index:
    """Where the index of ``index_select`` or ``gather`` is read for the element at ``index``."""
    if kind_of(op) == "gather":
        return index
    axis = normalize_axis(op.values["dim"], spec_of(op.arguments[0].type))
    return (index[axis],) if spec_of(op.arguments[1].type).shape else ()


def views_of(group: Group) -> tuple[Mapping[SSAValue, View], Mapping[SSAValue, View]]:
    """Arrays of the group and what is a view of them: those read by index maps, and all.

    Of moved arrays only reshapes that need no index arithmetic are among the former: permutes and
    broadcasts read better as index maps.
    """
    moved = dict(group.arrays)
    views = dict(group.arrays)
    for op in group.ops:
        if not isinstance(op, TensorOp) or op.declaration.family != "movement":
            continue
        source = moved.get(op.arguments[0]) if op.arguments else None
        target = moved_view(op, source) if source is not None else None
        if target is None:
            continue
        moved[op.result] = target
        if kind_of(op) == "reshape":
            views[op.result] = target
    return views, moved

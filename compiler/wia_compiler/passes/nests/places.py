"""Which operand stands where in ``pad`` and ``concat``: known once an index is within one part.

The result of such an op is made of parts: margins, elements between elements, one operand after
another. At an index that moves within one part the op is a constant or an index map; where an
index moves over several, ``Cut`` says how to divide an axis of the nest so that it does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.dialects.wia.padding import margins_of
from wia_compiler.dialects.wia.rules import normalize_axis
from wia_compiler.passes.affine import floor_divide, linear_form, modulo, range_of, simplify
from wia_compiler.passes.nests.movement import Index
from wia_compiler.passes.nests.refusal import NotOneNest


class Cut(NotOneNest):
    """An axis of a nest that has to be divided.

    ``at`` is where its second part begins; ``step`` instead asks for a part for each remainder of
    a division by it.
    """

    def __init__(self, axis: int, *, at: int = 0, step: int = 1):
        super().__init__("one loop does not walk over several parts of an array")
        self.axis = axis
        self.at = at
        self.step = step


def is_between(index: AffineExpr, low: int, high: int, sizes: Sequence[int]) -> bool:
    """Whether ``low <= index < high``; ``Cut`` where that is so at some points only."""
    extent = range_of(index, [(0, size - 1) for size in sizes])
    if extent is None:
        raise NotOneNest(f"no range is known of the index {index}")
    smallest, largest = extent
    if low <= smallest and largest < high:
        return True
    if largest < low or smallest >= high:
        return False
    axis, factor, constant = _single_axis(index)
    limit = low if smallest < low else high
    distance, step = limit - constant, abs(factor)
    # The first point that is on the other side of the limit than point 0.
    raise Cut(axis, at=-(-distance // step) if factor > 0 else -distance // step + 1)


def padded_place(op: TensorOp, index: Index, sizes: Sequence[int]) -> Index | None:
    """Where ``pad`` reads its operand for the element at ``index``; ``None``: it is the value."""
    operand = spec_of(op.arguments[0].type)
    place: list[AffineExpr] = []
    margins = margins_of(operand, op.values)
    for each, margin, size in zip(index, margins, operand.shape, strict=True):
        stride = margin.between + 1
        shifted = simplify(each - margin.before)
        reach = (size - 1) * stride + 1 if size else 0
        if not is_between(shifted, 0, reach, sizes):
            return None
        rest = modulo(shifted, stride, sizes)
        if linear_form(rest).terms:
            axis, factor, _ = _single_axis(shifted)
            raise Cut(axis, step=stride // math.gcd(factor, stride))
        if linear_form(rest).constant:
            return None
        place.append(floor_divide(shifted, stride, sizes))
    return tuple(place)


def margin_place(op: TensorOp, index: Index) -> Index | None:
    """The index of a ``pad`` by 0 in its operand, inside or outside; ``None`` with an interior."""
    margins = margins_of(spec_of(op.arguments[0].type), op.values)
    if any(margin.between for margin in margins) or op.values["value"] != 0:
        return None
    return tuple(
        simplify(each - margin.before) for each, margin in zip(index, margins, strict=True)
    )


def concatenated_place(op: TensorOp, index: Index, sizes: Sequence[int]) -> tuple[SSAValue, Index]:
    """The operand of ``concat`` that the element at ``index`` comes from, and where it stands."""
    axis = normalize_axis(op.values["dim"], spec_of(op.arguments[0].type))
    first = 0
    for operand in op.arguments:
        size = spec_of(operand.type).shape[axis]
        if is_between(index[axis], first, first + size, sizes):
            own = simplify(index[axis] - first)
            return operand, (*index[:axis], own, *index[axis + 1 :])
        first += size
    raise NotOneNest("a concat is read where it has no element")


def _single_axis(index: AffineExpr) -> tuple[int, int, int]:
    """``(axis, factor, constant)`` of an index that moves along one axis alone."""
    form = linear_form(index)
    if len(form.terms) != 1 or not form.is_linear:
        raise NotOneNest(f"one loop walks over several parts of an array, at the index {index}")
    ((atom, factor),) = form.terms.items()
    assert isinstance(atom, AffineDimExpr)
    return atom.position, factor, form.constant

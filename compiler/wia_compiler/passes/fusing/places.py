"""Where in a kernel's iteration space the elements of a value stand.

A kernel runs over the points of a *domain*. The *place* of a value says which axis of the domain
each of its axes follows; an axis of size 1 follows none. Values that are read in another order of
elements than any axis order (through a reshape that joins or splits axes) are ``SCATTERED``.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.dialects.wia.reduction import normalized_axes
from wia_compiler.dialects.wia.rules import normalize_axes, normalize_axis
from wia_compiler.passes.canonical_functions import axes_order
from wia_compiler.passes.fusing.roles import keeps_shape, role_of

SCATTERED: Final = "scattered"
Axes: TypeAlias = "tuple[int | None, ...]"
Place: TypeAlias = "Axes | str"
Shape: TypeAlias = "tuple[int, ...]"


def whole(shape: Shape) -> Axes:
    """The place of a value that is the domain itself."""
    return tuple(None if size == 1 else axis for axis, size in enumerate(shape))


def folded_axes(op: TensorOp) -> tuple[int, ...]:
    """The axes of its input that a reduction, softmax or norm folds."""
    operand = spec_of(op.arguments[0].type)
    if "normalized_shape" in op.values:
        return normalized_axes(operand, op.values, op.declaration.name)
    if keeps_shape(op):
        return (normalize_axis(op.values["dim"], operand),)
    return normalize_axes(op.values["dim"], operand)


def reduced_place(op: TensorOp) -> Axes:
    """The place of a reduction's result in the domain that its input is."""
    domain = spec_of(op.arguments[0].type).shape
    place = whole(domain)
    if keeps_shape(op):
        return place
    folded = folded_axes(op)
    if op.values["keepdim"]:
        return tuple(None if axis in folded else each for axis, each in enumerate(place))
    return tuple(each for axis, each in enumerate(place) if axis not in folded)


def operand_place(op: TensorOp, place: Place, operand: SSAValue, domain: Shape) -> Place:
    """Where an operand stands, given where the op's result does."""
    shape = spec_of(operand.type).shape
    if role_of(op) == "rows":
        return _aligned(whole(domain), shape)
    if isinstance(place, str):
        return SCATTERED
    match op.declaration.name:
        case "permute" | "transpose":
            order = axes_order(op)
            return tuple(place[order.index(axis)] for axis in range(len(order)))
        case "reshape" | "flatten" | "squeeze" | "unsqueeze":
            return _reshaped(place, op.result_spec.shape, shape)
        case "slice":
            return SCATTERED
        case _:
            return _aligned(place, shape)


def _aligned(place: Axes, shape: Shape) -> Axes:
    """Axes matched from the last; those of size 1 are stretched and follow none."""
    own = place[len(place) - len(shape) :]
    return tuple(None if size == 1 else each for each, size in zip(own, shape, strict=True))


def _reshaped(place: Axes, new: Shape, old: Shape) -> Place:
    """A reshape that only adds or drops axes of size 1 keeps the others in their places."""
    if [size for size in new if size != 1] != [size for size in old if size != 1]:
        return SCATTERED
    long = iter([each for each, size in zip(place, new, strict=True) if size != 1])
    return tuple(None if size == 1 else next(long) for size in old)

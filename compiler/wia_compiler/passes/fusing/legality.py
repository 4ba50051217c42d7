"""Whether a producer may join a kernel, apart from what it costs; the reason where it may not.

A kernel holds elementwise and movement ops, and either reductions that all fold the same axes of
one domain, or one contraction with elementwise ops after it, and before it where it reads each
element once. Nothing is computed twice, but for a single value, which does not change from point to
point and is computed ahead of the loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusing.costs import words_of
from wia_compiler.passes.fusing.graph import users_of
from wia_compiler.passes.fusing.group import Group
from wia_compiler.passes.fusing.places import (
    SCATTERED,
    Place,
    folded_axes,
    reduced_place,
    whole,
)
from wia_compiler.passes.fusing.roles import keeps_shape, role_of


@dataclass(frozen=True)
class Refusal:
    """Why a producer may not join, with numbers of its own.

    ``unless`` is what would have to hold for this reason to fall away. ``later``: it may after
    all, once the kernel it would join folds rows.
    """

    reason: str
    unless: str
    numbers: dict[str, int | str] = field(default_factory=dict[str, "int | str"])
    later: bool = False


def place_in(group: Group, op: TensorOp, facts: TargetFacts) -> Place | Refusal:
    """Where ``op``'s result stands in the kernel of all its users, or why it cannot join."""
    role, name = role_of(op), op.declaration.name
    for each in (op, group.sink):
        if role_of(each) == "alone":
            own = each.declaration.name
            return Refusal(f"{own} has nests of its own", f"{own} could share a nest")
    feeding = [user for user in users_of(op) if group.feeds_contraction(user)]
    if feeding and role != "movement":
        return _feeds_contraction(group, op, facts)
    if feeding and len(feeding) == len([user for user in users_of(op) if user in group.members]):
        return ()
    place = group.demanded(op)
    if place is None:
        return Refusal(
            f"{name} is read in two orders of its elements, it would be computed twice",
            f"all that read {name} took its elements in one order",
        )
    match role:
        case "movement":
            return place
        case "elementwise":
            return _elementwise(group, op, place)
        case "contraction":
            return _contraction(group, op, place)
        case _:
            return _reduction(group, op, place, facts)


def writable(group: Group, op: TensorOp, place: Place, needed_by: str) -> Refusal | None:
    """Why a kernel that ``op`` joins at ``place`` cannot write its result too, if it cannot.

    A nest writes results of its whole domain, and what its reductions or contraction leave.
    """
    role, name = role_of(op), op.declaration.name
    at_home = place == whole(group.domain) and op.result_spec.shape == group.domain
    match group.role:
        case "rows":
            possible = role == "rows" or _follows_rows(group, op)
            possible = possible or (at_home and _is_folded(group, op))
        case "contraction":
            possible = not any(group.feeds_contraction(user) for user in users_of(op))
        case _:
            possible = at_home or role in ("rows", "contraction")
    if role != "movement" and possible:
        return None
    reason = f"{name} is {needed_by} too, which the nest does not write at its points"
    return Refusal(reason, f"{name} were not {needed_by} as well")


def join(group: Group, op: TensorOp, place: Place) -> None:
    """Let ``op`` join at the place that ``place_in`` gave."""
    users = [user for user in users_of(op) if user in group.members]
    before = bool(users) and all(group.feeds_contraction(user) for user in users)
    if role_of(op) == "contraction":
        group.contraction = op
    if role_of(op) == "rows" and group.folded is None and not isinstance(place, str):
        group.fold(op, place)
        place = reduced_place(op)
    group.add(op, place, before=before)


def _follows_rows(group: Group, op: TensorOp) -> bool:
    """Whether an op reads what the kernel's reductions leave, through members or itself."""
    pending, seen = [op], set[TensorOp]()
    while pending:
        for value in pending.pop().arguments:
            maker = value.owner
            if not isinstance(maker, TensorOp) or maker not in group.members or maker in seen:
                continue
            if role_of(maker) == "rows":
                return True
            seen.add(maker)
            pending.append(maker)
    return False


def _is_folded(group: Group, op: TensorOp) -> bool:
    """Whether a reduction of the kernel reads an op's elements, each at its own point."""
    home, pending = whole(group.domain), [op]
    while pending:
        for user in users_of(pending.pop()):
            if user not in group.members:
                continue
            if role_of(user) == "rows":
                return True
            if role_of(user) == "elementwise" and group.members[user] == home:
                pending.append(user)
    return False


def _feeds_contraction(group: Group, op: TensorOp, facts: TargetFacts) -> Place | Refusal:
    """A product of a matrix and a vector reads the matrix once: it may be computed on the way."""
    contraction, name = group.contraction, op.declaration.name
    if contraction is None:
        raise ValueError("only a kernel with a contraction has operands of one")
    target = contraction.declaration.name
    if role_of(op) == "contraction":
        return _two_contractions(op, contraction)
    times = _reads(contraction) // max(op.result_spec.num_elements, 1)
    numbers: dict[str, int | str] = {"times_computed": times}
    if times > 1 and not (facts.widens_operands and target == "matmul" and _widens(op)):
        whole = "the rows" if role_of(op) == "rows" else "each element"
        return Refusal(
            f"{whole} of {name} would be computed {times} times, as often as {target} reads them",
            f"{target} read each element of {name} once, not {times} times",
            numbers,
        )
    if role_of(op) == "elementwise" and target == "matmul" and facts.folds_products:
        return ()
    return Refusal(
        f"{target} reads its operands from memory, not from values computed on the way",
        f"{target} were written as a reduction of products",
        numbers,
    )


def _widens(op: TensorOp) -> bool:
    """Whether an op only makes numbers wider: what it reads moves half the bytes or less."""
    if op.declaration.name != "cast":
        return False
    (narrow,) = (spec_of(value.type).dtype for value in op.arguments)
    wide = op.result_spec.dtype
    return narrow.size_bytes < wide.size_bytes and narrow.is_float == wide.is_float


def _reads(contraction: TensorOp) -> int:
    """Multiply-adds of a contraction: how often it reads an element of either operand, in all."""
    specs = [spec_of(value.type) for value in contraction.arguments]
    per_result = specs[0].shape[-1]
    if contraction.declaration.name == "conv2d":
        per_result = math.prod(specs[1].shape[1:])
    return contraction.result_spec.num_elements * per_result


def _two_contractions(op: TensorOp, contraction: TensorOp) -> Refusal:
    name, other = op.declaration.name, contraction.declaration.name
    return Refusal(
        f"one kernel holds one contraction, here are two: {name} and {other}",
        f"{name} or {other} were no contraction",
    )


def _elementwise(group: Group, op: TensorOp, place: Place) -> Place | Refusal:
    elements = op.result_spec.num_elements
    points = group.points(place)
    if points == elements or not points or elements == 1:
        return place
    if points < elements and place == SCATTERED:
        return place  # a slice: what it leaves out is not computed
    later = group.folded is None and group.contraction is None
    return _computed_again(group, op, points, later=later)


def _computed_again(group: Group, op: TensorOp, points: int, *, later: bool = False) -> Refusal:
    elements, name = op.result_spec.num_elements, op.declaration.name
    times = points // max(elements, 1)
    return Refusal(
        f"{name} has {elements} elements, each would be computed {times} times: the kernel has "
        f"{points} points",
        f"{name} had {points} elements, one for each point of the kernel",
        {"times_computed": times},
        later=later,
    )


def _contraction(group: Group, op: TensorOp, place: Place) -> Place | Refusal:
    name = op.declaration.name
    if group.contraction is not None:
        return _two_contractions(op, group.contraction)
    if group.folded is not None:
        return _contraction_into_rows(group, op)
    if group.covers(place):
        return place
    points = group.points(place)
    if op.result_spec.num_elements != points:
        return _computed_again(group, op, points)
    mover = next(user.declaration.name for user in users_of(op))
    return Refusal(
        f"{mover} takes the result of {name} in another order than {name} computes it",
        f"{mover} kept the order of {name}'s elements",
    )


def _contraction_into_rows(group: Group, op: TensorOp) -> Refusal:
    length = math.prod(group.domain[axis] for axis in group.folded or ())
    registers = length * words_of(op.result)
    folding, name = _folding(group).declaration.name, op.declaration.name
    return Refusal(
        f"{folding} folds rows of {length} elements of {name}'s result: a row "
        f"would have to stay in {registers} registers until it is folded",
        f"{folding} folded rows of 1 element, not {length}",
        {"row_elements": length, "row_registers": registers},
    )


def _folding(group: Group) -> TensorOp:
    return next(op for op in group.members if role_of(op) == "rows")


def _reduction(group: Group, op: TensorOp, place: Place, facts: TargetFacts) -> Place | Refusal:
    name = op.declaration.name
    if group.contraction is not None:
        other = group.contraction.declaration.name
        return Refusal(
            f"one kernel holds either reductions or a contraction, here are {name} and {other}",
            f"{name} folded nothing",
        )
    shape, axes = spec_of(op.arguments[0].type).shape, folded_axes(op)
    if group.folded is not None and (shape, axes) != (group.domain, group.folded):
        other, theirs = _folding(group).declaration.name, axes_text(group.folded, group.domain)
        return Refusal(
            f"one kernel folds one set of axes: {name} folds {axes_text(axes, shape)}, "
            f"{other} {theirs}",
            f"{name} folded {theirs}",
        )
    natural = reduced_place(op)
    if place == natural and shape == group.domain:
        return place if group.folded is not None else _spread(group, op, place, facts)
    if group.folded is None and group.covers(place) and not keeps_shape(op):
        return place
    kept = not keeps_shape(op) and not op.values["keepdim"]
    return Refusal(
        f"the result of {name} is needed at other points than those where a row of it is folded",
        f"{name} kept {axes_text(axes, shape)} (keepdim=true)"
        if kept
        else f"each row of {name} were read at its own points alone",
    )


def _spread(group: Group, op: TensorOp, place: Place, facts: TargetFacts) -> Place | Refusal:
    """A kernel of whole rows is shared out by rows: a few long ones leave processors idle."""
    name, rows, points = op.declaration.name, op.result_spec.num_elements, math.prod(group.domain)
    if not too_few_rows(rows, group, facts) or keeps_shape(op):
        return place
    needed = min(facts.parallel_rows, points)
    return Refusal(
        f"{name} leaves {rows} of {points} elements: the kernel would run on {rows} of "
        f"{facts.parallel_rows} processors",
        f"{name} left {needed} rows or more, not {rows}",
        {"rows": rows, "parallel_rows": facts.parallel_rows},
    )


def too_few_rows(rows: int, group: Group, facts: TargetFacts) -> bool:
    """Whether that many rows of the kernel's domain leave processors of the target idle."""
    return rows < min(facts.parallel_rows, math.prod(group.domain))


def axes_text(axes: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """``axis 1 of 4x8``."""
    listed = ", ".join(str(axis) for axis in axes)
    word = "axis" if len(axes) == 1 else "axes"
    return f"{word} {listed or 'none'} of {'x'.join(str(size) for size in shape) or 'a scalar'}"

"""Whether a producer may join a kernel, apart from what it costs; the reason where it may not.

A kernel holds elementwise and movement ops, and either reductions that all fold the same axes of
one domain, or one contraction with elementwise ops after it. Nothing is computed twice, but for a
single value, which does not change from point to point and is computed ahead of the loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.fusing.costs import words_of
from wia_compiler.passes.fusing.group import Group, users_of
from wia_compiler.passes.fusing.places import Place, folded_axes, reduced_place


@dataclass(frozen=True)
class Refusal:
    """Why a producer may not join, with numbers of its own.

    ``later``: it may after all, once the kernel it would join folds rows.
    """

    reason: str
    numbers: dict[str, int | str] = field(default_factory=dict[str, "int | str"])
    later: bool = False


def place_in(group: Group, op: TensorOp, facts: TargetFacts) -> Place | Refusal:
    """Where ``op``'s result stands in the kernel of all its users, or why it cannot join."""
    family = op.declaration.family
    feeding = [user for user in users_of(op) if group.feeds_contraction(user)]
    if feeding and family != "movement":
        return _feeds_contraction(group, op)
    if len(feeding) == len(users_of(op)):
        return ()
    place = group.demanded(op)
    if place is None:
        name = op.declaration.name
        return Refusal(f"{name} is read in two orders of its elements, it would be computed twice")
    match family:
        case "movement":
            return place
        case "elementwise":
            return _elementwise(group, op, place)
        case "contraction":
            return _contraction(group, op, place)
        case _:
            return _reduction(group, op, place, facts)


def join(group: Group, op: TensorOp, place: Place) -> None:
    """Let ``op`` join at the place that ``place_in`` gave."""
    users = users_of(op)
    before = bool(users) and all(group.feeds_contraction(user) for user in users)
    if op.declaration.family == "contraction":
        group.contraction = op
    if op.declaration.family == "reduction" and group.folded is None and not isinstance(place, str):
        group.fold(op, place)
        place = reduced_place(op)
    group.add(op, place, before=before)


def _feeds_contraction(group: Group, op: TensorOp) -> Refusal:
    contraction, name = group.contraction, op.declaration.name
    if contraction is None:
        raise ValueError("only a kernel with a contraction has operands of one")
    target = contraction.declaration.name
    if op.declaration.family == "contraction":
        return _two_contractions(op, contraction)
    times = _reads(contraction) // max(op.result_spec.num_elements, 1)
    numbers: dict[str, int | str] = {"times_computed": times}
    if times <= 1:
        return Refusal(
            f"{target} reads its operands from memory, not from values computed on the way", numbers
        )
    whole = "the rows" if op.declaration.family == "reduction" else "each element"
    return Refusal(
        f"{whole} of {name} would be computed {times} times, as often as {target} reads them",
        numbers,
    )


def _reads(contraction: TensorOp) -> int:
    """Multiply-adds of a contraction: how often it reads an element of either operand, in all."""
    specs = [spec_of(value.type) for value in contraction.arguments]
    per_result = specs[0].shape[-1]
    if contraction.declaration.name == "conv2d":
        per_result = math.prod(specs[1].shape[1:])
    return contraction.result_spec.num_elements * per_result


def _two_contractions(op: TensorOp, contraction: TensorOp) -> Refusal:
    names = f"{op.declaration.name} and {contraction.declaration.name}"
    return Refusal(f"one kernel holds one contraction, here are two: {names}")


def _elementwise(group: Group, op: TensorOp, place: Place) -> Place | Refusal:
    elements = op.result_spec.num_elements
    points = group.points(place)
    if points == elements or not points or elements == 1:
        return place
    name, times = op.declaration.name, points // max(elements, 1)
    return Refusal(
        f"{name} has {elements} elements, each would be computed {times} times: the kernel has "
        f"{points} points",
        {"times_computed": times},
        later=group.folded is None and group.contraction is None,
    )


def _contraction(group: Group, op: TensorOp, place: Place) -> Place | Refusal:
    name = op.declaration.name
    if group.contraction is not None:
        return _two_contractions(op, group.contraction)
    if group.folded is not None:
        return _contraction_into_rows(group, op)
    if group.covers(place):
        return place
    elements, points = op.result_spec.num_elements, group.points(place)
    if elements != points:
        times = points // max(elements, 1)
        return Refusal(
            f"{name} has {elements} elements, each would be computed {times} times: the kernel "
            f"has {points} points",
            {"times_computed": times},
        )
    mover = next(user.declaration.name for user in users_of(op))
    return Refusal(f"{mover} takes the result of {name} in another order than {name} computes it")


def _contraction_into_rows(group: Group, op: TensorOp) -> Refusal:
    length = math.prod(group.domain[axis] for axis in group.folded or ())
    registers = length * words_of(op.result)
    folding = _folding(group)
    name = op.declaration.name
    return Refusal(
        f"{folding.declaration.name} folds rows of {length} elements of {name}'s result: a row "
        f"would have to stay in {registers} registers until it is folded",
        {"row_elements": length, "row_registers": registers},
    )


def _folding(group: Group) -> TensorOp:
    return next(op for op in group.members if op.declaration.family == "reduction")


def _reduction(group: Group, op: TensorOp, place: Place, facts: TargetFacts) -> Place | Refusal:
    name = op.declaration.name
    if group.contraction is not None:
        return Refusal(
            f"one kernel holds either reductions or a contraction, here are {name} and "
            f"{group.contraction.declaration.name}"
        )
    shape, axes = spec_of(op.arguments[0].type).shape, folded_axes(op)
    if group.folded is not None and (shape, axes) != (group.domain, group.folded):
        other = _folding(group).declaration.name
        return Refusal(
            f"one kernel folds one set of axes: {name} folds {_axes(axes, shape)}, "
            f"{other} {_axes(group.folded, group.domain)}"
        )
    natural = reduced_place(op)
    if place == natural and shape == group.domain:
        return place if group.folded is not None else _spread(group, op, place, facts)
    if group.folded is None and group.covers(place) and "keepdim" in op.values:
        return place
    return Refusal(
        f"the result of {name} is needed at other points than those where a row of it is folded"
    )


def _spread(group: Group, op: TensorOp, place: Place, facts: TargetFacts) -> Place | Refusal:
    """A kernel of whole rows is shared out by rows: a few long ones leave processors idle."""
    name, rows, points = op.declaration.name, op.result_spec.num_elements, math.prod(group.domain)
    if not too_few_rows(rows, group, facts) or "keepdim" not in op.values:
        return place
    return Refusal(
        f"{name} leaves {rows} of {points} elements: the kernel would run on {rows} of "
        f"{facts.parallel_rows} processors",
        {"rows": rows, "parallel_rows": facts.parallel_rows},
    )


def too_few_rows(rows: int, group: Group, facts: TargetFacts) -> bool:
    """Whether that many rows of the kernel's domain leave processors of the target idle."""
    return rows < min(facts.parallel_rows, math.prod(group.domain))


def _axes(axes: tuple[int, ...], shape: tuple[int, ...]) -> str:
    listed = ", ".join(str(axis) for axis in axes)
    word = "axis" if len(axes) == 1 else "axes"
    return f"{word} {listed or 'none'} of {'x'.join(str(size) for size in shape) or 'a scalar'}"

"""Elements added around an array, between its elements, or taken away at its ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.declaration import (
    REQUIRED,
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.dialects.wia.literals import literal_fault
from wia_compiler.dialects.wia.movement import free, whole_numbers
from wia_compiler.dialects.wia.rules import describe


@dataclass(frozen=True)
class Margin:
    """What ``pad`` adds to one axis: elements before, after, and between each two.

    Negative ``before`` and ``after`` take elements away instead.
    """

    before: int
    after: int
    between: int

    def padded(self, size: int) -> int:
        """The size of an axis of ``size`` elements with this margin."""
        return self.before + size + self.between * max(size - 1, 0) + self.after


PAD_MODES = ("constant", "reflect", "replicate", "circular")


def margins_of(spec: TensorSpec, attributes: Attributes) -> tuple[Margin, ...]:
    """The margin of each axis of ``pad``'s operand, in the order of its axes.

    ``pad`` lists pairs from the last axis backwards, as PyTorch does; ``interior`` too, one each.
    """
    ends = whole_numbers(attributes["pad"], "pad")
    if len(ends) % 2 or len(ends) > 2 * spec.rank:
        raise InferenceError(
            f"pad {list(ends)} has {len(ends)} entries, {describe(spec)} has {spec.rank} axes",
            "give a pair (before, after) for each axis, the last axis first",
        )
    interior = attributes["interior"]
    between = whole_numbers(interior, "interior") if isinstance(interior, tuple) else ()
    if isinstance(interior, int):
        between = (interior,) * (len(ends) // 2)
    if len(between) > spec.rank or any(each < 0 for each in between):
        raise InferenceError(
            f"interior {list(between)} does not fit {describe(spec)}",
            "give a count from 0 for each axis, the last axis first",
        )
    befores, afters = _backwards(ends[::2], spec), _backwards(ends[1::2], spec)
    rows = zip(befores, afters, _backwards(between, spec), strict=True)
    return tuple(Margin(*row) for row in rows)


def _backwards(values: Sequence[int], spec: TensorSpec) -> list[int]:
    return [0] * (spec.rank - len(values)) + list(reversed(values))


def _infer_pad(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    margins = margins_of(operand, attributes)
    mode, value = attributes["mode"], attributes["value"]
    if mode not in PAD_MODES:
        expected = ", ".join(repr(each) for each in PAD_MODES)
        raise InferenceError(f"pad has no mode={mode!r}", f"expected one of {expected}")
    if not isinstance(value, int | float):
        raise InferenceError(f"pad's value is a number, found {value!r}", "e.g. value=0")
    number = bool(value) if operand.dtype.kind == "bool" and value in (0, 1) else value
    fault = literal_fault(number, operand.dtype)
    if fault is not None and mode == "constant":
        raise InferenceError(f"pad's value: {fault[0]}, the dtype of {describe(operand)}", fault[1])
    for axis, (margin, size) in enumerate(zip(margins, operand.shape, strict=True)):
        _check_margin(axis, margin, operand, str(mode))
        if margin.padded(size) < 0:
            raise InferenceError(
                f"pad takes {-margin.before - margin.after} of {size} elements of axis {axis} of "
                f"{describe(operand)}",
                "take away at most as many as there are",
            )
    sizes = (m.padded(size) for m, size in zip(margins, operand.shape, strict=True))
    return TensorSpec(tuple(sizes), operand.dtype)


def _check_margin(axis: int, margin: Margin, operand: TensorSpec, mode: str) -> None:
    if mode == "constant":
        return
    if margin.between:
        raise InferenceError(f"pad mode={mode!r} has no interior", "use mode='constant'")
    size, widest = operand.shape[axis], max(margin.before, margin.after)
    limit = {"reflect": size - 1, "circular": size, "replicate": math.inf if size else 0}[mode]
    if min(margin.before, margin.after) < 0 or widest > limit:
        raise InferenceError(
            f"pad mode={mode!r} cannot add {margin.before} and {margin.after} elements to axis "
            f"{axis} of {describe(operand)}",
            f"each side takes 0 to {limit} there",
        )


def _is_composite_pad(operands: Operands, attributes: Attributes) -> bool:
    """Whether a ``pad`` does more than add constants, which is the form that the mid level has."""
    margins = margins_of(operands["input"], attributes)
    return attributes["mode"] != "constant" or any(min(m.before, m.after) < 0 for m in margins)


def _pad(call: Call[Any], a: Algebra[Any]) -> Any:
    """Constants added first, then elements taken away; other modes join parts of the array."""
    margins = margins_of(a.spec(call["input"]), call.attributes)
    if call.attributes["mode"] == "constant":
        return _pad_and_cut(call, margins, a)
    value = call["input"]
    for axis, margin in enumerate(margins):
        value = _with_copies(value, axis, margin, str(call.attributes["mode"]), a)
    return value


def _pad_and_cut(call: Call[Any], margins: tuple[Margin, ...], a: Algebra[Any]) -> Any:
    added = [(max(m.before, 0), max(m.after, 0)) for m in reversed(margins)]
    attributes: dict[str, Value] = {
        "pad": tuple(end for pair in added for end in pair),
        "value": call.attributes["value"],
        "interior": tuple(margin.between for margin in reversed(margins)),
    }
    value = a.named("pad", {"input": call["input"]}, attributes)
    starts = tuple(max(-margin.before, 0) for margin in margins)
    sizes = zip(starts, call.result.shape, strict=True)
    return a.op("slice", value, starts=starts, stops=tuple(start + size for start, size in sizes))


def _with_copies(value: Any, axis: int, margin: Margin, mode: str, a: Algebra[Any]) -> Any:
    """An axis with copies of its own elements before and after it."""
    size = a.spec(value).shape[axis]

    def part(start: int, count: int, *, backwards: bool = False) -> list[Any]:
        if not count:
            return []
        taken = a.op("narrow", value, dim=axis, start=start, length=count)
        return [a.op("flip", taken, dims=(axis,)) if backwards else taken]

    def repeated(start: int, count: int) -> list[Any]:
        return [a.op("repeat_interleave", each, repeats=count, dim=axis) for each in part(start, 1)]

    before, after = margin.before, margin.after
    if not before and not after:
        return value
    match mode:
        case "reflect":
            head = part(1, before, backwards=True)
            tail = part(size - 1 - after, after, backwards=True)
        case "replicate":
            head, tail = repeated(0, before), repeated(size - 1, after)
        case _:
            head, tail = part(size - before, before), part(0, after)
    return a.op("concat", *head, value, *tail, dim=axis)


PADDING: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "pad",
        "movement",
        (
            Parameter("input"),
            Parameter("pad", "attribute", REQUIRED, aliases=("padding",)),
            Parameter("mode", "attribute", "constant"),
            Parameter("value", "attribute", 0),
            Parameter("interior", "attribute", None),
        ),
        _infer_pad,
        free,
        "Elements added around an array: pad lists (before, after) of each axis, the last axis "
        "first; negative counts take elements away. mode is constant, reflect, replicate or "
        "circular; interior adds that many elements of value between each two.",
        composite_when=_is_composite_pad,
        formula=_pad,
        access="free",
        rule="any dtype; each axis grows by before + after + interior × (size − 1)",
    ).with_example("pad(x, [1, 2], value=9)", x=[[1, 2, 3], [4, 5, 6]]),
)

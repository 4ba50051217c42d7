"""Ops that cut arrays, put them side by side, or count positions."""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.movement import free, whole_numbers
from wia_compiler.dialects.wia.rules import describe, normalize_axis, same_dtype


@dataclass(frozen=True)
class Cut:
    """What ``slice`` takes of one axis: ``size`` elements from ``start``, ``step`` apart.

    ``step`` may be negative; an empty cut starts at 0.
    """

    start: int
    step: int
    size: int


def cuts_of(spec: TensorSpec, attributes: Attributes) -> tuple[Cut, ...]:
    """The cut of each axis of ``slice``'s operand, by the rules of Python's slices.

    Axes that the attributes do not reach are taken whole.
    """
    columns = [_column(attributes[name], name, spec) for name in ("starts", "stops", "steps")]
    cuts: list[Cut] = []
    for start, stop, step, size in zip(*columns, spec.shape, strict=True):
        if step == 0:
            raise InferenceError("a slice's step cannot be 0", "write 1 to take every element")
        first, last, stride = slice(start, stop, step).indices(size)
        count = len(range(first, last, stride))
        cuts.append(Cut(first if count else 0, stride, count))
    return tuple(cuts)


def _column(value: Value, name: str, spec: TensorSpec) -> list[int | None]:
    """One entry for each axis: a whole number, or ``None`` where the axis is not bounded."""
    if value is None:
        return [None] * spec.rank
    items = value if isinstance(value, tuple) else (value,)
    if len(items) > spec.rank:
        raise InferenceError(
            f"{name} {list(items)} has {len(items)} entries, {describe(spec)} has {spec.rank} axes",
            "give at most one entry for each axis",
        )
    column: list[int | None] = []
    for item in items:
        if item is not None and (not isinstance(item, int) or isinstance(item, bool)):
            raise InferenceError(
                f"{name} takes whole numbers or none, found {item!r}", "e.g. [0, none]"
            )
        column.append(item)
    return column + [None] * (spec.rank - len(items))


def _infer_slice(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    return TensorSpec(tuple(cut.size for cut in cuts_of(operand, attributes)), operand.dtype)


def _infer_concat(operands: Operands, attributes: Attributes) -> TensorSpec:
    specs = operands.all
    if not specs:
        raise InferenceError("concat needs at least one tensor", "write concat([a, b], dim=0)")
    first = specs[0]
    axis = normalize_axis(attributes["dim"], first)
    for spec in specs[1:]:
        others = [n for n in range(first.rank) if n != axis]
        if spec.rank != first.rank or any(spec.shape[n] != first.shape[n] for n in others):
            raise InferenceError(
                f"concat along axis {axis}: {describe(first)} and {describe(spec)} differ in "
                "another axis",
                "all sizes but that of the axis must be equal",
            )
    total = sum(spec.shape[axis] for spec in specs)
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return TensorSpec(shape, same_dtype(specs))


def _infer_iota(operands: Operands, attributes: Attributes) -> TensorSpec:
    like, size = operands.get("like"), attributes["size"]
    if (like is None) == (size is None):
        raise InferenceError(
            "iota takes either a size or a tensor of the size", "e.g. iota(16) or iota(like=x)"
        )
    shape = like.shape if like is not None else whole_numbers(size, "size")
    if any(each < 0 for each in shape):
        raise InferenceError(f"iota has no size {list(shape)}", "sizes start at 0")
    dtype = DTYPES.get(str(attributes["dtype"]))
    if dtype is None or dtype.kind == "bool":
        raise InferenceError(
            f"iota counts in a number type, found {attributes['dtype']!r}", "e.g. dtype=i64"
        )
    spec = TensorSpec(shape, dtype)
    normalize_axis(attributes["dim"], spec)
    return spec


def _read_result(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return result.size_bytes


def _read_nothing(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return 0


PLACEMENT: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "slice",
        "movement",
        (
            Parameter("input"),
            Parameter("starts", "attribute", None),
            Parameter("stops", "attribute", None),
            Parameter("steps", "attribute", None),
        ),
        _infer_slice,
        free,
        "Part of each axis, as Python slices it: input[start:stop:step, …]. none leaves a bound "
        "out, negative ones count from the end, bounds beyond the end are cut to it, a negative "
        "step goes backwards; axes that are not listed are taken whole.",
        access="view",
        read_bytes=_read_result,
        rule="any dtype; each axis has as many elements as Python's range(start, stop, step)",
    ).with_example("slice(x, starts=[0, 1], stops=[2, -1])", x=[[1, 2, 3, 4], [5, 6, 7, 8]]),
    OpDeclaration(
        "concat",
        "movement",
        (Parameter("tensors", "tensors"), Parameter("dim", "attribute", 0, aliases=("axis",))),
        _infer_concat,
        free,
        "Arrays one after another along an axis that they have.",
        access="free",
        rule="one dtype, equal sizes but along dim, where they add up",
    ).with_example("concat([x, y], dim=1)", x=[[1, 2], [3, 4]], y=[[5], [6]]),
    OpDeclaration(
        "iota",
        "movement",
        (
            Parameter("size", "attribute", None, aliases=("shape",)),
            Parameter("like", "optional_tensor", None),
            Parameter("dim", "attribute", -1, aliases=("axis",)),
            Parameter("dtype", "attribute", "i64"),
        ),
        _infer_iota,
        free,
        "The position along an axis, 0, 1, 2 …, in an array of a size or of another's shape.",
        access="free",
        read_bytes=_read_nothing,
        rule="shape size, or that of like; dtype as given",
        numerics="A position that the dtype cannot hold is converted as by cast from i64.",
    ).with_example("iota([2, 3], dim=1)"),
)

"""Ops that only place elements anew; they cost no FLOPs."""

from __future__ import annotations

import math

from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.declaration import (
    REQUIRED,
    Attributes,
    Infer,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.rules import describe, normalize_axis


def free(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    """The FLOPs of an op that computes nothing."""
    return 0


def whole_numbers(value: Value, name: str) -> tuple[int, ...]:
    """The whole numbers that an attribute lists; one alone is a list of one."""
    items = value if isinstance(value, tuple) else (value,)
    sizes = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
    if len(sizes) != len(items):
        raise InferenceError(f"{name} takes whole numbers, found {value!r}", "e.g. [4, -1]")
    return sizes


def _infer_reshape(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    sizes = whole_numbers(attributes["shape"], "shape")
    unknown = sizes.count(-1)
    known = math.prod(size for size in sizes if size != -1)
    if unknown > 1 or any(size < -1 for size in sizes):
        raise InferenceError(f"shape {list(sizes)} is not valid", "at most one size may be -1")
    if unknown and known and operand.num_elements % known == 0:
        sizes = tuple(operand.num_elements // known if size == -1 else size for size in sizes)
    if -1 in sizes or math.prod(sizes) != operand.num_elements:
        raise InferenceError(
            f"{describe(operand)} has {operand.num_elements} elements, "
            f"shape {list(sizes)} does not",
            "sizes must multiply to the number of elements; one of them may be -1",
        )
    return TensorSpec(sizes, operand.dtype)


def _infer_flatten(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    if operand.rank == 0:
        return TensorSpec((1,), operand.dtype)
    start = normalize_axis(attributes["start_dim"], operand)
    end = normalize_axis(attributes["end_dim"], operand)
    if start > end:
        raise InferenceError(f"start_dim {start} lies after end_dim {end}")
    size = math.prod(operand.shape[start : end + 1])
    return TensorSpec((*operand.shape[:start], size, *operand.shape[end + 1 :]), operand.dtype)


def permutation_of(operand: TensorSpec, attributes: Attributes) -> tuple[int, ...]:
    """The axes of ``operand`` in the order that ``transpose`` (dim0, dim1) gives them."""
    axes = list(range(operand.rank))
    first = normalize_axis(attributes["dim0"], operand)
    second = normalize_axis(attributes["dim1"], operand)
    axes[first], axes[second] = axes[second], axes[first]
    return tuple(axes)


def _infer_transpose(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    shape = tuple(operand.shape[axis] for axis in permutation_of(operand, attributes))
    return TensorSpec(shape, operand.dtype)


def _infer_permute(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    axes = tuple(
        normalize_axis(axis, operand) for axis in whole_numbers(attributes["dims"], "dims")
    )
    if sorted(axes) != list(range(operand.rank)):
        raise InferenceError(
            f"dims {list(axes)} is not an order of the axes of {describe(operand)}"
        )
    return TensorSpec(tuple(operand.shape[axis] for axis in axes), operand.dtype)


def _infer_broadcast(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    sizes = whole_numbers(attributes["shape"], "shape")
    padded = (1,) * (len(sizes) - operand.rank) + operand.shape
    fits = len(sizes) >= operand.rank and all(
        old in (1, new) for old, new in zip(padded, sizes, strict=True)
    )
    if not fits or any(size < 0 for size in sizes):
        raise InferenceError(
            f"{describe(operand)} does not stretch to shape {list(sizes)}",
            "each size must be equal or 1, counted from the last axis",
        )
    return TensorSpec(sizes, operand.dtype)


def _move(
    name: str, doc: str, infer: Infer, *attributes: Parameter, primitive: bool = True
) -> OpDeclaration:
    parameters = (Parameter("input"), *attributes)
    return OpDeclaration(
        name, "movement", parameters, infer, free, doc, primitive=primitive, access="view"
    )


MOVEMENT: tuple[OpDeclaration, ...] = (
    _move(
        "reshape",
        "The same elements, in row-major order, under another shape; one size may be -1.",
        _infer_reshape,
        Parameter("shape", "attribute", REQUIRED),
    ),
    _move(
        "flatten",
        "Axes start_dim to end_dim joined into one.",
        _infer_flatten,
        Parameter("start_dim", "attribute", 0),
        Parameter("end_dim", "attribute", -1),
        primitive=False,
    ),
    _move(
        "transpose",
        "Two axes swapped; left out, the last two.",
        _infer_transpose,
        Parameter("dim0", "attribute", -2),
        Parameter("dim1", "attribute", -1),
        primitive=False,
    ),
    _move(
        "permute",
        "All axes in a new order.",
        _infer_permute,
        Parameter("dims", "attribute", REQUIRED),
    ),
    _move(
        "broadcast",
        "Stretched to a shape by NumPy's rules.",
        _infer_broadcast,
        Parameter("shape", "attribute", REQUIRED, aliases=("size",)),
    ),
)

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
        raise InferenceError(
            f"start_dim {start} lies after end_dim {end}", "give the first axis first"
        )
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
            f"dims {list(axes)} is not an order of the axes of {describe(operand)}",
            "name every axis once, e.g. [1, 0]",
        )
    return TensorSpec(tuple(operand.shape[axis] for axis in axes), operand.dtype)


def broadcast_sizes(operand: TensorSpec, attributes: Attributes) -> tuple[int, ...]:
    """The shape that ``broadcast`` gives; -1 keeps the size of an axis."""
    sizes = whole_numbers(attributes["shape"], "shape")
    old = (-1,) * (len(sizes) - operand.rank) + operand.shape
    return tuple(each if size == -1 else size for size, each in zip(sizes, old, strict=False))


def _infer_broadcast(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand = operands["input"]
    sizes = broadcast_sizes(operand, attributes)
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
    name: str, doc: str, infer: Infer, rule: str, *attributes: Parameter, primitive: bool = True
) -> OpDeclaration:
    parameters = (Parameter("input"), *attributes)
    return OpDeclaration(
        name,
        "movement",
        parameters,
        infer,
        free,
        doc,
        primitive=primitive,
        access="view",
        rule=f"any dtype; {rule}",
    )


MOVEMENT: tuple[OpDeclaration, ...] = (
    _move(
        "reshape",
        "The same elements, in row-major order, under another shape; one size may be -1.",
        _infer_reshape,
        "shape, as many elements as input has",
        Parameter("shape", "attribute", REQUIRED),
    ).with_example("reshape(x, [3, -1])", x=[[1, 2, 3], [4, 5, 6]]),
    _move(
        "flatten",
        "Axes start_dim to end_dim joined into one.",
        _infer_flatten,
        "the sizes of start_dim to end_dim multiplied; of a scalar a list of one",
        Parameter("start_dim", "attribute", 0),
        Parameter("end_dim", "attribute", -1),
        primitive=False,
    ).with_example("flatten(x)", x=[[1, 2], [3, 4]]),
    _move(
        "transpose",
        "Two axes swapped; left out, the last two.",
        _infer_transpose,
        "the sizes of dim0 and dim1 swapped",
        Parameter("dim0", "attribute", -2),
        Parameter("dim1", "attribute", -1),
        primitive=False,
    ).with_example("transpose(x)", x=[[1, 2, 3], [4, 5, 6]]),
    _move(
        "permute",
        "All axes in a new order.",
        _infer_permute,
        "the sizes in the order of dims",
        Parameter("dims", "attribute", REQUIRED),
    ).with_example("permute(x, [1, 0])", x=[[1, 2, 3], [4, 5, 6]]),
    _move(
        "broadcast",
        "Stretched to a shape by NumPy's rules.",
        _infer_broadcast,
        "shape; counted from the last axis, each size of input is equal or 1; -1 keeps it",
        Parameter("shape", "attribute", REQUIRED, aliases=("size",)),
    ).with_example("broadcast(x, [2, 3])", x=[[1], [2]]),
)

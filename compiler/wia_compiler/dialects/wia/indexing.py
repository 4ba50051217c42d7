"""Ops that read elements at places which another array names."""

from __future__ import annotations

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    Flops,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.movement import free
from wia_compiler.dialects.wia.rules import describe, normalize_axis

OUT_OF_RANGE = (
    "An index below 0 or beyond the axis is an error when the kernel runs; a target that cannot "
    "report reads 0 there."
)


def require_index(spec: TensorSpec, op: str) -> None:
    """Refuse an index that is not of whole numbers."""
    if not spec.dtype.is_integer:
        raise InferenceError(
            f"{op} needs whole numbers as index, found {describe(spec)}",
            "convert it first: cast(…, i64)",
        )


def _infer_index_select(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand, index = operands["input"], operands["index"]
    require_index(index, "index_select")
    axis = normalize_axis(attributes["dim"], operand)
    if index.rank > 1:
        raise InferenceError(
            f"index_select takes a list of positions, found {describe(index)}",
            "flatten the index, or use gather or embedding",
        )
    shape = (*operand.shape[:axis], index.num_elements, *operand.shape[axis + 1 :])
    return TensorSpec(shape, operand.dtype)


def _infer_gather(operands: Operands, attributes: Attributes) -> TensorSpec:
    operand, index = operands["input"], operands["index"]
    require_index(index, "gather")
    axis = normalize_axis(attributes["dim"], operand)
    if index.rank != operand.rank:
        raise InferenceError(
            f"gather needs an index of as many axes as its input: {describe(operand)} and "
            f"{describe(index)}",
            "add or drop axes of the index with reshape",
        )
    for other in range(operand.rank):
        if other != axis and index.shape[other] > operand.shape[other]:
            raise InferenceError(
                f"gather along axis {axis}: axis {other} of {describe(index)} has size "
                f"{index.shape[other]}, that of {describe(operand)} {operand.shape[other]}",
                "beside dim, the index must not be larger than the input",
            )
    return TensorSpec(index.shape, operand.dtype)


def read_selected(index: str) -> Flops:
    """What is read: the index, and of the other operand one element for each of the result."""

    def read_bytes(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
        return result.size_bytes + operands[index].size_bytes

    return read_bytes


_DIM = Parameter("dim", "attribute", aliases=("axis",))

INDEXING: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "index_select",
        "movement",
        (Parameter("input"), _DIM, Parameter("index")),
        _infer_index_select,
        free,
        "Whole slices of an array along an axis, those whose positions index lists.",
        access="free",
        read_bytes=read_selected("index"),
        rule="index is a list (or one) of integers; dim has its length, other sizes stay",
        numerics=OUT_OF_RANGE,
    ).with_example("index_select(x, 0, index)", x=[[1, 2], [3, 4], [5, 6]], index=[2, 0, 2]),
    OpDeclaration(
        "gather",
        "movement",
        (Parameter("input"), _DIM, Parameter("index")),
        _infer_gather,
        free,
        "For each element of index the element of input at that position along an axis: "
        "out[i, j] = input[index[i, j], j] with dim=0, as torch.gather.",
        access="free",
        read_bytes=read_selected("index"),
        rule="index has as many axes as input and gives the shape; beside dim it is not larger",
        numerics=OUT_OF_RANGE,
    ).with_example("gather(x, 1, index)", x=[[1, 2], [3, 4]], index=[[0, 0], [1, 0]]),
)

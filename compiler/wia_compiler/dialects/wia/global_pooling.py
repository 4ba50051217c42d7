"""Pools whose windows follow from the size of what they give.

FLOP convention: one per element that is read.
"""

from __future__ import annotations

import math
from typing import Any

from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    Infer,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call, Formula
from wia_compiler.dialects.wia.pooling import spatial_count
from wia_compiler.dialects.wia.rules import describe, require_float, require_number


def _per_input(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    return operands["input"].num_elements


def adaptive_sizes(
    operand: TensorSpec, attributes: Attributes, name: str, axes: int | None
) -> tuple[int, ...]:
    """The output size of each pooled axis; each divides the axis."""
    wanted = attributes["output_size"]
    count = spatial_count(operand, wanted, name, axes)
    listed = wanted if isinstance(wanted, tuple) else (wanted,) * count
    lengths = operand.shape[operand.rank - count :]
    if len(listed) != count:
        raise InferenceError(
            f"output_size has {len(listed)} entries, {name} pools {count} axes",
            "give one number, or one for each axis",
        )
    sizes: list[int] = []
    for axis, (each, length) in enumerate(
        zip(listed, lengths, strict=True), start=operand.rank - count
    ):
        size = length if each is None else each
        if not isinstance(size, int) or size < 1 or length % size:
            raise InferenceError(
                f"{name}: output_size {size} does not divide axis {axis} of {describe(operand)}, "
                f"which has {length} elements",
                "choose a divisor, so that all windows are equal",
            )
        sizes.append(size)
    return tuple(sizes)


def _infer_adaptive(name: str, axes: int | None, *, floats: bool) -> Infer:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_float(operand, name) if floats else require_number(operand, name)
        sizes = adaptive_sizes(operand, attributes, name, axes)
        return TensorSpec((*operand.shape[: operand.rank - len(sizes)], *sizes), operand.dtype)

    return infer


def _adaptive(name: str, pool: str, axes: int | None) -> Formula:
    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        spec = a.spec(call["input"])
        sizes = adaptive_sizes(spec, call.attributes, name, axes)
        lengths = spec.shape[spec.rank - len(sizes) :]
        kernel = tuple(length // size for length, size in zip(lengths, sizes, strict=True))
        if not math.prod(lengths):
            return a.splat(0, call.result)
        return a.op(pool, call["input"], kernel_size=kernel)

    return formula


def _infer_global(name: str, *, floats: bool) -> Infer:
    def infer(operands: Operands, attributes: Attributes) -> TensorSpec:
        operand = operands["input"]
        require_float(operand, name) if floats else require_number(operand, name)
        if operand.rank < 3:
            raise InferenceError(
                f"{name} needs input N×C×…, found {describe(operand)}", "add the missing axes"
            )
        if not floats and not math.prod(operand.shape[2:]):
            raise InferenceError(
                f"{name} of no elements is undefined: {describe(operand)}",
                "the pooled axes must have elements",
            )
        return TensorSpec((*operand.shape[:2], *(1,) * (operand.rank - 2)), operand.dtype)

    return infer


def _global(reduction: str) -> Formula:
    def formula(call: Call[Any], a: Algebra[Any]) -> Any:
        axes = tuple(range(2, a.spec(call["input"]).rank))
        return a.op(reduction, call["input"], dim=axes, keepdim=True)

    return formula


_OUTPUT = Parameter("output_size", "attribute")
_RULE = "input is N×C×… or C×…; output_size divides the pooled axes and replaces their sizes"


def _adaptive_row(name: str, axes: int | None, *, floats: bool) -> OpDeclaration:
    what, pool = ("Mean", "avg_pool") if floats else ("Largest", "max_pool")
    return OpDeclaration(
        name,
        "reduction",
        (Parameter("input"), _OUTPUT),
        _infer_adaptive(name, axes, floats=floats),
        _per_input,
        f"{what} of equal windows that leave output_size elements of each pooled axis; none "
        "leaves an axis as it is.",
        primitive=False,
        formula=_adaptive(name, pool, axes),
        access="free",
        rule=f"{'floats' if floats else 'numbers'}; {_RULE}",
    )


def _global_row(name: str, reduction: str, doc: str, *, floats: bool) -> OpDeclaration:
    return OpDeclaration(
        name,
        "reduction",
        (Parameter("input"),),
        _infer_global(name, floats=floats),
        _per_input,
        doc,
        primitive=False,
        formula=_global(reduction),
        access="free",
        rule=f"{'floats' if floats else 'numbers'}; input is N×C×…; all axes behind C become 1",
    )


_IMAGE = [[[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]]]

GLOBAL_POOLING: tuple[OpDeclaration, ...] = (
    _adaptive_row("adaptive_avg_pool", None, floats=True).with_example(
        "adaptive_avg_pool(x, [1, 2])", x=_IMAGE
    ),
    _adaptive_row("adaptive_avg_pool1d", 1, floats=True).with_example(
        "adaptive_avg_pool1d(x, 2)", x=[[[1.0, 3.0, 5.0, 9.0]]]
    ),
    _adaptive_row("adaptive_avg_pool2d", 2, floats=True).with_example(
        "adaptive_avg_pool2d(x, 1)", x=_IMAGE
    ),
    _adaptive_row("adaptive_max_pool", None, floats=False).with_example(
        "adaptive_max_pool(x, [1, 2])", x=_IMAGE
    ),
    _global_row(
        "global_avg_pool", "reduce_mean", "Mean of each channel of each sample.", floats=True
    ).with_example("global_avg_pool(x)", x=_IMAGE),
    _global_row(
        "global_max_pool",
        "reduce_max",
        "Largest element of each channel of each sample.",
        floats=False,
    ).with_example("global_max_pool(x)", x=_IMAGE),
)

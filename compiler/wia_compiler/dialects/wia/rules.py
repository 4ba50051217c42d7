"""Shape and dtype rules that several families share."""

from __future__ import annotations

from collections.abc import Sequence

from wia_compiler.base.dtypes import BOOL, DType
from wia_compiler.dialects.types import TensorSpec, Value
from wia_compiler.dialects.wia.declaration import Attributes, InferenceError, Operands


def describe(spec: TensorSpec) -> str:
    """How a message names an operand: ``A: tensor<4x8xf32>``."""
    return f"{spec.label}: {spec}" if spec.label else str(spec)


def broadcast_shapes(specs: Sequence[TensorSpec]) -> tuple[int, ...]:
    """NumPy's broadcasting: axes are matched from the last, a size of 1 stretches."""
    rank = max((spec.rank for spec in specs), default=0)
    shape: list[int] = []
    for axis in range(-rank, 0):
        size = 1
        owner = specs[0]
        for spec in specs:
            if spec.rank < -axis or spec.shape[axis] in (1, size):
                continue
            if size != 1:
                raise InferenceError(
                    f"axis {owner.rank + axis} of {describe(owner)} has size {size}, "
                    f"axis {spec.rank + axis} of {describe(spec)} has size {spec.shape[axis]}",
                    "sizes must be equal, or one of them 1",
                )
            size, owner = spec.shape[axis], spec
        shape.append(size)
    return tuple(shape)


def same_dtype(specs: Sequence[TensorSpec]) -> DType:
    """The dtype all operands share; nothing is converted behind the user's back."""
    for spec in specs[1:]:
        if spec.dtype != specs[0].dtype:
            raise InferenceError(
                f"dtypes {specs[0].dtype} and {spec.dtype} do not mix: "
                f"{describe(specs[0])} and {describe(spec)}",
                f"convert one of them: cast(…, {specs[0].dtype})",
            )
    return specs[0].dtype


def require_float(spec: TensorSpec, op: str) -> None:
    """Refuse an operand that is not f64, f32, f16 or bf16."""
    if not spec.dtype.is_float:
        raise InferenceError(
            f"{op} needs a float type, found {describe(spec)}",
            "convert it first: cast(…, f32)",
        )


def require_number(spec: TensorSpec, op: str) -> None:
    """Refuse a bool where arithmetic needs a number."""
    if spec.dtype == BOOL:
        raise InferenceError(
            f"{op} needs numbers, found {describe(spec)}",
            "convert it first: cast(…, i32), or use where(…)",
        )


def normalize_axis(axis: Value, spec: TensorSpec, *, extra: int = 0) -> int:
    """An axis counted from 0; negative ones count from the end."""
    rank = spec.rank + extra
    if not isinstance(axis, int) or isinstance(axis, bool):
        raise InferenceError(
            f"an axis is a whole number, found {axis!r}", "e.g. dim=-1, the last axis"
        )
    if not -rank <= axis < rank:
        raise InferenceError(
            f"axis {axis} is out of range for {describe(spec)}",
            f"expected {-rank} to {rank - 1}" if rank else "a scalar has no axes",
        )
    return axis % rank


def normalize_axes(axes: Value, spec: TensorSpec) -> tuple[int, ...]:
    """Axes in increasing order from 0; ``None`` means all of them."""
    if axes is None:
        return tuple(range(spec.rank))
    listed = axes if isinstance(axes, tuple) else (axes,)
    normal = [normalize_axis(axis, spec) for axis in listed]
    if len(set(normal)) != len(normal):
        raise InferenceError(f"an axis is named twice in {listed}", "name each axis once")
    return tuple(sorted(normal))


def int_tuple(value: Value, length: int, name: str) -> tuple[int, ...]:
    """An int for all axes, or one int for each of ``length`` axes."""
    items = value if isinstance(value, tuple) else (value,) * length
    if len(items) != length or any(not isinstance(i, int) or isinstance(i, bool) for i in items):
        raise InferenceError(
            f"{name} takes one whole number or {length} of them, found {value!r}",
            "e.g. 2, or one for each axis",
        )
    return tuple(int(item) for item in items if isinstance(item, int))


def is_narrow(operands: Operands, attributes: Attributes) -> bool:
    """Whether folds of the input are carried in a wider dtype: f16 and bf16."""
    dtype = operands["input"].dtype
    return dtype.accumulator != dtype.name

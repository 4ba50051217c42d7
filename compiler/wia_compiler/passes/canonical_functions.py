"""What the rows of ``canonical_rules`` do whose conditions are more than a pattern."""

from __future__ import annotations

import math

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.types import TensorSpec, Value, spec_of, type_of
from wia_compiler.dialects.wia.movement import permutation_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.dialects.wia.padding import margins_of
from wia_compiler.dialects.wia.placement import cuts_of
from wia_compiler.dialects.wia.rules import normalize_axes, normalize_axis
from wia_compiler.passes.rules import Rewriter, splat


def divide_by_power_of_two(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """``x / 8`` is ``x * 0.125``: both round the same real number, where the inverse is exact."""
    divisor, dtype = splat(op.arguments[1]), op.result_spec.dtype
    if divisor is None or not math.isfinite(divisor) or divisor == 0:
        return None
    mantissa, exponent = math.frexp(divisor)
    smallest, largest = _NORMAL_EXPONENTS[dtype.name]
    if abs(mantissa) != 0.5 or not smallest <= 1 - exponent <= largest:
        return None
    inverse = ConstantOp(1.0 / divisor, op.arguments[1].type)
    rewriter.made.append(inverse)
    return rewriter.make("mul", [op.arguments[0], inverse.result])


_NORMAL_EXPONENTS = {
    "f64": (-1022, 1023),
    "f32": (-126, 127),
    "bf16": (-126, 127),
    "f16": (-14, 15),
}
"""Exponents of two that a dtype holds as normal numbers (IEEE 754, and bfloat16)."""


def cast_to_same(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A cast to the dtype the operand has."""
    return op.arguments[0] if op.arguments[0].type == op.result.type else None


def cast_of_widening_cast(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A cast of a cast that lost nothing: ``cast(cast(x, f32), f16)`` of an f16 is x."""
    inner = rewriter.producer(op.arguments[0], "cast")
    if inner is None:
        return None
    source, middle = spec_of(inner.arguments[0].type).dtype, inner.result_spec.dtype
    target = op.result_spec.dtype
    if not holds(middle, source):
        return None
    # An integer in a float saturates on its way to a narrower integer; directly it would wrap.
    if middle.is_float and not source.is_float and target.is_integer and not holds(target, source):
        return None
    return rewriter.make("cast", [inner.arguments[0]], {"dtype": target.name})


def holds(wide: DType, narrow: DType) -> bool:
    """Whether a dtype holds every value of another."""
    if wide == narrow or narrow.kind == "bool":
        return True
    if wide.kind == "bool" or (narrow.is_float and not wide.is_float):
        return False
    if narrow.is_float:
        return wide.name == "f64" or (wide.name == "f32" and narrow.bits == 16)
    magnitude = narrow.bits - (narrow.kind == "int")
    if wide.is_float:
        return magnitude <= {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[wide.name]
    if wide.kind == "uint":
        return False
    return magnitude <= wide.bits - 1


def reshape_to_same(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A reshape, flatten or broadcast that leaves the shape as it is."""
    return op.arguments[0] if op.arguments[0].type == op.result.type else None


def reshape_of_reshape(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """Two reshapes keep the row-major order that one keeps."""
    inner = rewriter.producer(op.arguments[0], "reshape", "flatten")
    if inner is None:
        return None
    return rewriter.make("reshape", [inner.arguments[0]], {"shape": op.result_spec.shape})


def broadcast_of_broadcast(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """Two stretches are one."""
    inner = rewriter.producer(op.arguments[0], "broadcast")
    if inner is None:
        return None
    return rewriter.make("broadcast", [inner.arguments[0]], {"shape": op.result_spec.shape})


def axes_order(op: TensorOp) -> tuple[int, ...]:
    """The order in which a ``transpose`` or ``permute`` takes its operand's axes."""
    operand = spec_of(op.arguments[0].type)
    if op.declaration.name == "transpose":
        return permutation_of(operand, op.values)
    dims: Value = op.values["dims"]
    listed = dims if isinstance(dims, tuple) else (dims,)
    return tuple(normalize_axis(axis, operand) for axis in listed)


def permute_in_order(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A permutation that keeps every axis in its place."""
    order = axes_order(op)
    return op.arguments[0] if order == tuple(range(len(order))) else None


def permute_of_permute(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """Two permutations are one, or none: ``transpose(transpose(x))`` is x."""
    inner = rewriter.producer(op.arguments[0], "transpose", "permute")
    if inner is None:
        return None
    first = axes_order(inner)
    order = tuple(first[axis] for axis in axes_order(op))
    if order == tuple(range(len(order))):
        return inner.arguments[0]
    return rewriter.make("permute", [inner.arguments[0]], {"dims": order})


def slice_of_everything(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A slice that takes every element of every axis, in order."""
    operand = spec_of(op.arguments[0].type)
    whole = op.result_spec.shape == operand.shape
    forwards = all(cut.step == 1 or cut.size < 2 for cut in cuts_of(operand, op.values))
    return op.arguments[0] if whole and forwards else None


def slice_of_slice(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """Two slices are one, whose positions are those of the second in the first."""
    inner = rewriter.producer(op.arguments[0], "slice")
    if inner is None or not op.result_spec.num_elements:
        return None
    first = cuts_of(spec_of(inner.arguments[0].type), inner.values)
    second = cuts_of(inner.result_spec, op.values)
    starts: list[Value] = []
    stops: list[Value] = []
    steps: list[Value] = []
    for outer, taken in zip(second, first, strict=True):
        start, step = taken.start + outer.start * taken.step, taken.step * outer.step
        end = start + (outer.size - 1) * step + (1 if step > 0 else -1)
        starts.append(start)
        stops.append(end if end >= 0 else None)  # backwards to the first element: no bound
        steps.append(step)
    attributes: dict[str, Value] = {
        "starts": tuple(starts),
        "stops": tuple(stops),
        "steps": tuple(steps),
    }
    return rewriter.make("slice", [inner.arguments[0]], attributes)


def pad_of_nothing(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A pad that adds nothing and takes nothing away."""
    margins = margins_of(spec_of(op.arguments[0].type), op.values)
    changes = any((m.before, m.after, m.between) != (0, 0, 0) for m in margins)
    return None if changes else op.arguments[0]


def concat_of_one(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A single array has nothing to be joined to."""
    return op.arguments[0] if len(op.arguments) == 1 else None


def operand_without_broadcast(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """An explicit stretch that the op would do by itself, as other operands give the shape."""
    operands: list[SSAValue] = []
    for value in op.arguments:
        inner = value.owner
        stretched = isinstance(inner, TensorOp) and inner.declaration.name == "broadcast"
        narrow = inner.arguments[0] if stretched and isinstance(inner, TensorOp) else value
        operands.append(narrow)
    for index, value in enumerate(operands):
        if value is op.arguments[index]:
            continue
        trial = [*op.arguments[:index], value, *op.arguments[index + 1 :]]
        if _infers(op, trial) == op.result_spec:
            rewriter.producer(op.arguments[index], "broadcast")
            by_name = dict(zip(op.given, trial, strict=True))
            return rewriter.make(op.declaration.name, by_name, op.values)
    return None


def _infers(op: TensorOp, operands: list[SSAValue]) -> TensorSpec:
    specs = [spec_of(value.type) for value in operands]
    return op.declaration.infer(op.declaration.operands(op.given, specs), op.values)


def constant_operand_as_scalar(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """A constant tensor beside another operand of the result's shape needs one element only."""
    for index, value in enumerate(op.arguments):
        constant, spec = value.owner, spec_of(value.type)
        if not isinstance(constant, ConstantOp) or not spec.rank:
            continue
        scalar = ConstantOp(constant.number, type_of(TensorSpec((), spec.dtype)))
        trial = [*op.arguments[:index], scalar.result, *op.arguments[index + 1 :]]
        if _infers(op, trial) == op.result_spec:
            rewriter.matched.append(constant)
            rewriter.made.append(scalar)
            by_name = dict(zip(op.given, trial, strict=True))
            return rewriter.make(op.declaration.name, by_name, op.values)
    return None


def reduce_single_elements(op: TensorOp, rewriter: Rewriter) -> SSAValue | None:
    """The largest or smallest of one element is the element."""
    operand = spec_of(op.arguments[0].type)
    axes = normalize_axes(op.values["dim"], operand)
    if any(operand.shape[axis] != 1 for axis in axes):
        return None
    shape = op.result_spec.shape
    if shape == operand.shape:
        return op.arguments[0]
    return rewriter.make("reshape", [op.arguments[0]], {"shape": shape})

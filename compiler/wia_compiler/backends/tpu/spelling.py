"""What the machine can spell, and how a refusal says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn, cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    FloatAttr,
    MemRefType,
    ModuleOp,
)
from xdsl.dialects.cf import ConditionalBranchOp
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.base.errors import Diagnostic, TargetError
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.framework import PassContext

SPEAKS = (
    "tpu:spec can spell matmul, add, relu (max with 0) and casts, on f32, bf16 and f16; "
    'build this kernel for "cpu" or "gpu", or keep that op in a kernel of its own'
)
ELEMENTS: dict[Attribute, str] = {
    Float32Type(): "f32",
    BFloat16Type(): "bf16",
    Float16Type(): "f16",
}

# What a scalar op of a leaf was called in the language.
_WORDS = {
    "addi": "add of integers",
    "muli": "mul of integers",
    "mulf": "mul",
    "subf": "sub",
    "divf": "div",
    "negf": "neg",
    "maximumf": "max with anything but 0",
    "minimumf": "min",
    "cmpf": "a comparison",
    "select": "where",
    "remf": "mod",
    "powf": "pow",
    "absf": "abs",
}


def refuse(context: PassContext, ops: Sequence[Operation], message: str) -> NoReturn:
    """Raise a ``TargetError`` that shows the source line of ``ops``."""
    span = next((span for op in ops for span in spans_of(op)), None)
    raise TargetError(Diagnostic(message, span, SPEAKS, context.source).render())


def check_branches(context: PassContext, module: ModuleOp) -> None:
    """Refuse a kernel that branches: the machine's program is one list of instructions."""
    for op in module.walk():
        if isinstance(op, ConditionalBranchOp):
            condition = op.cond.owner
            makers = [op, *([condition] if isinstance(condition, Operation) else [])]
            what = "a loop or a branch that its data decide"
            refuse(context, makers, f"tpu:spec runs its instructions in order: here is {what}")


def element_name(context: PassContext, value: SSAValue, op: Operation) -> str:
    """``f32``, ``bf16`` or ``f16``; refuses other element types."""
    element = cast("MemRefType[Attribute]", value.type).element_type
    if element not in ELEMENTS:
        refuse(context, [op], f"tpu:spec computes on f32, bf16 and f16, found {element}")
    return ELEMENTS[element]


def check_nest(context: PassContext, nest: Operation) -> None:
    """Refuse a nest with anything in it that the machine cannot spell."""
    if holds_point_code(nest):
        refuse(context, [nest], "tpu:spec cannot spell loops that compute point by point")
    for op in nest.walk():
        if isinstance(op, ComputeOp):
            _check_leaf(context, op)


def _check_leaf(context: PassContext, leaf: ComputeOp) -> None:
    kind = leaf.kind.data
    ops = [op for op in leaf.body.block.ops if not isinstance(op, YieldOp)]
    about = ops or [leaf]
    if kind == "window":
        refuse(context, [leaf], "tpu:spec cannot spell conv2d")
    if kind == "reduce":
        refuse(context, [leaf], "tpu:spec cannot spell a reduction")
    for value in (*leaf.inputs, *leaf.outputs):
        element_name(context, value, leaf)
    if kind == "contract":
        if not is_product(leaf):
            refuse(context, about, "tpu:spec multiplies and adds in a matmul, nothing else")
        return
    for op in ops:
        if not is_vector_op(op):
            refuse(context, [op], f"tpu:spec cannot spell {word_of(op)}")


def is_product(leaf: ComputeOp) -> bool:
    """Whether a leaf's body is ``held + a * b``, with operands widened to f32."""
    block = leaf.body.block
    names = sorted(op.name for op in block.ops if not isinstance(op, arith.ExtFOp))
    if names != ["arith.addf", "arith.mulf", "tile.yield"] or len(leaf.inputs) != 2:
        return False
    (product,) = [op for op in block.ops if isinstance(op, arith.MulfOp)]
    (total,) = [op for op in block.ops if isinstance(op, arith.AddfOp)]
    factors = {_unwidened(product.lhs), _unwidened(product.rhs)}
    held = block.args[2]
    return factors == set(block.args[:2]) and {total.lhs, total.rhs} == {held, product.result}


def is_vector_op(op: Operation) -> bool:
    """Whether the vector unit can do what a scalar op does, to every element of a tile."""
    match op:
        case arith.AddfOp():
            return isinstance(op.result.type, Float32Type)
        case arith.MaximumfOp():
            return isinstance(op.result.type, Float32Type) and relu_operand(op) is not None
        case arith.ExtFOp() | arith.TruncFOp():
            return {op.input.type, op.result.type} <= set(ELEMENTS)
        case arith.ConstantOp():
            return isinstance(op.value, FloatAttr)
        case _:
            return False


def relu_operand(op: arith.MaximumfOp) -> SSAValue | None:
    """``x`` of ``max(x, 0)``, either way round."""
    for zero, other in ((op.rhs, op.lhs), (op.lhs, op.rhs)):
        if number_of(zero) == 0:
            return other
    return None


def number_of(value: SSAValue) -> float | None:
    """The number of a float constant, widened or not."""
    owner = _unwidened(value).owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, FloatAttr):
        return float(owner.value.value.data)
    return None


def word_of(op: Operation) -> str:
    """What a reader calls a scalar op: ``math.exp`` is ``exp``."""
    name = op.name.partition(".")[2]
    return _WORDS.get(name, name)


def _unwidened(value: SSAValue) -> SSAValue:
    owner = value.owner
    return _unwidened(owner.input) if isinstance(owner, arith.ExtFOp) else value

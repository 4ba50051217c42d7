"""Which family an op belongs to, and what a graph calls it."""

from __future__ import annotations

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation

from wia_compiler.base.record import Family
from wia_compiler.dialects.loop_control import ForOp as LoopOp
from wia_compiler.dialects.loop_elements import LoadOp, StoreOp
from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.dialects.tpu.ops import FAMILIES as TPU_FAMILIES
from wia_compiler.dialects.wia.ops import ConstantOp, DeclareOp, FusedOp, TensorOp, label_of

_LEAF_FAMILIES: dict[str, Family] = {
    "map": "elementwise",
    "reduce": "reduction",
    "contract": "contraction",
    "window": "contraction",
    "copy": "movement",
}
_LOOPS = (
    *("scf.for", "scf.parallel", "scf.forall", "scf.while"),
    *("loop.nest", "loop.for", "loop.while"),
)
_MOVES = (
    *("memref.load", "memref.store", "memref.copy", "vector.load", "vector.store"),
    *("loop.load", "loop.store"),
)
_ARITHMETIC = ("arith.", "math.", "vector.")


def family_of(op: Operation) -> Family:
    """The family of an op of any level: what one colour stands for."""
    match op:
        case TensorOp():
            return op.declaration.family
        case FusedOp() | CallOp():
            return "fusion"
        case ComputeOp():
            return _LEAF_FAMILIES[op.kind.data]
        case ForOp():
            return "loop"
        case _:
            return _family_of_name(op)


def _family_of_name(op: Operation) -> Family:
    if op.name in _LOOPS:
        return "loop"
    if op.name in _MOVES:
        return "movement"
    if op.name in TPU_FAMILIES:
        return TPU_FAMILIES[op.name]
    computes = op.name.startswith(_ARITHMETIC) and not is_index_arithmetic(op)
    return "elementwise" if computes and op.name != "arith.constant" else "other"


def is_index_arithmetic(op: Operation) -> bool:
    """Whether an op computes addresses and loop bounds rather than data."""
    types: list[Attribute] = [value.type for value in (*op.results, *op.operands)]
    return bool(types) and any(isinstance(each, IndexType) for each in types)


def label_for(op: Operation) -> str:
    """What a graph writes on an op."""
    match op:
        case TensorOp() | ConstantOp() | FusedOp() | DeclareOp():
            return label_of(op)
        case CallOp():
            return op.callee.string_value()
        case FuncOp():
            return op.sym_name.data
        case ReturnOp():
            return "return"
        case ForOp():
            extent, step = op.extent.value.data, op.step.value.data
            return f"{op.axis.data} in {extent}" + (f" step {step}" if step != 1 else "")
        case ComputeOp():
            return op.kind.data
        case LoopOp():
            return f"for {op.axis.data}"
        case LoadOp() | StoreOp():
            return f"{op.name.partition('.')[2]} {op.array.name_hint or ''}".rstrip()
        case _:
            return op.name.partition(".")[2] or op.name

"""What a GPU's matrix units multiply: element types, shapes, since which architecture.

A leaf is one of theirs where its body adds up plain products of two elements of one such type, made
wider to that of the sum at most.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import arith
from xdsl.dialects.builtin import bf16, f16, f32, i8, i32
from xdsl.ir import Attribute, SSAValue

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.widened_products import factors_of, narrow
from wia_compiler.dialects.nvgpu import MatrixShape, bits_of
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.tile_rewrites import scope_of

MMA_SHAPE = "wia.mma"
"""Attribute of a contract leaf: rows, columns and depth of the instruction that multiplies it."""
STEP_BYTES = 32
"""Of each row of an operand in one step: two chunks of 16 bytes, which two registers hold."""


@dataclass(frozen=True)
class MatrixUnit:
    """One row of the table: ``mma.sync`` of ``shape`` on elements of one type, from ``since`` on.

    A step of the product is 16 × 8 sums over 32 bytes of each row (``step``); ``shape`` may be a
    part of it, which is then multiplied in several pieces. ``is_rounded`` says that operands lose
    bits: only a schedule asks for such a unit.
    """

    name: str
    element: Attribute
    total: Attribute
    shape: MatrixShape
    since: int
    is_rounded: bool = False

    @property
    def step(self) -> int:
        """Elements that are added up in a step."""
        return STEP_BYTES * 8 // bits_of(self.element)


UNITS = (
    MatrixUnit("f16", f16, f32, (16, 8, 16), 80),
    MatrixUnit("f16", f16, f32, (16, 8, 8), 75),
    MatrixUnit("bf16", bf16, f32, (16, 8, 16), 80),
    MatrixUnit("i8", i8, i32, (16, 8, 32), 80),
    MatrixUnit("i8", i8, i32, (8, 8, 16), 75),
    MatrixUnit("tf32", f32, f32, (16, 8, 8), 80, is_rounded=True),
)
"""Best first (PTX ISA, mma.sync.aligned; f32 sums throughout, as the numerics contract has it)."""


def find_unit(leaf: ComputeOp, architecture: Architecture, *, tf32: bool = False) -> MatrixUnit:
    """The unit that multiplies a leaf's operands; ``NoMatrixUnit`` says why there is none."""
    element, total = product_types(leaf)
    rows = [row for row in UNITS if (row.element, row.total) == (element, total)]
    if not rows:
        known = ", ".join(dict.fromkeys(row.name for row in UNITS))
        raise NoMatrixUnit(
            f"tensor cores multiply {known}, here {element} is added up in {total}",
            "cast the operands, or leave use_tensor_cores out",
        )
    rounded = [row for row in rows if row.is_rounded]
    if rounded and not tf32:
        raise NoMatrixUnit(
            "tensor cores round f32 to tf32, 10 bits of mantissa",
            "write use_tensor_cores tf32, or leave it out",
        )
    if tf32 and not rounded:
        raise NoMatrixUnit(f"tf32 is for f32, here {element} is multiplied", "leave tf32 out")
    found = next((row for row in rows if row.since <= architecture.capability), None)
    if found is None:
        raise NoMatrixUnit(
            f"{architecture.name} has no tensor cores for {rows[0].name}, sm_{rows[-1].since} has",
            "leave use_tensor_cores out",
        )
    return found


class NoMatrixUnit(Exception):
    """No matrix unit computes a leaf; ``hint`` says what to do."""

    def __init__(self, reason: str, hint: str):
        super().__init__(reason)
        self.hint = hint


def product_types(leaf: ComputeOp) -> tuple[Attribute, Attribute]:
    """The element type of both operands and that of the sum; ``NoMatrixUnit`` for other bodies.

    Sums of i8 wrap around, so that those in i32 have the same lowest bits.
    """
    if leaf.kind.data != "contract" or len(leaf.outputs) != 1 or len(leaf.inputs) != 2:
        raise NoMatrixUnit(
            "tensor cores add up products of two operands, this nest does more",
            "leave use_tensor_cores out",
        )
    if scope_of(leaf.outputs[0]) != "register":
        raise NoMatrixUnit(
            "tensor cores keep sums in registers, here they are added up in memory",
            "leave use_tensor_cores out",
        )
    if leaf.is_ordered:
        raise NoMatrixUnit(
            "the text writes this sum out, and tensor cores add in an order of their own",
            "write A @ B, or leave use_tensor_cores out",
        )
    sides = factors_of(leaf)
    left, right = leaf.body.block.args[:2]
    if sides is None or {_signed_narrow(each) for each in sides} != {left, right}:
        raise NoMatrixUnit(
            "tensor cores multiply what they read, here it is computed with first",
            "leave use_tensor_cores out",
        )
    types = {element_type(value) for value in leaf.inputs}
    if len(types) != 1:
        raise NoMatrixUnit(
            f"tensor cores multiply two of one type, not {' by '.join(sorted(map(str, types)))}",
            "cast one of them",
        )
    (element,) = types
    total = element_type(leaf.outputs[0])
    return element, i32 if element == total == i8 else total


def _signed_narrow(value: SSAValue) -> SSAValue:
    """What was made wider: exact for floats, signed for integers."""
    return value if isinstance(value.owner, arith.ExtUIOp) else narrow(value)


def exact_units(architecture: Architecture) -> tuple[str, ...]:
    """The float dtypes whose products an architecture's units add up in f32 without rounding."""
    rows = (row for row in UNITS if row.total == f32 and not row.is_rounded)
    return tuple(dict.fromkeys(r.name for r in rows if r.since <= architecture.capability))

"""Products of a warpgroup: ``wgmma`` in inline PTX, for LLVM has no intrinsic of it.

The steps of one tile along the folded axis are one statement. An accumulator is a struct of the
elements of a thread, which passes through each statement as operands that
are read and written. What reads them comes after a wait through which they pass as well: LLVM sees
no other reason to leave it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType
from xdsl.ir import Attribute, SSAValue

from wia_compiler.dialects.nvgpu_hopper_types import (
    AccumulatorType,
    WarpgroupDescriptorType,
    element_bytes,
)
from wia_compiler.dialects.nvgpu_warpgroup import (
    ROW_BYTES,
    STEP_BYTES,
    GenerateDescriptorOp,
    InitAccumulatorOp,
    StoreAccumulatorOp,
    WarpgroupMmaOp,
)
from wia_compiler.passes.llvm.types import accumulator_type
from wia_compiler.passes.llvm.writer import Handler, Writer

_UNIT_SHIFT = 4
"""A descriptor counts in 16 bytes."""
_ADDRESS_BITS = 0x3FFF
_LEADING_BIT, _STRIDE_BIT, _SWIZZLE_BIT = 16, 32, 62
_SWIZZLE_128B = 1
_GROUP_ROWS = 8
"""Rows of 128 bytes after which the swizzle begins again."""


def _element(type: AccumulatorType) -> str:
    return "i32" if isinstance(type.fragmented.element_type, IntegerType) else "float"


def _operand_name(element: Attribute) -> str:
    """How wgmma calls an element type."""
    match element:
        case Float16Type():
            return "f16"
        case BFloat16Type():
            return "bf16"
        case _:
            return "s8"


def _generate(writer: Writer, op: GenerateDescriptorOp) -> None:
    """Start address, and the distances of groups of 8 rows and of panels, in units of 16 bytes.

    A tile without panels (K-major) has no use for the second distance: 1, as the ISA assumes.
    """
    shape = op.descriptor.type.tensor.get_shape()
    panel = shape[1] * ROW_BYTES >> _UNIT_SHIFT if len(shape) == 3 else 1
    group = _GROUP_ROWS * ROW_BYTES >> _UNIT_SHIFT
    fixed = panel << _LEADING_BIT | group << _STRIDE_BIT | _SWIZZLE_128B << _SWIZZLE_BIT
    address = writer.temporary(f"ptrtoint {writer.typed(op.tensor)} to i64")
    units = writer.temporary(f"lshr i64 {address}, {_UNIT_SHIFT}")
    start = writer.temporary(f"and i64 {units}, {_ADDRESS_BITS}")
    writer.assign(op.descriptor, f"or disjoint i64 {start}, {fixed}")


def _initialise(writer: Writer, op: InitAccumulatorOp) -> None:
    type = op.matrixC.type
    members = ", ".join([_element(type)] * type.slots)
    definition = f"{accumulator_type(type)} = type {{ {members} }}"
    if definition not in writer.module.globals:
        writer.module.globals.append(definition)
    writer.values[op.matrixC] = "zeroinitializer"


def _multiply(writer: Writer, op: WarpgroupMmaOp) -> None:
    """One group: fence, a ``wgmma`` for each step of the folded axis, commit, wait for earlier."""
    type = cast(AccumulatorType, op.matrixC.type)
    element = cast(WarpgroupDescriptorType, op.descriptorA.type).tensor.element_type
    steps = op.depth * element_bytes(element) // STEP_BYTES
    sides = ((op.descriptorA, op.transposeA), (op.descriptorB, op.transposeB))
    descriptors = [
        _advanced(writer, descriptor, step * _step_units(element, transpose is not None))
        for step in range(steps)
        for descriptor, transpose in sides
    ]
    text = "".join(_wgmma(op, element, step) for step in range(steps))
    writer.line(writer.call("llvm.nvvm.wgmma.fence.sync.aligned", "void", []))
    values = _elements(writer, type, writer.values[op.matrixC])
    writer.values[op.matrixD] = _through(writer, type, text, values, descriptors)
    writer.line(writer.call("llvm.nvvm.wgmma.commit_group.sync.aligned", "void", []))
    waiting = [("i64", str(op.waitGroup.value.data))]
    writer.line(writer.call("llvm.nvvm.wgmma.wait_group.sync.aligned", "void", waiting))


def _step_units(element: Attribute, transposed: bool) -> int:
    """How far one step along the folded axis moves the start address.

    Along a row it is 32 bytes inside the swizzled 128; across rows, as many whole rows.
    """
    along = STEP_BYTES // element_bytes(element) * ROW_BYTES if transposed else STEP_BYTES
    return along >> _UNIT_SHIFT


def _advanced(writer: Writer, descriptor: SSAValue, units: int) -> str:
    name = writer.values[descriptor]
    return writer.temporary(f"add i64 {name}, {units}") if units else name


def _wgmma(op: WarpgroupMmaOp, element: Attribute, step: int) -> str:
    """``D = A·B + D``: scale-d 1; for floats scales of A and B 1, and whether each is transposed.

    Registers are numbered as the inline PTX has them: results, what they come from, descriptors.
    """
    type = cast(AccumulatorType, op.matrixC.type)
    columns, count = type.fragmented.get_shape()[1], type.slots
    operand = _operand_name(element)
    depth = STEP_BYTES // element_bytes(element)
    held = ", ".join(f"${n}" for n in range(count))
    flags, total = "1", "s32"
    if operand != "s8":
        flags += f", 1, 1, {int(op.transposeA is not None)}, {int(op.transposeB is not None)}"
        total = "f32"
    first = 2 * (count + step)
    return (
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{total}.{operand}.{operand} "
        f"{{{held}}}, ${first}, ${first + 1}, {flags};\\0A\\09"
    )


def _store(writer: Writer, op: StoreAccumulatorOp) -> None:
    type = cast(AccumulatorType, op.matrixD.type)
    values = _elements(writer, type, writer.values[op.matrixD])
    done = _through(writer, type, "wgmma.wait_group.sync.aligned 0;", values, [])
    element = _element(type)
    for number in range(type.slots):
        value = writer.temporary(f"extractvalue {accumulator_type(type)} {done}, {number}")
        place = writer.temporary(
            f"getelementptr inbounds {element}, {writer.typed(op.dst)}, i64 {number}"
        )
        writer.line(f"store {element} {value}, ptr {place}, align 4")


def _elements(writer: Writer, type: AccumulatorType, struct: str) -> list[str]:
    """The elements of an accumulator."""
    if struct == "zeroinitializer":
        return ["0" if _element(type) == "i32" else "0.0"] * type.slots
    return [
        writer.temporary(f"extractvalue {accumulator_type(type)} {struct}, {number}")
        for number in range(type.slots)
    ]


def _through(
    writer: Writer,
    type: AccumulatorType,
    text: str,
    values: Sequence[str],
    descriptors: Sequence[str],
) -> str:
    """Inline PTX that reads and writes an accumulator, and reads descriptors; the new struct."""
    letter = "r" if _element(type) == "i32" else "f"
    constraints = [
        *[f"={letter}"] * len(values),
        *map(str, range(len(values))),
        *["l"] * len(descriptors),
    ]
    arguments = [*((_element(type), value) for value in values), *(("i64", d) for d in descriptors)]
    passed = ", ".join(f"{kind} {value}" for kind, value in arguments)
    asm = f'asm sideeffect "{text}", "{",".join(constraints)}"'
    return writer.temporary(f"call {accumulator_type(type)} {asm}({passed})")


WARPGROUP: dict[str, Handler] = {
    "nvgpu.warpgroup.generate.descriptor": _generate,
    "nvgpu.warpgroup.mma.init.accumulator": _initialise,
    "nvgpu.warpgroup.mma": _multiply,
    "nvgpu.warpgroup.mma.store": _store,
}

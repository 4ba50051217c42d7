"""Products of a warpgroup: ``wgmma`` in inline PTX, for LLVM has no intrinsic of it.

The steps of one tile along the folded axis are one statement. An accumulator is a struct of the
elements of a thread, which passes through each statement as operands that
are read and written. What reads them comes after a wait through which they pass as well: LLVM sees
no other reason to leave it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType, VectorType
from xdsl.ir import Attribute, SSAValue

from wia_compiler.dialects.nvgpu_hopper_types import (
    AccumulatorType,
    WarpgroupDescriptorType,
    element_bytes,
)
from wia_compiler.dialects.nvgpu_warpgroup import (
    LEFT_REGISTERS,
    ROW_BYTES,
    STEP_BYTES,
    GenerateDescriptorOp,
    InitAccumulatorOp,
    LoadAccumulatorOp,
    StoreAccumulatorOp,
    WarpgroupMmaOp,
    WarpgroupMmaRegistersOp,
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
    _define(writer, op.matrixC.type)
    writer.values[op.matrixC] = "zeroinitializer"


def _define(writer: Writer, type: AccumulatorType) -> None:
    """The struct of an accumulator, among the module's types."""
    members = ", ".join([_element(type)] * type.slots)
    definition = f"{accumulator_type(type)} = type {{ {members} }}"
    if definition not in writer.module.globals:
        writer.module.globals.append(definition)


def _multiply(writer: Writer, op: WarpgroupMmaOp) -> None:
    """Both operands by descriptors, moved on from step to step."""
    element = cast(WarpgroupDescriptorType, op.descriptorA.type).tensor.element_type
    steps = op.depth * element_bytes(element) // STEP_BYTES
    left = [
        [_advanced(writer, op.descriptorA, step, transposed=op.transposeA is not None)]
        for step in range(steps)
    ]
    turns = "" if element_bytes(element) != 2 else f", {int(op.transposeA is not None)}"
    _group(writer, op, element, left, "l", turns)
    if op.waitGroup is not None:
        waiting = [("i64", str(op.waitGroup.value.data))]
        writer.line(writer.call("llvm.nvvm.wgmma.wait_group.sync.aligned", "void", waiting))


def _multiply_registers(writer: Writer, op: WarpgroupMmaRegistersOp) -> None:
    """The left operand in registers, four for each step."""
    element = cast("VectorType[Attribute]", op.fragments[0].type).element_type
    left = [_words(writer, each) for each in op.fragments]
    _group(writer, op, element, left, "r", "")


def _group(
    writer: Writer,
    op: WarpgroupMmaOp | WarpgroupMmaRegistersOp,
    element: Attribute,
    left: Sequence[Sequence[str]],
    letter: str,
    turns: str,
) -> None:
    """One group: fence, a ``wgmma`` for each step of the folded axis, commit.

    The fence is part of the statement, so that nothing that makes an operand comes after it. Sums
    of nothing are not read: the first step writes them.
    """
    type = cast(AccumulatorType, op.matrixC.type)
    held = writer.values[op.matrixC]
    is_first = held == "zeroinitializer"
    before = [] if is_first else _elements(writer, type, held)
    transposed = op.transposeB is not None
    right = [_advanced(writer, op.descriptorB, n, transposed=transposed) for n in range(len(left))]
    if element_bytes(element) == 2:
        turns += f", {int(transposed)}"
    text = "wgmma.fence.sync.aligned;\\0A\\09"
    number = type.slots + len(before)
    more: list[tuple[str, str]] = []
    for step, (own, other) in enumerate(zip(left, right, strict=True)):
        names = ", ".join(f"${number + n}" for n in range(len(own)))
        names = f"{{{names}}}" if letter == "r" else names
        keeps = int(step > 0 or not is_first)
        operands = f"{names}, ${number + len(own)}, {keeps}"
        text += _wgmma(type, element, operands, turns)
        more += [(letter, each) for each in own]
        more.append(("l", other))
        number += len(own) + 1
    writer.values[op.matrixD] = _through(writer, type, text, before, more)
    writer.line(writer.call("llvm.nvvm.wgmma.commit_group.sync.aligned", "void", []))


def _words(writer: Writer, fragment: SSAValue) -> list[str]:
    """The registers of 32 bits of a fragment."""
    words = f"<{LEFT_REGISTERS} x i32>"
    seen = writer.temporary(f"bitcast {writer.typed(fragment)} to {words}")
    return [
        writer.temporary(f"extractelement {words} {seen}, i64 {n}") for n in range(LEFT_REGISTERS)
    ]


def _advanced(writer: Writer, descriptor: SSAValue, step: int, *, transposed: bool) -> str:
    """The descriptor of a step along the folded axis: its start address moved on.

    Along a row a step is 32 bytes inside the swizzled 128, then the next panel's; across rows, as
    many whole rows as it has elements.
    """
    tile = cast(WarpgroupDescriptorType, descriptor.type).tensor
    if transposed:
        distance = step * STEP_BYTES // element_bytes(tile.element_type) * ROW_BYTES
    else:
        panel, inside = divmod(step * STEP_BYTES, ROW_BYTES)
        distance = panel * tile.get_shape()[-2] * ROW_BYTES + inside
    name = writer.values[descriptor]
    return writer.temporary(f"add i64 {name}, {distance >> _UNIT_SHIFT}") if distance else name


def _wgmma(type: AccumulatorType, element: Attribute, operands: str, turns: str) -> str:
    """``D = A·B + D`` (scale-d 1) or ``A·B``; for floats scales of A and B 1, and transposes.

    Registers are numbered as the inline PTX has them: results, what they come from, operands.
    """
    columns, operand = type.fragmented.get_shape()[1], _operand_name(element)
    depth = STEP_BYTES // element_bytes(element)
    held = ", ".join(f"${n}" for n in range(type.slots))
    scales, total = ("", "s32") if operand == "s8" else (", 1, 1", "f32")
    return (
        f"wgmma.mma_async.sync.aligned.m64n{columns}k{depth}.{total}.{operand}.{operand} "
        f"{{{held}}}, {operands}{scales}{turns};\\0A\\09"
    )


def _load(writer: Writer, op: LoadAccumulatorOp) -> None:
    type = op.matrixC.type
    _define(writer, type)
    element, struct = _element(type), "poison"
    for number in range(type.slots):
        place = _slot(writer, op.src, element, number)
        value = writer.temporary(f"load {element}, ptr {place}, align 4")
        struct = writer.temporary(
            f"insertvalue {accumulator_type(type)} {struct}, {element} {value}, {number}"
        )
    writer.values[op.matrixC] = struct


def _store(writer: Writer, op: StoreAccumulatorOp) -> None:
    type = cast(AccumulatorType, op.matrixD.type)
    values = _elements(writer, type, writer.values[op.matrixD])
    held = [("r", word) for each in op.held for word in _words(writer, each)]
    text = f"wgmma.wait_group.sync.aligned {op.running};"
    done = _through(writer, type, text, values, held)
    element = _element(type)
    for number in range(type.slots):
        value = writer.temporary(f"extractvalue {accumulator_type(type)} {done}, {number}")
        place = _slot(writer, op.dst, element, number)
        writer.line(f"store {element} {value}, ptr {place}, align 4")


def _slot(writer: Writer, slots: SSAValue, element: str, number: int) -> str:
    return writer.temporary(
        f"getelementptr inbounds {element}, {writer.typed(slots)}, i64 {number}"
    )


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
    more: Sequence[tuple[str, str]],
) -> str:
    """Inline PTX that writes an accumulator, reads what it was (``values``), and reads ``more``.

    Of those each has the letter of its constraint: ``l`` an i64, ``r`` an i32. The new struct.
    """
    letter = "r" if _element(type) == "i32" else "f"
    constraints = [
        *[f"={letter}"] * type.slots,
        *map(str, range(len(values))),
        *(each for each, _ in more),
    ]
    arguments = [
        *((_element(type), value) for value in values),
        *(({"l": "i64", "r": "i32"}[each], value) for each, value in more),
    ]
    passed = ", ".join(f"{kind} {value}" for kind, value in arguments)
    asm = f'asm sideeffect "{text}", "{",".join(constraints)}"'
    return writer.temporary(f"call {accumulator_type(type)} {asm}({passed})")


WARPGROUP: dict[str, Handler] = {
    "warpgroup.generate.descriptor": _generate,
    "warpgroup.mma.init.accumulator": _initialise,
    "warpgroup.mma": _multiply,
    "warpgroup.mma.registers": _multiply_registers,
    "warpgroup.mma.load": _load,
    "warpgroup.mma.store": _store,
}

"""What a program must keep to beyond its form: roles, dtypes, sizes and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wia_compiler.dialects.tpu.instructions import INSTRUCTIONS
from wia_compiler.dialects.tpu.machine import SystolicMachine
from wia_compiler.dialects.tpu.program import Buffer, Instruction, Window
from wia_compiler.simulators.tpu.fields import Fault, Field
from wia_compiler.simulators.tpu.operands import Names

_ARRAY_SIDE = ("load_weights", "stream_input")


def check_instruction(
    instruction: Instruction, fields: Sequence[Field], names: Names, machine: SystolicMachine
) -> None:
    """Raise ``Fault`` for operands that do not fit each other."""
    name, operands = instruction.mnemonic, instruction.operands
    if name == "loop" and operands[2] == 0:
        raise Fault("a loop's step starts at 1", fields[2].span)
    if name == "store_output":
        window = operands[0]
        assert isinstance(window, Window)
        if names.role(window.tensor) == "input":
            raise Fault(f"{window.tensor} is an input and cannot be written", fields[0].span)
    if name in ("dma_in", "clear"):
        window = operands[1]
        assert isinstance(window, Window)
        _fits(names.buffers[str(operands[0])], window, fields[1])
    if name in _ARRAY_SIDE:
        buffer = names.buffers[str(operands[1])]
        if buffer.dtype != "bf16":
            hint = f"declare {buffer.name} as bf16"
            raise Fault(
                f"the array takes bf16, {buffer.name} is {buffer.dtype}", fields[1].span, hint
            )
        rows = machine.rows if name == "load_weights" else buffer.rows
        lanes = machine.columns if name == "load_weights" else machine.rows
        if buffer.rows > rows or buffer.columns > lanes:
            raise Fault(
                f"{buffer.name} is {buffer.rows}x{buffer.columns}, {name} takes at most "
                f"{rows}x{lanes}",
                fields[1].span,
            )
    if INSTRUCTIONS[name].unit == "vector":
        _vector_operands(instruction, fields, names)


def _vector_operands(instruction: Instruction, fields: Sequence[Field], names: Names) -> None:
    parameters = INSTRUCTIONS[instruction.mnemonic].parameters
    for parameter, operand, field in zip(parameters, instruction.operands, fields, strict=True):
        if parameter.kind not in ("buffer", "value") or isinstance(operand, float):
            continue
        buffer = names.buffers[str(operand)]
        if buffer.dtype != "f32":
            raise Fault(
                f"the vector unit takes f32, {buffer.name} is {buffer.dtype}",
                field.span,
                f"declare {buffer.name} as f32",
            )


def _fits(buffer: Buffer, window: Window, field: Field) -> None:
    rows, columns = window.limits
    if rows > buffer.rows or columns > buffer.columns:
        raise Fault(
            f"a tile of {rows}x{columns} does not fit {buffer.name}, which is "
            f"{buffer.rows}x{buffer.columns}",
            field.span,
        )


def check_buffers(buffers: Sequence[Buffer], machine: SystolicMachine) -> Iterator[Fault]:
    """Faults of buffers that the memories cannot hold."""
    used_bytes = 0
    used_rows = 0
    for buffer in buffers:
        if buffer.memory == "vmem":
            used_bytes += buffer.size_bytes
            if used_bytes > machine.vmem_bytes:
                yield Fault(
                    f"{buffer.name} does not fit: buffers take {used_bytes} bytes, VMEM has "
                    f"{machine.vmem_bytes}",
                    buffer.span,
                )
            continue
        used_rows += buffer.rows * buffer.slots
        if used_rows > machine.accumulator_rows or buffer.columns > machine.columns:
            yield Fault(
                f"{buffer.name} does not fit: accumulators have {machine.accumulator_rows} rows "
                f"of {machine.columns}, this takes {used_rows} rows of {buffer.columns}",
                buffer.span,
            )

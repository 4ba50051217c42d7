"""Run a program's text: numbers on numpy, time on two clocks, counts of what was done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from wia_compiler.base.dtypes import DTYPES, from_numpy
from wia_compiler.base.errors import ArgumentError, Diagnostic, TargetError
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.tpu.machine import SPEC, SystolicMachine
from wia_compiler.dialects.tpu.program import Instruction, Loop, Program, Tensor
from wia_compiler.simulators.tpu.core import Core
from wia_compiler.simulators.tpu.counters import LineCounts
from wia_compiler.simulators.tpu.memory import Array, HbmTensor, MemoryFault, Ring
from wia_compiler.simulators.tpu.reader import read_program
from wia_compiler.simulators.tpu.short_form import expand_short_form, is_short_form


class TpuFault(TargetError):
    """A program that did what the machine forbids; ``diagnostic`` has line, caret and reason."""

    def __init__(self, diagnostic: Diagnostic):
        self.diagnostic = diagnostic
        super().__init__(diagnostic.render())

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")


@dataclass(frozen=True)
class Launch:
    """What one run counted: ``counters`` by name, ``lines`` by line of the text (from 1)."""

    counters: Mapping[str, int | float]
    lines: Mapping[int, LineCounts]


def run(
    text: str,
    tensors: Mapping[str, Array],
    *,
    weight_double_buffer: bool = False,
    machine: SystolicMachine = SPEC,
    name: str = "<tpu>",
) -> Launch:
    """Run assembly ``text`` on arrays in HBM, by the names its ``.hbm`` lines declare.

    Inputs are read, outputs written in place; both have exactly the declared shape and dtype, any
    strides. The chapter's four lines run as it writes them (``short_form``). ``CompileError`` for
    a text that is wrong, ``ArgumentError`` for arrays that do not fit it, ``TpuFault`` where the
    run reads poison or leaves its memory. With ``weight_double_buffer`` the next tile of weights
    is loaded while the current one works.
    """
    source = Source(text, name)
    if is_short_form(text):
        source = Source(expand_short_form(source, tensors, machine), name)
    program = read_program(source, machine)
    hbm = {tensor.name: _bind(tensor, tensors) for tensor in program.tensors}
    unknown = [each for each in tensors if each not in hbm]
    if unknown:
        raise ArgumentError(f"the text declares no tensor {unknown[0]!r}; it has: {', '.join(hbm)}")
    for view in program.views:
        try:
            hbm[view.name] = hbm[view.tensor].view(view)
        except MemoryFault as fault:
            raise _fault(fault, view.span, source, {}) from None
    rings = {buffer.name: Ring(buffer) for buffer in program.buffers}
    core = Core(machine, hbm, rings, weight_double_buffer)
    lines: dict[int, LineCounts] = {}
    _run(program.body, core, source, lines)
    _check_outputs(program, hbm, source)
    summary = core.counters.summary(machine, core.ideal.end, core.real.end)
    return Launch(summary, lines)


def _run(
    body: Sequence[Instruction | Loop], core: Core, source: Source, lines: dict[int, LineCounts]
) -> None:
    for each in body:
        if isinstance(each, Loop):
            for value in range(0, each.extent, each.step):
                core.registers[each.register] = value
                _run(each.body, core, source, lines)
            continue
        try:
            cycles = core.step(each)
        except MemoryFault as fault:
            raise _fault(fault, each.span, source, core.registers) from None
        counts = lines.setdefault(each.span.line, LineCounts())
        counts.executions += 1
        counts.cycles += cycles


def _fault(
    fault: MemoryFault, span: Span, source: Source, registers: Mapping[str, int]
) -> TpuFault:
    where = ", ".join(f"%{name} = {value}" for name, value in registers.items())
    message = f"{fault.message} ({where})" if where else fault.message
    return TpuFault(Diagnostic(message, span, fault.hint, source))


def _bind(tensor: Tensor, given: Mapping[str, Array]) -> HbmTensor:
    if tensor.role == "temporary":
        return HbmTensor.allocate(tensor, None)
    wanted = f"{tensor.dtype} of shape {tensor.shape}"
    if tensor.name not in given:
        raise ArgumentError(f"{tensor.role} {tensor.name} is missing: expected {wanted}")
    array = given[tensor.name]
    if array.dtype != DTYPES[tensor.dtype].numpy or array.shape != tensor.shape:
        dtype = from_numpy(array.dtype) or array.dtype
        found = f"{dtype} of shape {array.shape}"
        raise ArgumentError(f"{tensor.role} {tensor.name}: expected {wanted}, found {found}")
    return HbmTensor.allocate(tensor, array)


def _check_outputs(program: Program, hbm: Mapping[str, HbmTensor], source: Source) -> None:
    for tensor in program.tensors:
        written = hbm[tensor.name].written
        if tensor.role == "output" and written is not None and not bool(np.all(written)):
            missing = int(np.count_nonzero(~written))
            message = (
                f"{missing} of {written.size} elements of output {tensor.name} were not written"
            )
            raise TpuFault(Diagnostic(message, tensor.span, None, source))

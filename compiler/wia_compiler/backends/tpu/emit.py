"""The ``tpu`` dialect to assembly text, each instruction under the source line it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from wia_compiler.backends.tpu.spelling import ELEMENTS
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile import ForOp
from wia_compiler.dialects.tpu.machine import SystolicMachine
from wia_compiler.dialects.tpu.ops import (
    ActivateOp,
    ClearOp,
    DmaInOp,
    LoadWeightsOp,
    StoreOutputOp,
    StreamInputOp,
    SystolicExecuteOp,
    VectorAddOp,
    VectorRoundOp,
    memory_of,
)
from wia_compiler.dialects.tpu.program import (
    Axis,
    Buffer,
    Index,
    Instruction,
    Memory,
    Operand,
    Tensor,
    View,
    Window,
)
from wia_compiler.dialects.tpu.window import ONE_INDEX, WindowSpec, index_terms
from wia_compiler.passes.nests.host import HOST
from wia_compiler.passes.target import ArraySpec


@dataclass(frozen=True)
class Assembly:
    """A text with the source spans of its lines (from 1).

    ``arguments`` names the tensor of each kernel argument, ``None`` where the text needs it not.
    """

    text: str
    line_spans: Mapping[int, tuple[Span, ...]]
    arguments: tuple[str | None, ...]
    buffers: tuple[Buffer, ...]


def emit_assembly(
    module: ModuleOp,
    kernel: str,
    source: Source,
    arguments: Sequence[ArraySpec],
    machine: SystolicMachine,
) -> Assembly:
    """The text of a lowered module; ``arguments`` are the kernel's inputs, then its outputs."""
    (function,) = [op for op in module.ops if isinstance(op, func.FuncOp) and HOST in op.attributes]
    return _Emitter(source).program(function, kernel, arguments, machine)


@dataclass
class _Emitter:
    source: Source
    lines: list[str] = field(default_factory=list[str])
    line_spans: dict[int, tuple[Span, ...]] = field(default_factory=dict[int, "tuple[Span, ...]"])
    names: dict[SSAValue, str] = field(default_factory=dict[SSAValue, str])
    taken: set[str] = field(default_factory=set[str])
    shown: int = 0

    def program(
        self,
        function: func.FuncOp,
        kernel: str,
        arguments: Sequence[ArraySpec],
        machine: SystolicMachine,
    ) -> Assembly:
        body = function.body.block
        self.lines.append(f".kernel {_identifier(kernel)} {machine.name}")
        for argument, spec in zip(body.args, arguments, strict=True):
            self.names[argument] = self._unique(spec.name)
        outputs = outputs_of(function)
        used: list[str | None] = []
        for argument, spec in zip(body.args, arguments, strict=True):
            is_output = argument in outputs
            if not is_output and argument.first_use is None:
                used.append(None)
                continue
            name = self.names[argument]
            role = "output" if is_output else "input"
            self.lines.append(str(Tensor(name, spec.spec.dtype.name, spec.spec.shape, role)))
            used.append(name)
        buffers = self._declarations(body)
        self._block(body, "")
        return Assembly("\n".join([*self.lines, ""]), self.line_spans, tuple(used), buffers)

    def _declarations(self, body: Block) -> tuple[Buffer, ...]:
        buffers: list[Buffer] = []
        for op in body.ops:
            match op:
                case memref.ReinterpretCastOp():
                    self.lines.append(str(self._view(op)))
                case memref.AllocOp() if memory_of(op.memref) is None:
                    name = self._named(op.memref, "temporary")
                    type = op.memref.type
                    dtype = ELEMENTS[type.element_type]
                    self.lines.append(str(Tensor(name, dtype, type.get_shape(), "temporary")))
                case memref.AllocOp():
                    buffers.append(self._buffer(op))
                case _:
                    pass
        self.lines += [str(buffer) for buffer in buffers]
        return tuple(buffers)

    def _view(self, op: memref.ReinterpretCastOp) -> View:
        base = self.names[op.source]
        name = self._named(op.result, base)
        sizes = op.static_sizes.get_values()
        strides = op.static_strides.get_values()
        return View(name, sizes, strides, base)

    def _buffer(self, op: memref.AllocOp) -> Buffer:
        type = op.memref.type
        rows, columns = type.get_shape()
        slots = cast("IntegerAttr[Any]", op.attributes["slots"]).value.data
        name = self._unique(op.memref.name_hint or "buffer")
        self.names[op.memref] = name
        memory = cast(Memory, memory_of(op.memref))
        return Buffer(name, memory, ELEMENTS[type.element_type], rows, columns, slots)

    def _block(self, block: Block, indent: str) -> None:
        for op in block.ops:
            if isinstance(op, ForOp):
                register = self._register(op)
                head = (register, op.extent.value.data, op.step.value.data)
                self._line(op, indent, str(Instruction("loop", head)))
                self._block(op.body.block, indent + "  ")
                self._line(op, indent, "end")
            elif not isinstance(op, memref.AllocOp | memref.ReinterpretCastOp | func.ReturnOp):
                self._line(op, indent, str(Instruction(*self._instruction(op))))

    def _line(self, op: Operation, indent: str, text: str) -> None:
        spans = spans_of(op)
        if spans and spans[0].line != self.shown and text != "end":
            self.shown = spans[0].line
            said = self.source.line(self.shown).strip()
            self.lines.append(f"{indent}// {self.shown} | {said}")
            self.line_spans[len(self.lines)] = spans
        self.lines.append(indent + text)
        if spans:
            self.line_spans[len(self.lines)] = spans

    def _instruction(self, op: Operation) -> tuple[str, tuple[Operand, ...]]:
        name = self.names
        match op:
            case DmaInOp():
                assert op.tile is not None
                return "dma_in", (name[op.tile], self._window(op.tensor, op.window))
            case ClearOp():
                assert op.tile is not None
                return "clear", (name[op.tile], self._window(op.tensor, op.window))
            case StoreOutputOp():
                window = self._window(op.tensor, op.window)
                return "store_output", (window, self._held(op.tile, op.number))
            case LoadWeightsOp():
                return "load_weights", ("array", name[op.weights])
            case StreamInputOp():
                return "stream_input", ("array", name[op.input])
            case SystolicExecuteOp():
                return "systolic_execute", (op.size.data, name[op.accumulators])
            case VectorAddOp():
                right = self._held(op.right, op.number)
                return "vector_add", (name[op.destination], name[op.left], right)
            case ActivateOp():
                operands = (op.function.data, name[op.destination], name[op.source])
                return "activate", operands
            case VectorRoundOp():
                operands = (name[op.destination], name[op.source], op.dtype.data)
                return "vector_round", operands
            case _:
                raise ValueError(f"{op.name} is no instruction")

    def _held(self, value: SSAValue | None, number: Any) -> Operand:
        return self.names[value] if value is not None else float(number.value.data)

    def _window(self, tensor: SSAValue, window: WindowSpec) -> Window:
        axes: list[Axis] = []
        for start, length, clip in zip(
            window.starts.results, window.lengths, window.clips, strict=True
        ):
            constant, terms = index_terms(start)
            registers = tuple((self.names[window.ivs[n]], factor) for n, factor in terms.items())
            whole = None if length == ONE_INDEX else length
            axes.append(Axis(Index(constant, registers), whole, clip))
        return Window(self.names[tensor], tuple(axes), window.transposed)

    def _register(self, op: ForOp) -> str:
        """The loop's register: the axis's name, told apart from those of the loops around it."""
        outer: set[str] = set()
        parent = op.parent_op()
        while isinstance(parent, ForOp):
            outer.add(self.names[parent.induction_variable])
            parent = parent.parent_op()
        wanted = _identifier(op.induction_variable.name_hint or "n")
        name = wanted
        while name in outer:
            name += "_"
        self.names[op.induction_variable] = name
        return name

    def _named(self, value: SSAValue, otherwise: str) -> str:
        self.names[value] = self._unique(value.name_hint or otherwise)
        return self.names[value]

    def _unique(self, wanted: str) -> str:
        base = _identifier(wanted)
        name, number = base, 1
        while name in self.taken:
            name, number = f"{base}_{number}", number + 1
        self.taken.add(name)
        return name


def outputs_of(function: func.FuncOp) -> set[SSAValue]:
    """The kernel's outputs: arguments that are stored to, themselves or through a view.

    The last argument is one too: nothing is stored to it where it has no elements.
    """
    found: set[SSAValue] = set(function.body.block.args[-1:])
    for op in function.walk():
        if isinstance(op, StoreOutputOp):
            owner = op.tensor.owner
            viewed = isinstance(owner, memref.ReinterpretCastOp)
            found.add(owner.source if viewed else op.tensor)
    return found


def _identifier(name: str) -> str:
    cleaned = re.sub(r"\W", "_", name) or "_"
    return cleaned if not cleaned[0].isdigit() else f"_{cleaned}"

"""Assembly text, ours or anyone's, to a checked program: every fault with its line and caret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.tpu.instructions import INSTRUCTIONS, TENSOR_DTYPES
from wia_compiler.dialects.tpu.machine import SystolicMachine
from wia_compiler.dialects.tpu.program import (
    Buffer,
    Instruction,
    Loop,
    Program,
    Tensor,
    View,
)
from wia_compiler.simulators.tpu.fields import Fault, Field, closest, split_fields
from wia_compiler.simulators.tpu.operands import Names, read_operand
from wia_compiler.simulators.tpu.rules import check_buffers, check_instruction

_ROLES = ("input", "output", "temporary")
_NAME = re.compile(r"[^\W\d]\w*\Z")


@dataclass
class _OpenLoop:
    head: Instruction
    body: list[Instruction | Loop] = field(default_factory=list["Instruction | Loop"])


class Reader:
    """Reads one text line by line; faults are collected and raised together."""

    def __init__(self, source: Source, machine: SystolicMachine):
        self.source = source
        self.machine = machine
        self.names = Names({}, {}, {}, [])
        self.kernel: str | None = None
        self.stack = [_OpenLoop(Instruction("", ()))]
        self.diagnostics: list[Diagnostic] = []

    def program(self) -> Program:
        """The program that the text holds; ``CompileError`` lists every line that is wrong."""
        for number, line in enumerate(self.source.text.split("\n"), 1):
            text = line.partition("//")[0].rstrip()
            if not text.strip():
                continue
            try:
                self._line(Field(text, number, 1).strip())
            except Fault as fault:
                self._report(fault)
        if self.kernel is None:
            first = Span(1, 1, 1, 1)
            self._report(Fault("the text has no .kernel line", first, "write: .kernel f tpu:spec"))
        for unclosed in self.stack[1:]:
            self._report(Fault("the loop has no end", unclosed.head.span, "add a line: end"))
        for fault in check_buffers(tuple(self.names.buffers.values()), self.machine):
            self._report(fault)
        if self.diagnostics:
            raise CompileError(self.diagnostics)
        return Program(
            name=str(self.kernel),
            machine=self.machine.name,
            tensors=tuple(self.names.tensors.values()),
            views=tuple(self.names.views.values()),
            buffers=tuple(self.names.buffers.values()),
            body=tuple(self.stack[0].body),
        )

    def _report(self, fault: Fault) -> None:
        self.diagnostics.append(Diagnostic(fault.message, fault.span, fault.hint, self.source))

    def _line(self, line: Field) -> None:
        word, rest = line.word()
        if word.text.startswith("."):
            self._directive(word, rest)
        elif word.text in INSTRUCTIONS:
            self._instruction(word, rest, line.span)
        else:
            raise Fault(
                f"unknown instruction {word.text!r}",
                word.span,
                closest(word.text, INSTRUCTIONS) or f"there are: {', '.join(INSTRUCTIONS)}",
            )

    def _instruction(self, word: Field, rest: Field, span: Span) -> None:
        row = INSTRUCTIONS[word.text]
        fields = split_fields(rest)
        if len(fields) != len(row.parameters):
            raise Fault(
                f"{word.text} takes {len(row.parameters)} operands, found {len(fields)}",
                span,
                f"write: {row.form}",
            )
        operands = tuple(
            read_operand(each, parameter, self.names, self.machine)
            for each, parameter in zip(fields, row.parameters, strict=True)
        )
        instruction = Instruction(word.text, operands, span)
        check_instruction(instruction, fields, self.names, self.machine)
        if word.text == "loop":
            self.stack.append(_OpenLoop(instruction))
            self.names.registers.append(str(operands[0]))
        elif word.text == "end":
            self._end(span)
        else:
            self.stack[-1].body.append(instruction)

    def _end(self, span: Span) -> None:
        if len(self.stack) == 1:
            raise Fault("end without a loop", span, "remove it, or open a loop above")
        closed = self.stack.pop()
        register, extent, step = closed.head.operands
        self.names.registers.pop()
        assert isinstance(extent, int) and isinstance(step, int)
        loop = Loop(closed.head, str(register), extent, step, tuple(closed.body))
        self.stack[-1].body.append(loop)

    def _directive(self, word: Field, rest: Field) -> None:
        words = rest.words()
        match word.text:
            case ".kernel":
                self._kernel(word, words)
            case ".hbm":
                self._tensor(word, words)
            case ".view":
                self._view(word, words)
            case ".vmem" | ".accumulators":
                self._buffer(word, words)
            case _:
                known = (".kernel", ".hbm", ".view", ".vmem", ".accumulators")
                hint = closest(word.text, known) or f"there are: {', '.join(known)}"
                raise Fault(f"unknown directive {word.text!r}", word.span, hint)

    def _kernel(self, word: Field, words: list[Field]) -> None:
        if len(words) != 2:
            raise Fault("expected .kernel NAME MACHINE", word.span, "write: .kernel f tpu:spec")
        if words[1].text != self.machine.name:
            raise Fault(
                f"the text is for {words[1].text!r}, this machine is {self.machine.name}",
                words[1].span,
            )
        self.kernel = words[0].text

    def _tensor(self, word: Field, words: list[Field]) -> None:
        if len(words) != 4:
            raise Fault(
                "expected .hbm NAME DTYPE SIZES ROLE", word.span, "write: .hbm A f32 128x64 input"
            )
        name, dtype, sizes, role = words
        self._new(name, {**self.names.tensors, **self.names.views})
        _one_of(dtype, TENSOR_DTYPES, "dtype")
        _one_of(role, _ROLES, "role")
        shape = () if sizes.text == "scalar" else _sizes(sizes, 1)
        self.names.tensors[name.text] = Tensor(
            name.text,
            dtype.text,
            shape,
            role.text,  # pyright: ignore[reportArgumentType]
            name.span,
        )

    def _view(self, word: Field, words: list[Field]) -> None:
        if len(words) != 6 or (words[2].text, words[4].text) != ("strides", "of"):
            raise Fault(
                "expected .view NAME SIZES strides STRIDES of TENSOR",
                word.span,
                "write: .view A_1 6x4 strides 4x1 of A",
            )
        name, sizes, _, steps, _, tensor = words
        self._new(name, {**self.names.tensors, **self.names.views})
        if tensor.text not in self.names.tensors:
            hint = closest(tensor.text, self.names.tensors) or "declare it with .hbm"
            raise Fault(f"no tensor {tensor.text!r}", tensor.span, hint)
        shape = () if sizes.text == "scalar" else _sizes(sizes, 1)
        found = [] if steps.text == "none" else steps.text.split("x")
        if len(found) != len(shape) or not all(re.fullmatch(r"-?\d+", each) for each in found):
            raise Fault(f"expected {len(shape)} strides, found {steps.text!r}", steps.span)
        strides = tuple(map(int, found))
        self.names.views[name.text] = View(name.text, shape, strides, tensor.text, name.span)

    def _buffer(self, word: Field, words: list[Field]) -> None:
        on_chip = word.text == ".vmem"
        form = ".vmem NAME DTYPE ROWSxCOLUMNS" if on_chip else ".accumulators NAME ROWSxCOLUMNS"
        wanted = 3 if on_chip else 2
        slots = 1
        if len(words) == wanted + 2 and words[wanted].text == "slots":
            slots = _sizes(words[wanted + 1], 1)[0]
            words = words[:wanted]
        if len(words) != wanted:
            raise Fault(f"expected {form} [slots N]", word.span)
        self._new(words[0], self.names.buffers)
        dtype = "f32"
        if on_chip:
            _one_of(words[1], TENSOR_DTYPES, "dtype")
            dtype = words[1].text
        shape = _sizes(words[-1], 2)
        if len(shape) != 2 or min(*shape, slots) < 1:
            raise Fault("a buffer has rows, columns and slots from 1", words[-1].span)
        memory = "vmem" if on_chip else "accumulators"
        name = words[0]
        self.names.buffers[name.text] = Buffer(name.text, memory, dtype, *shape, slots, name.span)

    def _new(self, name: Field, owners: Mapping[str, Tensor | View | Buffer]) -> None:
        if not _NAME.match(name.text):
            raise Fault(f"{name.text!r} is not a name", name.span, "use letters, digits and _")
        if name.text in owners:
            line = owners[name.text].span.line
            raise Fault(f"{name.text} is already declared on line {line}", name.span)


def read_program(source: Source, machine: SystolicMachine) -> Program:
    """The program in ``source``; raises ``CompileError`` with every fault."""
    return Reader(source, machine).program()


def _one_of(word: Field, known: tuple[str, ...], what: str) -> None:
    if word.text not in known:
        raise Fault(f"unknown {what} {word.text!r}", word.span, f"there are: {', '.join(known)}")


def _sizes(word: Field, at_least: int) -> tuple[int, ...]:
    parts = word.text.split("x")
    if not all(part.isdecimal() for part in parts) or len(parts) < at_least:
        raise Fault(f"{word.text!r} is not a size", word.span, "write sizes as 128x64")
    return tuple(map(int, parts))

"""The four lines of the chapter, as it writes them, made into a whole program.

::

    load_weights A, weight_buffer          .hbm A f32 64x100 input …
    stream_input B, input_buffer       →   dma_in weight_buffer, A[0 : 64, 0 : 100] transposed
    systolic_execute 128x128               load_weights array, weight_buffer …
    store_output C, output_buffer

``C = A @ B`` with ``A`` in the array: its transpose is the weights, the columns of ``B`` stream
past it and leave as columns of ``C``. Sizes and dtypes are those of the arrays passed in, which
must fit one pass: what is larger is the compiler's business.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from wia_compiler.base.dtypes import from_numpy
from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.dialects.tpu.instructions import TENSOR_DTYPES
from wia_compiler.dialects.tpu.machine import SystolicMachine
from wia_compiler.simulators.tpu.fields import Fault, Field, closest, split_fields
from wia_compiler.simulators.tpu.memory import Array

_FORMS = {
    "load_weights": "load_weights A, weight_buffer",
    "stream_input": "stream_input B, input_buffer",
    "systolic_execute": "systolic_execute 128x128",
    "store_output": "store_output C, output_buffer",
}
_TITLE = "TPU Assembly:"


def is_short_form(text: str) -> bool:
    """Whether a text is the chapter's form: one of its four lines, and no declaration."""
    lines = [line.partition("//")[0].strip() for line in text.split("\n")]
    return not any(line.startswith(".") for line in lines) and any(
        line.partition(" ")[0] in _FORMS for line in lines
    )


def expand_short_form(
    source: Source, tensors: Mapping[str, Array], machine: SystolicMachine
) -> str:
    """The whole program for these arrays; ``CompileError`` shows each line that does not fit."""
    expansion = _Expansion(tensors, machine)
    diagnostics: list[Diagnostic] = []
    for number, line in enumerate(source.text.split("\n"), start=1):
        text = line.partition("//")[0].rstrip()
        if not text.strip() or text.strip() == _TITLE:
            continue
        try:
            expansion.line(Field(text, number, 1).strip())
        except Fault as fault:
            diagnostics.append(Diagnostic(fault.message, fault.span, fault.hint, source))
    if diagnostics:
        raise CompileError(diagnostics)
    return expansion.text()


@dataclass
class _Expansion:
    tensors: Mapping[str, Array]
    machine: SystolicMachine
    roles: dict[str, str] = field(default_factory=dict[str, str])
    buffers: dict[str, str] = field(default_factory=dict[str, str])
    code: list[str] = field(default_factory=list[str])
    executed: int | None = None

    def line(self, line: Field) -> None:
        """Add one line of the short form."""
        word, rest = line.word()
        fields = split_fields(rest)
        form = _FORMS.get(word.text)
        if form is None:
            hint = closest(word.text, _FORMS) or f"there are: {', '.join(_FORMS)}"
            raise Fault(f"unknown instruction {word.text!r}", word.span, hint)
        if len(fields) != (1 if word.text == "systolic_execute" else 2):
            raise Fault(f"{word.text} without declarations has another form", line.span, form)
        if word.text == "systolic_execute":
            self._execute(fields[0])
            return
        rows, columns = self._shape(fields[0])
        window = f"{fields[0].text}[0 : {rows}, 0 : {columns}] transposed"
        buffer = fields[1].text
        if word.text == "store_output":
            self._store(fields[0], buffer, window, columns)
            return
        if word.text == "load_weights" and max(rows, columns) > self.machine.rows:
            raise Fault(
                f"{fields[0].text} is {rows}x{columns}, the array holds {self.machine.size}",
                fields[0].span,
                'compile the kernel for "tpu:spec", which cuts it into tiles',
            )
        self.roles.setdefault(fields[0].text, "input")
        self.buffers[buffer] = f".vmem {buffer} bf16 {max(1, columns)}x{self.machine.rows}"
        self.code += [f"dma_in {buffer}, {window}", f"{word.text} array, {buffer}"]

    def text(self) -> str:
        """The program."""
        declared = [
            f".hbm {name} {from_numpy(self.tensors[name].dtype)} "
            f"{'x'.join(map(str, self.tensors[name].shape))} {role}"
            for name, role in self.roles.items()
        ]
        head = f".kernel short_form {self.machine.name}"
        return "\n".join([head, *declared, *self.buffers.values(), *self.code, ""])

    def _execute(self, size: Field) -> None:
        self.executed = len(self.code)
        if size.text != self.machine.size:
            raise Fault(f"the array is {self.machine.size}, found {size.text!r}", size.span)

    def _store(self, name: Field, buffer: str, window: str, columns: int) -> None:
        if self.executed is None:
            raise Fault("nothing was executed before", name.span, "systolic_execute first")
        self.roles[name.text] = "output"
        self.buffers[buffer] = f".accumulators {buffer} {max(1, columns)}x{self.machine.columns}"
        # Only now it is known where the sums go, and how many there are.
        self.code[self.executed : self.executed] = [
            f"clear {buffer}, {window}",
            f"systolic_execute {self.machine.size}, {buffer}",
        ]
        self.code.append(f"store_output {window}, {buffer}")
        self.executed = None

    def _shape(self, name: Field) -> tuple[int, int]:
        array = self.tensors.get(name.text)
        if array is None:
            hint = closest(name.text, self.tensors) or f"there are: {', '.join(self.tensors)}"
            raise Fault(f"no array {name.text!r} was passed in", name.span, hint)
        dtype = from_numpy(array.dtype)
        if array.ndim != 2 or dtype is None or dtype.name not in TENSOR_DTYPES:
            raise Fault(
                f"{name.text} is {dtype or array.dtype} of shape {array.shape}",
                name.span,
                "pass a matrix of f32, bf16 or f16",
            )
        return array.shape[0], array.shape[1]

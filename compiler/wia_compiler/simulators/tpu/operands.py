"""One operand of an instruction: its text to a value of the kind that the table asks for."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from wia_compiler.dialects.tpu.instructions import (
    FUNCTIONS,
    TENSOR_DTYPES,
    OperandKind,
    Parameter,
)
from wia_compiler.dialects.tpu.machine import SystolicMachine
from wia_compiler.dialects.tpu.program import Axis, Buffer, Index, Operand, Tensor, View, Window
from wia_compiler.simulators.tpu.fields import Fault, Field, closest, split_fields


@dataclass
class Names:
    """What the lines above declared, and the registers of the open loops."""

    tensors: dict[str, Tensor]
    views: dict[str, View]
    buffers: dict[str, Buffer]
    registers: list[str]

    def tensor(self, name: str) -> Tensor | View | None:
        """The tensor or view of that name."""
        return self.tensors.get(name) or self.views.get(name)

    def role(self, name: str) -> str:
        """The role of a tensor, or of the tensor that a view shows."""
        view = self.views.get(name)
        return self.tensors[view.tensor if view is not None else name].role


_REGISTER = re.compile(r"%([^\W\d]\w*)\Z")
_TERM = re.compile(r"(?:(\d+)\s*\*\s*)?%([^\W\d]\w*)\Z")
_RUN = re.compile(r"(\d+)(\s+clip)?\Z")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*([eE][-+]?\d+)?|\.\d+|inf|nan)\Z")


def read_operand(
    field: Field, parameter: Parameter, names: Names, machine: SystolicMachine
) -> Operand:
    """The operand that ``field`` holds; raises ``Fault`` with what was expected."""
    return _READERS[parameter.kind](field, parameter, names, machine)


def _array(field: Field, parameter: Parameter, names: Names, machine: SystolicMachine) -> Operand:
    if field.text != "array":
        raise Fault(f"expected the word array, found {field.text!r}", field.span)
    return "array"


def _size(field: Field, parameter: Parameter, names: Names, machine: SystolicMachine) -> Operand:
    if field.text != machine.size:
        raise Fault(f"the array is {machine.size}, found {field.text!r}", field.span)
    return field.text


def _word(known: tuple[str, ...], what: str) -> Callable[..., Operand]:
    def read(field: Field, *_: object) -> Operand:
        if field.text not in known:
            hint = f"there are: {', '.join(known)}"
            raise Fault(f"unknown {what} {field.text!r}", field.span, hint)
        return field.text

    return read


def _count(field: Field, parameter: Parameter, names: Names, machine: SystolicMachine) -> Operand:
    if not field.text.isdecimal():
        raise Fault(f"{parameter.name} is a whole number, found {field.text!r}", field.span)
    return int(field.text)


def _register(
    field: Field, parameter: Parameter, names: Names, machine: SystolicMachine
) -> Operand:
    found = _REGISTER.match(field.text)
    if found is None:
        raise Fault(f"expected a register, found {field.text!r}", field.span, "write: %i")
    if found[1] in names.registers:
        raise Fault(f"%{found[1]} already counts a loop around this one", field.span)
    return found[1]


def _storage(field: Field, parameter: Parameter, names: Names, machine: SystolicMachine) -> Operand:
    buffer = names.buffers.get(field.text)
    if buffer is None:
        declare = ".accumulators" if parameter.kind == "accumulators" else ".vmem"
        hint = closest(field.text, names.buffers) or f"declare it with {declare}"
        raise Fault(f"{parameter.name}: no buffer {field.text!r}", field.span, hint)
    wanted = {"buffer": "vmem", "accumulators": "accumulators"}.get(parameter.kind, buffer.memory)
    if buffer.memory != wanted:
        raise Fault(
            f"{parameter.name} is in {wanted}, {field.text} is in {buffer.memory}", field.span
        )
    return field.text


def _value(field: Field, parameter: Parameter, names: Names, machine: SystolicMachine) -> Operand:
    if _NUMBER.match(field.text):
        return float(field.text)
    return _storage(field, parameter, names, machine)


def _window(field: Field, parameter: Parameter, names: Names, machine: SystolicMachine) -> Operand:
    body, transposed = field, False
    if field.text.endswith("transposed"):
        body, transposed = field.part(0, -len("transposed")).strip(), True
    opening = body.text.find("[")
    if opening < 1 or not body.text.endswith("]"):
        raise Fault(
            f"{parameter.name} is a window, found {field.text!r}",
            field.span,
            "write: A[%i : 128, %k : 128 clip]",
        )
    name = body.part(0, opening).strip()
    tensor = names.tensor(name.text)
    if tensor is None:
        hint = closest(name.text, [*names.tensors, *names.views]) or "declare it with .hbm"
        raise Fault(f"no tensor {name.text!r}", name.span, hint)
    parts = split_fields(body.part(opening + 1, -1).strip())
    if len(parts) != len(tensor.shape):
        raise Fault(
            f"{name.text} has {len(tensor.shape)} axes, the window has {len(parts)}", body.span
        )
    axes = tuple(_axis(part, names) for part in parts)
    runs = sum(axis.length is not None for axis in axes)
    if runs > 2:
        raise Fault(f"a window has at most two runs, found {runs}", body.span)
    for part, axis, size in zip(parts, axes, tensor.shape, strict=True):
        if not axis.start.terms and axis.start.constant >= size > 0:
            raise Fault(f"index {axis.start} is outside an axis of {size}", part.span)
    return Window(name.text, axes, transposed)


def _axis(part: Field, names: Names) -> Axis:
    colon = part.text.find(":")
    if colon < 0:
        return Axis(_index(part, names))
    run = part.part(colon + 1).strip()
    found = _RUN.match(run.text)
    if found is None:
        raise Fault(f"expected a length, found {run.text!r}", run.span, "write: start : length")
    return Axis(_index(part.part(0, colon).strip(), names), int(found[1]), bool(found[2]))


def _index(field: Field, names: Names) -> Index:
    constant = 0
    terms: list[tuple[str, int]] = []
    for term in split_fields(field, "+") or [field]:
        found = _TERM.match(term.text)
        if term.text.isdecimal():
            constant += int(term.text)
        elif found is None:
            raise Fault(f"{term.text!r} is not an index", term.span, "write: %i + 2*%j + 1")
        elif found[2] not in names.registers:
            raise Fault(
                f"%{found[2]} is not set here",
                term.span,
                closest(found[2], names.registers) or "a register lives inside its loop",
            )
        else:
            terms.append((found[2], int(found[1] or 1)))
    return Index(constant, tuple(terms))


_READERS: dict[OperandKind, Callable[[Field, Parameter, Names, SystolicMachine], Operand]] = {
    "array": _array,
    "buffer": _storage,
    "accumulators": _storage,
    "value": _value,
    "window": _window,
    "size": _size,
    "function": _word(FUNCTIONS, "function"),
    "dtype": _word(TENSOR_DTYPES, "dtype"),
    "register": _register,
    "count": _count,
}

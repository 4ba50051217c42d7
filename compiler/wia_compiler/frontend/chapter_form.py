"""High-level functions in the notation that WIA-AI-011 prints in section 5.1.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from wia_compiler.dialects.types import Value, dtype_of, spec_of
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    FusedOp,
    LiteralType,
    TensorOp,
)

_INDENT = "    "
_COLUMNS = 57
"""The specification breaks its matmul line, which would take 58 columns, before the arrow."""


def chapter_text(function: func.FuncOp) -> str:
    """A function as ``func @name(%A: tensor, …) -> tensor { %C = tensor.matmul %A, %B : … }``.

    Before specialisation every array is ``tensor``, after it ``tensor<4x8xf32>``. Declared types
    are checks, not values, and are not shown.
    """
    names = _Names(function)
    block = function.body.block
    arguments = [f"%{names[each]}: {_type(each.type)}" for each in block.args]
    lines = [f"func @{function.sym_name.data}({_parameters(arguments)}){_results(function)} {{"]
    for op in block.ops:
        if not isinstance(op, DeclareOp):
            lines.extend(_INDENT + line for line in _op_lines(op, names))
    return "\n".join([*lines, "}"])


def _parameters(arguments: Sequence[str]) -> str:
    if len(arguments) < 2:
        return "".join(arguments)
    rows = ",\n".join(_INDENT + argument for argument in arguments)
    return f"\n{rows}\n"


def _results(function: func.FuncOp) -> str:
    types = [_type(each) for each in function.function_type.outputs.data]
    return f" -> {_list(types)}" if types else ""


def _op_lines(op: Operation, names: _Names) -> list[str]:
    operands = ", ".join(f"%{names[value]}" for value in op.operands)
    match op:
        case func.ReturnOp():
            return [f"return {operands}".rstrip()]
        case ConstantOp():
            value = str(op.number).lower()
            return [f"{_left(op, names)}tensor.constant {value} : {_type(op.result.type)}"]
        case FusedOp():
            head = f"{_left(op, names)}{op.kernel_name.data}({operands}) : "
        case func.CallOp():
            head = f"{_left(op, names)}call @{op.callee.string_value()}({operands}) : "
        case TensorOp():
            name = op.name.removeprefix("wia.")
            head = f"{_left(op, names)}tensor.{name} {operands}{_attributes(op)} : "
        case _:
            head = f"{_left(op, names)}{op.name} {operands} : "
    return _typed(head, op)


def _left(op: Operation, names: _Names) -> str:
    results = ", ".join(f"%{names[value]}" for value in op.results)
    return f"{results} = " if results else ""


def _typed(head: str, op: Operation) -> list[str]:
    """The op with its types; the arrow goes under the parenthesis where the line is long."""
    taken = f"({', '.join(_type(value.type) for value in op.operands)})"
    given = f"-> {_list([_type(value.type) for value in op.results])}"
    whole = f"{head}{taken} {given}"
    if len(_INDENT) + len(whole) <= _COLUMNS:
        return [whole]
    return [head + taken, " " * len(head) + given]


def _attributes(op: TensorOp) -> str:
    """What the call gives beyond the defaults of the op."""
    defaults = {p.name: p.default for p in op.declaration.attribute_parameters}
    given = {name: value for name, value in op.values.items() if value != defaults.get(name)}
    shown = ", ".join(f"{name} = {_literal(value)}" for name, value in given.items())
    return f" {{{shown}}}" if shown else ""


def _literal(value: Value) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return f"[{', '.join(_literal(item) for item in value)}]"
    return "none" if value is None else str(value).lower()


def _list(types: Sequence[str]) -> str:
    return types[0] if len(types) == 1 else f"({', '.join(types)})"


def _type(attribute: Attribute) -> str:
    if isinstance(attribute, AnyTensorType | LiteralType):
        return "tensor"
    if isinstance(attribute, TensorType):
        return str(spec_of(cast(Attribute, attribute)))
    return str(dtype_of(attribute))


class _Names:
    """One name a value: the user's, else a number; a declared value has its input's."""

    def __init__(self, function: func.FuncOp):
        self._names: dict[SSAValue, str] = {}
        self._taken: set[str] = set()
        self._next = 0
        block = function.body.block
        made = (op.results for op in block.ops if not isinstance(op, DeclareOp))
        for value in (*block.args, *(value for results in made for value in results)):
            self._names[value] = self._fresh(value)

    def __getitem__(self, value: SSAValue) -> str:
        while isinstance(value.owner, DeclareOp):
            value = value.owner.input
        return self._names[value]

    def _fresh(self, value: SSAValue) -> str:
        hint = value.name_hint
        if hint is None:
            name = str(self._next)
            self._next += 1
            return name
        name, count = hint, 0
        while name in self._taken:
            count += 1
            name = f"{hint}_{count}"
        self._taken.add(name)
        return name

"""High-level functions in the notation that WIA-AI-011 prints in sections 5.1.1 and 5.2.1.

What is printed of tensor ops and branches parses back to the same function (``func @name`` in
grammar.lark); loops over elements are shown by their name alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import TensorType
from xdsl.dialects.cf import BranchOp, ConditionalBranchOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.base.signature import DeclaredType
from wia_compiler.dialects.types import Value, dtype_of, spec_of
from wia_compiler.dialects.wia.bound import BoundOp
from wia_compiler.dialects.wia.control import ConditionOp
from wia_compiler.dialects.wia.ops import (
    AnyTensorType,
    ConstantOp,
    DeclareOp,
    FusedOp,
    LiteralType,
    TensorOp,
)
from wia_compiler.dialects.wia.size import SizeOp

_INDENT = "    "
_COLUMNS = 57
"""The specification breaks its matmul line, which would take 58 columns, before the arrow."""


def chapter_text(function: func.FuncOp) -> str:
    """A function as ``func @name(%A: tensor, …) -> tensor { %C = tensor.matmul %A, %B : … }``.

    Before specialisation an array is ``tensor``, or has the type that the text declares, after it
    ``tensor<4x8xf32>``.
    """
    names = _Names(function)
    blocks = list(function.body.blocks)
    arguments = [f"%{names[each]}: {_type(each)}" for each in blocks[0].args]
    lines = [f"func @{function.sym_name.data}({_parameters(arguments)}){_results(blocks)} {{"]
    for block in blocks:
        if block is not blocks[0]:
            lines.extend(["", f"{_label(block, names)}:"])
        for op in block.ops:
            lines.extend(_INDENT + line for line in _op_lines(op, names))
    return "\n".join([*lines, "}"])


def _parameters(arguments: Sequence[str]) -> str:
    if len(arguments) < 2:
        return "".join(arguments)
    rows = ",\n".join(_INDENT + argument for argument in arguments)
    return f"\n{rows}\n"


def _results(blocks: Sequence[Block]) -> str:
    for block in blocks:
        if isinstance(block.last_op, func.ReturnOp):
            types = [_type(each) for each in block.last_op.operands]
            return f" -> {_list(types)}" if types else ""
    return ""


def _label(block: Block, names: _Names) -> str:
    taken = ", ".join(f"%{names[each]}: {_type(each)}" for each in block.args)
    return f"^{names.labels[block]}{f'({taken})' if taken else ''}"


def _op_lines(op: Operation, names: _Names) -> list[str]:
    operands = ", ".join(f"%{names[value]}" for value in op.operands)
    match op:
        case _ if _is_unshown(op):
            return []
        case BoundOp():
            head = f'{_left(op, names)}tensor.cast {operands} {{dtype = "i64"}} : '
        case func.ReturnOp():
            return [f"return {operands}".rstrip()]
        case BranchOp():
            return [f"br {_target(op.successor, op.arguments, names)}"]
        case ConditionalBranchOp():
            first = _target(op.then_block, op.then_arguments, names)
            second = _target(op.else_block, op.else_arguments, names)
            return [f"cond_br %{names[op.cond]}, {first}, {second}"]
        case ConstantOp():
            value = str(op.number).lower()
            return [f"{_left(op, names)}tensor.constant {value} : {_type(op.result)}"]
        case SizeOp():
            return [f"{_left(op, names)}{op.size.data}"]
        case FusedOp():
            head = f"{_left(op, names)}{op.kernel_name.data}({operands}) : "
        case func.CallOp():
            head = f"{_left(op, names)}call @{op.callee.string_value()}({operands}) : "
        case TensorOp():
            name = op.name.removeprefix("wia.")
            shown = f"{_operands(op, names)}{_attributes(op)}".lstrip()
            head = f"{_left(op, names)}tensor.{name} {shown} : "
        case _:
            head = f"{_left(op, names)}{op.name} {operands} : "
    return _typed(head, op)


def _is_unshown(op: Operation | Block) -> bool:
    """Whether an op is a check: what it gives is called as what it takes."""
    if isinstance(op, BoundOp):
        return isinstance(op.input.type, LiteralType)
    return isinstance(op, DeclareOp | ConditionOp)


def _target(block: Block, passed: Sequence[SSAValue], names: _Names) -> str:
    given = ", ".join(f"%{names[value]}" for value in passed)
    return f"^{names.labels[block]}{f'({given})' if given else ''}"


def _left(op: Operation, names: _Names) -> str:
    results = ", ".join(f"%{names[value]}" for value in op.results)
    return f"{results} = " if results else ""


def _operands(op: TensorOp, names: _Names) -> str:
    """Operands in order; behind an optional one that was left out they are named."""
    expected = [p.name for p in op.declaration.tensor_parameters if p.kind != "tensors"]
    shown: list[str] = []
    for place, (name, value) in enumerate(zip(op.given, op.arguments, strict=True)):
        in_order = name not in expected or expected[place : place + 1] == [name]
        shown.append(f"%{names[value]}" if in_order else f"{name} = %{names[value]}")
    return ", ".join(shown)


def _typed(head: str, op: Operation) -> list[str]:
    """The op with its types; the arrow goes under the parenthesis where the line is long."""
    taken = f"({', '.join(_type(value) for value in op.operands)})"
    given = f"-> {_list([_type(value) for value in op.results])}"
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


def _type(value: SSAValue) -> str:
    attribute: Attribute = value.type
    owner = value.owner
    if isinstance(owner, BoundOp):
        is_typed = not isinstance(owner.input.type, AnyTensorType | LiteralType)
        return "tensor<i64>" if is_typed else _type(owner.input)
    if isinstance(attribute, AnyTensorType | LiteralType):
        return _declared(value)
    if isinstance(attribute, TensorType):
        return str(spec_of(cast(Attribute, attribute)))
    return str(dtype_of(attribute))


def _declared(value: SSAValue) -> str:
    """The type that the text declares for a value whose shape is not known yet."""
    owner = value.owner
    users = [use.operation for use in value.uses]
    if isinstance(owner, ConstantOp) and any(isinstance(op, BoundOp) for op in users):
        return "i64"
    checks = [owner] if isinstance(owner, DeclareOp) else users
    for op in checks:
        if isinstance(op, DeclareOp):
            return str(DeclaredType(op.declared_dims, op.declared_dtype))
    return "tensor"


class _Names:
    """One name a value: the user's, else a number; a declared value has its input's."""

    def __init__(self, function: func.FuncOp):
        self._names: dict[SSAValue, str] = {}
        self._taken: set[str] = set()
        self._next = 0
        self.labels: dict[Block, str] = {}
        for number, block in enumerate(function.body.blocks):
            self.labels[block] = self._label(block, number)
            for value in block.args:
                self._names[value] = self._fresh(value)
            for op in block.ops:
                for value in () if _is_unshown(op) else op.results:
                    self._names[value] = self._fresh(value)

    def __getitem__(self, value: SSAValue) -> str:
        owner = value.owner
        while isinstance(owner, DeclareOp | ConditionOp | BoundOp) and _is_unshown(owner):
            value = owner.input
            owner = value.owner
        return self._names[value]

    def _label(self, block: Block, number: int) -> str:
        hint = block.name_hint or f"bb{number}"
        name, count = hint, 0
        while name in self.labels.values():
            count += 1
            name = f"{hint}_{count}"
        return name

    def _fresh(self, value: SSAValue) -> str:
        hint = value.name_hint or self._declared_hint(value)
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

    def _declared_hint(self, value: SSAValue) -> str | None:
        """What a value without a name of its own is called once it has its declared type."""
        for use in value.uses:
            if isinstance(use.operation, DeclareOp) and use.operation.result.name_hint is not None:
                return use.operation.result.name_hint
        return None

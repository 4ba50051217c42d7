"""The body of an entry: registers, variables, labels and instructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from wia_compiler.base.source import Span
from wia_compiler.simulators.ptx.cursor import Cursor, integer_of
from wia_compiler.simulators.ptx.parse_variables import parse_variables
from wia_compiler.simulators.ptx.syntax import (
    Address,
    Group,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
)
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.carry import CARRY, TAKES

_CACHE_HINT = "L2::cache_hint"
Named = TypeVar("Named", bound=Register | Symbol)


@dataclass
class Body:
    """What stands between the braces of an entry, while it is read.

    ``hidden`` are, for each open block, registers that it declares under a name that is taken:
    by that name, the one they go by here.
    """

    registers: dict[str, PtxType] = field(default_factory=dict[str, PtxType])
    variables: list[Variable] = field(default_factory=list[Variable])
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    location: tuple[int, int, int] | None = None
    hidden: list[dict[str, str]] = field(default_factory=list[dict[str, str]])
    blocks: int = 0

    def declare(self, name: str, type: PtxType) -> None:
        """A register of the innermost block."""
        if self.hidden and name in self.registers:
            own = f"{name}@{len(self.registers)}"
            self.hidden[-1][name] = own
            name = own
        self.registers[name] = type

    def open(self, labels: Sequence[str]) -> None:
        """A block begins, with labels of its own."""
        self.blocks += 1
        self.hidden.append({name: f"{name}@{self.blocks}" for name in labels})

    def placed(self, variable: Variable) -> Variable:
        """A variable of the innermost block."""
        if not self.hidden or all(each.name != variable.name for each in self.variables):
            return variable
        own = f"{variable.name}@{len(self.variables)}"
        self.hidden[-1][variable.name] = own
        return replace(variable, name=own)

    def meant(self, operand: Operand) -> Operand:
        """An operand with the registers that its names mean here."""
        match operand:
            case Register() | Symbol():
                return self.named(operand)
            case Address():
                return replace(
                    operand,
                    base=operand.base and self.named(operand.base),
                    coordinates=tuple(
                        self.named(each) if isinstance(each, Register | Symbol) else each
                        for each in operand.coordinates
                    ),
                )
            case Group():
                items = (
                    self.named(each) if isinstance(each, Register | Symbol) else each
                    for each in operand.items
                )
                return Group(tuple(items))
            case Pair():
                first, second = operand.first, operand.second
                return Pair(first and self.named(first), second and self.named(second))
            case Immediate():
                return operand

    def named(self, item: Named) -> Named:
        """A register by the name that it goes by."""
        for names in reversed(self.hidden):
            if item.name in names:
                return replace(item, name=names[item.name])
        return item


def parse_body(cursor: Cursor) -> Body:
    """Everything up to the brace that closes the entry."""
    body = Body()
    cursor.expect("{")
    depth = 1
    while depth:
        if cursor.accept("{"):
            depth += 1
            body.open(cursor.labels_of_block())
        elif cursor.accept("}"):
            depth -= 1
            if depth:
                body.hidden.pop()
        elif cursor.token.kind == "end":
            cursor.fail("the text ends inside of an entry")
        else:
            _statement(cursor, body)
    return body


def _statement(cursor: Cursor, body: Body) -> None:
    token = cursor.token
    if token.kind == "directive":
        _directive(cursor, body)
    elif token.kind == "word" and cursor.after.text == ":":
        _label(cursor, body)
    else:
        instruction = _instruction(cursor, body.location)
        if instruction.opcode in TAKES or "cc" in instruction.modifiers:
            body.registers.setdefault(CARRY, TYPES["pred"])
        if any(body.hidden):
            instruction = _in_scope(instruction, body)
        body.instructions.append(instruction)


def _label(cursor: Cursor, body: Body) -> None:
    """``$L__BB0_2:``, or a table: ``$L_table: .branchtargets $L__BB0_2, $L__BB0_3;``"""
    token = cursor.take()
    cursor.expect(":")
    name = body.named(Symbol(token.text)).name
    if cursor.token.text == ".branchtargets":
        cursor.take()
        targets = cursor.listed(lambda: cursor.expect_kind("word", "a label").text, ";")
        body.tables[name] = tuple(body.named(Symbol(each)).name for each in targets)
    elif cursor.token.text in (".callprototype", ".calltargets"):
        cursor.skip_statement()
    elif name in body.labels:
        cursor.fail(f"label {token.text!r} stands twice", token.span)
    else:
        body.labels[name] = len(body.instructions)


def _directive(cursor: Cursor, body: Body) -> None:
    token = cursor.token
    match token.text:
        case ".reg":
            _registers(cursor, body)
        case ".shared" | ".local" | ".param" | ".const" | ".global":
            body.variables += [body.placed(each) for each in parse_variables(cursor)]
        case ".loc":
            cursor.take()
            body.location = (cursor.integer(), cursor.integer(), cursor.integer())
            if cursor.accept(","):  # where it was inlined: our line is the outermost one already
                while cursor.token.line == token.line:
                    cursor.take()
        case ".pragma":
            cursor.skip_statement()
        case _:
            cursor.fail(f"{token.text} inside of an entry is not simulated")


def _registers(cursor: Cursor, body: Body) -> None:
    """``.reg .b32 %r<10>, %x;``"""
    cursor.expect(".reg")
    word = cursor.expect_kind("directive", "the type of registers")
    type = TYPES.get(word.text[1:])
    if type is None:
        cursor.fail(f"registers of type {word.text} are not simulated", word.span)
    while True:
        name = cursor.expect_kind("word", "the name of a register").text
        if cursor.accept("<"):
            for number in range(cursor.integer()):
                body.declare(f"{name}{number}", type)
            cursor.expect(">")
        else:
            body.declare(name, type)
        if not cursor.accept(","):
            break
    cursor.expect(";")


def _in_scope(instruction: Instruction, body: Body) -> Instruction:
    """An instruction whose names are those of the registers that it means."""
    return replace(
        instruction,
        operands=tuple(body.meant(each) for each in instruction.operands),
        predicate=instruction.predicate and body.named(instruction.predicate),
    )


def _instruction(cursor: Cursor, location: tuple[int, int, int] | None) -> Instruction:
    first = cursor.token
    predicate = None
    if cursor.accept("@"):
        negated = cursor.accept("!")
        predicate = Register(cursor.expect_kind("word", "a predicate").text, negated)
    word = cursor.expect_kind("word", "an instruction")
    opcode, *modifiers = word.text.split(".")
    if opcode == "wmma" and modifiers:
        opcode = f"{opcode}.{modifiers.pop(0)}"
    operands: list[Operand] = []
    last = word
    if cursor.token.text != ";":
        operands.append(_operand(cursor))
        while cursor.accept(","):
            operands.append(_operand(cursor))
    last = cursor.expect(";")
    span = Span(first.line, first.column, last.line, last.column + 1)
    made = Instruction(opcode, tuple(modifiers), tuple(operands), predicate, span, location)
    return _with_carry(_without_hint(made))


def _without_hint(instruction: Instruction) -> Instruction:
    """A load or store without its cache policy, which changes nothing that is simulated."""
    words = instruction.modifiers
    takes = instruction.opcode in ("ld", "st", "atom", "red", "multimem") or (
        instruction.opcode == "cp" and "bulk" not in words
    )
    if takes and _CACHE_HINT in words:
        kept = tuple(word for word in words if word != _CACHE_HINT)
        return replace(instruction, modifiers=kept, operands=instruction.operands[:-1])
    return instruction


def _with_carry(instruction: Instruction) -> Instruction:
    """An addition whose carry is an operand: a second result, or a last source."""
    leaves, takes = "cc" in instruction.modifiers, instruction.opcode in TAKES
    if not leaves and not takes:
        return instruction
    target, *sources = instruction.operands
    carry = Register(CARRY)
    if leaves and isinstance(target, Register):
        target = Pair(target, carry)
    return replace(instruction, operands=(target, *sources, *((carry,) if takes else ())))


def _operand(cursor: Cursor) -> Operand:
    token = cursor.token
    match token.text:
        case "[":
            return _address(cursor)
        case "{":
            cursor.take()
            return Group(tuple(cursor.listed(lambda: _element(cursor), "}")))
        case "(":
            cursor.take()
            return Group(tuple(cursor.listed(lambda: _element(cursor), ")")))
        case "!":
            cursor.take()
            return Register(cursor.expect_kind("word", "a predicate").text, True)
        case _:
            element = _element(cursor)
    if cursor.accept("|"):
        first = _result(cursor, element, token.span)
        second = cursor.token.span
        return Pair(first, _result(cursor, _element(cursor), second))
    if element is None:
        return Pair(None, None)
    if isinstance(element, Symbol) and cursor.token.text in ("+", "-"):
        return Symbol(element.name, _offset(cursor))
    return element


def _result(
    cursor: Cursor, element: Register | Immediate | Symbol | None, span: Span
) -> Register | None:
    """What takes one of two results: a register, or nothing (``_``)."""
    if element is not None and not isinstance(element, Register):
        cursor.fail("expected a register", span)
    return element


def _element(cursor: Cursor) -> Register | Immediate | Symbol | None:
    token = cursor.token
    if token.kind == "word":
        cursor.take()
        if token.text == "_":
            return None
        return Register(token.text) if token.text[0] == "%" else Symbol(token.text)
    negative = cursor.accept("-")
    token = cursor.take()
    sign = -1 if negative else 1
    match token.kind:
        case "integer":
            return Immediate(sign * integer_of(token.text))
        case "float":
            return Immediate(sign * float(token.text))
        case "float_bits":
            return Immediate(int(token.text[2:], 16), 32 if token.text[1] in "fF" else 64)
        case _:
            cursor.fail(f"expected an operand, found {token.text!r}", token.span)


def _address(cursor: Cursor) -> Address:
    cursor.expect("[")
    token = cursor.token
    base = _element(cursor)
    if isinstance(base, Immediate):
        if not isinstance(base.value, int):
            cursor.fail("an address is a whole number", token.span)
        cursor.expect("]")
        return Address(None, base.value)
    if base is None:
        cursor.fail("expected an address", token.span)
    offset = _offset(cursor) if cursor.token.text in ("+", "-") else 0
    coordinates = _coordinates(cursor) if cursor.accept(",") else ()
    cursor.expect("]")
    return Address(base, offset, coordinates)


def _coordinates(cursor: Cursor) -> tuple[Register | Immediate | Symbol, ...]:
    """``{%r1, 0}``: where a box of a tensor begins."""
    cursor.expect("{")
    found: list[Register | Immediate | Symbol] = []
    for each in cursor.listed(lambda: _element(cursor), "}"):
        if each is None:
            cursor.fail("expected a coordinate")
        found.append(each)
    return tuple(found)


def _offset(cursor: Cursor) -> int:
    negative = cursor.take().text == "-"
    value = cursor.integer("an offset")
    return -value if negative else value

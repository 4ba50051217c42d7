"""Calls of functions: the body of the function stands in for each, with names of its own.

Arguments and results lie in ``.param`` variables of the caller; ``ret`` becomes a branch to what
follows the call. A function that calls itself has no end here and is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, TypeVar

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.syntax import (
    Address,
    Entry,
    Function,
    Group,
    Immediate,
    Instruction,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
)
from wia_compiler.simulators.ptx.types import PtxType

Named = TypeVar("Named", bound=Register | Symbol)
SILENT = "vprintf"
"""``printf`` prints nothing and returns 0."""
FAILURE = "__assertfail"
"""What a failed ``assert`` calls."""


def with_calls(entry: Entry, functions: Mapping[str, Function], source: Source) -> Entry:
    """The entry with the bodies of the functions that it calls; itself where it calls none.

    Raises ``CompileError`` for a call that cannot be followed.
    """
    if not any(each.opcode == "call" for each in entry.instructions):
        return entry
    merged = _Merged(functions, source)
    merged.add(entry, {}, "", ())
    return replace(
        entry,
        registers=merged.registers,
        variables=tuple(merged.variables),
        instructions=tuple(merged.code),
        labels=merged.labels,
        tables=merged.tables,
    )


@dataclass
class _Merged:
    """An entry in the making. ``count`` numbers the calls, whose names end in it."""

    functions: Mapping[str, Function]
    source: Source
    registers: dict[str, PtxType] = field(default_factory=dict[str, PtxType])
    variables: list[Variable] = field(default_factory=list[Variable])
    code: list[Instruction] = field(default_factory=list[Instruction])
    labels: dict[str, int] = field(default_factory=dict[str, int])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    count: int = 0

    def add(
        self,
        body: Entry | Function,
        given: Mapping[str, str],
        suffix: str,
        callers: tuple[str, ...],
    ) -> None:
        """The instructions of a body; ``given`` are the caller's variables by parameter."""
        names = _Names(body, given, suffix)
        for name, type in body.registers.items():
            self.registers[name + suffix] = type
        self.variables += [replace(each, name=each.name + suffix) for each in body.variables]
        for name, targets in body.tables.items():
            self.tables[name + suffix] = tuple(target + suffix for target in targets)
        at: dict[int, list[str]] = {}
        for label, number in body.labels.items():
            at.setdefault(number, []).append(label + suffix)
        behind = f"@{suffix}"
        for number, instruction in enumerate(body.instructions):
            self._label(at.get(number, []))
            made = names.renamed(instruction)
            if made.opcode == "call":
                self._call(made, callers)
            elif made.opcode == "ret" and callers:
                self.code.append(
                    replace(made, opcode="bra", modifiers=(), operands=(Symbol(behind),))
                )
            else:
                self.code.append(made)
        self._label(at.get(len(body.instructions), []))
        if callers:
            self._label([behind])

    def _label(self, names: Sequence[str]) -> None:
        self.labels |= {name: len(self.code) for name in names}

    def _call(self, call: Instruction, callers: tuple[str, ...]) -> None:
        results, name, arguments = self._parts(call)
        if name == SILENT:
            self.code.append(replace(call, operands=()))
            for each in results:
                place = Address(Symbol(each))
                self.code.append(
                    replace(
                        call, opcode="st", modifiers=("param", "b32"),
                        operands=(place, Immediate(0)), predicate=None,
                    )
                )  # fmt: skip
            return
        if name == FAILURE:
            self.code.append(replace(call, opcode="trap", modifiers=(), operands=()))
            return
        function = self.functions.get(name)
        if function is None:
            self._refuse(call, f"{name!r} has no body in this text", "link the function, or inline")
        if name in callers:
            self._refuse(call, f"{name!r} calls itself", "a loop can be simulated")
        if call.predicate is not None:
            self._refuse(call, "calls with a predicate are not simulated", "branch around it")
        wanted = (function.results, function.parameters)
        for have, want, what in zip((results, arguments), wanted, ("results", "arguments"),
                                    strict=True):  # fmt: skip
            if len(have) != len(want):
                self._refuse(call, f"{len(have)} {what}, {name!r} has {len(want)}", None)
        given = {
            parameter.name: argument
            for parameters, names in zip(wanted, (results, arguments), strict=True)
            for parameter, argument in zip(parameters, names, strict=True)
        }
        self.count += 1
        self.code.append(replace(call, operands=()))
        self.add(function, given, f"@{self.count}", (*callers, name))

    def _parts(self, call: Instruction) -> tuple[list[str], str, list[str]]:
        """Names of results, of the function, of arguments."""
        operands = list(call.operands)
        results = self._names(call, operands.pop(0)) if isinstance(operands[0], Group) else []
        target = operands.pop(0) if operands else None
        if not isinstance(target, Symbol):
            self._refuse(call, "calls of computed functions are not simulated", "call one by name")
        arguments = self._names(call, operands[0]) if operands else []
        return results, target.name, arguments

    def _names(self, call: Instruction, group: Operand) -> list[str]:
        items = group.items if isinstance(group, Group) else ()
        names = [each.name for each in items if isinstance(each, Symbol)]
        if len(names) != len(items):
            self._refuse(call, "arguments that are no .param variables are not simulated", None)
        return names

    def _refuse(self, call: Instruction, message: str, hint: str | None) -> NoReturn:
        raise CompileError([Diagnostic(f"call: {message}", call.span, hint, self.source)])


@dataclass(frozen=True)
class _Names:
    """What the names of one body become."""

    body: Entry | Function
    given: Mapping[str, str]
    suffix: str

    def renamed(self, instruction: Instruction) -> Instruction:
        """An instruction with the names of the merged entry."""
        if not self.suffix:
            return instruction
        predicate = instruction.predicate
        operands: list[Operand] = []
        for number, each in enumerate(instruction.operands):
            if instruction.opcode == "call" and number < 2 and isinstance(each, Symbol):
                operands.append(each)
            else:
                operands.append(self._operand(each))
        return replace(
            instruction,
            operands=tuple(operands),
            predicate=predicate and replace(predicate, name=predicate.name + self.suffix),
        )

    def _operand(self, operand: Operand) -> Operand:
        match operand:
            case Register() | Symbol():
                return self._named(operand)
            case Address():
                base = operand.base and self._named(operand.base)
                places = tuple(self._item(each) for each in operand.coordinates)
                return replace(operand, base=base, coordinates=places)
            case Group():
                return Group(tuple(each and self._item(each) for each in operand.items))
            case Pair():
                first, second = operand.first, operand.second
                return Pair(first and self._named(first), second and self._named(second))
            case Immediate():
                return operand

    def _item(self, item: Register | Immediate | Symbol) -> Register | Immediate | Symbol:
        return item if isinstance(item, Immediate) else self._named(item)

    def _named(self, item: Named) -> Named:
        name, body = item.name, self.body
        if name in self.given:
            return replace(item, name=self.given[name])
        own = name in body.registers or name in body.labels or name in body.tables
        if own or any(each.name == name for each in body.variables):
            return replace(item, name=name + self.suffix)
        return item

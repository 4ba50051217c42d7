"""Writes the instructions of one function: names, labels, declarations and places."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Block, Operation, SSAValue

from wia_compiler.passes.llvm.debug import Metadata
from wia_compiler.passes.llvm.interrupts import NOTHING, Watched
from wia_compiler.passes.llvm.options import EmitOptions
from wia_compiler.passes.llvm.types import llvm_type, strides_of

Handler = Callable[["Writer", Any], None]
"""Writes the instructions of one op."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ModuleWriter:
    """What functions of one module share: declarations, globals, metadata.

    ``functions`` holds the symbol of each function by its name in the module, ``watched`` the loops
    that ask whether they should stop. ``outlined`` writes functions that the one at hand needs,
    once that is done.
    """

    def __init__(self, options: EmitOptions, metadata: Metadata, watched: Watched = NOTHING):
        self.options = options
        self.metadata = metadata
        self.watched = watched
        self.declarations: dict[str, str] = {}
        self.globals: list[str] = []
        self.functions: dict[str, str] = {}
        self.outlined: list[Callable[[], str]] = []

    def declare(self, name: str, result: str, parameters: Sequence[str]) -> str:
        """Note that ``name`` is called; the callee as a call spells it (``@llvm.fma.f32``)."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(parameters)})"
        return f"@{name}"

    def add_global(self, name: str, text: str) -> str:
        """Add a global variable; ``text`` is what follows its name."""
        unique = name
        taken = {line.split(" ", 1)[0] for line in self.globals} | set(self.functions.values())
        count = 1
        while symbol(unique) in taken:
            unique = f"{name}.{count}"
            count += 1
        self.globals.append(f"{symbol(unique)} = {text}")
        return symbol(unique)


class Writer:
    """The text of the function ``name`` as it grows.

    ``values`` holds what each SSA value is called or, for constants, the constant itself; a value's
    name is its hint where it has one. ``labels`` are the names of the function's blocks and
    ``ways`` what each branch passes to a block, with the LLVM block it comes from. A ``stoppable``
    function returns whether it was told to stop.
    """

    def __init__(self, module: ModuleWriter, name: str, *, stoppable: bool = False):
        self.module = module
        self.name = name
        self.stoppable = stoppable
        self.labels: dict[Block, str] = {}
        self.ways: dict[Block, list[tuple[tuple[str, ...], str]]] = {}
        self.options = module.options
        self.lines: list[str] = []
        self.allocas: list[str] = []
        self.values: dict[SSAValue, str] = {}
        self.block = "%entry"
        self._place = ""
        self._counts: dict[str, int] = {"entry": 1}
        self._strides: dict[SSAValue, tuple[int, ...]] = {}

    def enter(self, op: Operation) -> None:
        """Instructions that follow come from ``op``."""
        self._place = self.module.metadata.suffix(op)

    def type(self, value: SSAValue) -> str:
        """The LLVM type of a value."""
        return llvm_type(value.type, self.options)

    def typed(self, value: SSAValue) -> str:
        """A value with its type, as calls and stores want it: ``float %x``."""
        return f"{self.type(value)} {self.values[value]}"

    def strides(self, memref: SSAValue) -> tuple[int, ...]:
        """The strides of a memref in elements."""
        known = self._strides.get(memref)
        if known is None:
            known = strides_of(cast("MemRefType[Attribute]", memref.type))
            self._strides[memref] = known
        return known

    def fresh(self, hint: str | None = None) -> str:
        """A new local name: ``%x``, ``%x.1``, … or ``%v0`` …"""
        base = hint if hint is not None and _PLAIN.fullmatch(hint) else "v"
        count = self._counts.get(base, 0)
        self._counts[base] = count + 1
        return f"%{base}.{count}" if count or base == "v" else f"%{base}"

    def line(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}{self._place}")

    def temporary(self, text: str, hint: str | None = None) -> str:
        """An instruction with a result that is no SSA value of the module; its name."""
        name = self.fresh(hint)
        self.lines.append(f"  {name} = {text}{self._place}")
        return name

    def assign(self, result: SSAValue, text: str) -> None:
        """The instruction that computes an SSA value."""
        self.values[result] = self.temporary(text, result.name_hint)

    def label(self, name: str) -> None:
        """Begin the block of that local name."""
        self.lines.append(f"{name[1:]}:")
        self.block = name

    def reserve(self) -> int:
        """Leave a line open; ``fill`` writes it."""
        self.lines.append("")
        return len(self.lines) - 1

    def fill(self, index: int, text: str) -> None:
        """Write a line that ``reserve`` left open."""
        self.lines[index] = f"  {text}{self._place}"

    def call(
        self,
        name: str,
        result: str,
        arguments: Sequence[tuple[str, str]],
        flags: str = "",
        *,
        align: int = 0,
    ) -> str:
        """The text of a call of a declared function; ``arguments`` are (type, value).

        ``align`` is what the pointer among them is a multiple of.
        """
        callee = self.module.declare(name, result, [type_ for type_, _ in arguments])
        passed = ", ".join(
            f"{type_} align {align} {value}"
            if align and type_.startswith("ptr")
            else f"{type_} {value}"
            for type_, value in arguments
        )
        return f"call {flags}{result} {callee}({passed})"


def symbol(name: str) -> str:
    """A global name as LLVM spells it; anything unusual is quoted."""
    if re.fullmatch(r"[A-Za-z_.$][A-Za-z0-9_.$-]*", name):
        return f"@{name}"
    return (
        '@"'
        + "".join(
            c
            if c.isascii() and (c.isalnum() or c in "_.$-")
            else "".join(f"\\{byte:02X}" for byte in c.encode())
            for c in name
        )
        + '"'
    )

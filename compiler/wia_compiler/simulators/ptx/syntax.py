"""The tree of a PTX module: entries, their variables and instructions, each with its line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wia_compiler.base.source import Source, Span
from wia_compiler.simulators.ptx.types import PtxType

Space = Literal["global", "const", "shared", "local", "param"]


@dataclass(frozen=True, slots=True)
class Register:
    """``%r1``, or the special register ``%tid.x``; ``negated`` for ``!%p1``."""

    name: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Immediate:
    """A number of the text: an integer, a float, or the bits of one (``0f3F800000``).

    ``bits`` is the width of ``0f…`` (32) and ``0d…`` (64) and ``None`` for a plain number.
    """

    value: int | float
    bits: int | None = None


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable, label or function by name, with a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``; a base of ``None`` is an absolute address.

    ``coordinates`` are those of ``[map, {x, y}]``, where a box of a tensor begins.
    """

    base: Register | Symbol | None
    offset: int = 0
    coordinates: tuple[Register | Immediate | Symbol, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """``{a, b}``: the elements of a vector; ``_`` (``None``) takes a value that nobody wants."""

    items: tuple[Register | Immediate | Symbol | None, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """``%p|%q``: two results of one instruction."""

    first: Register | None
    second: Register | None


Operand: TypeAlias = Register | Immediate | Symbol | Address | Group | Pair


@dataclass(frozen=True, slots=True)
class Instruction:
    """``@!%p1 ld.global.v2.f32 {%f1, %f2}, [%rd1+8];``

    ``opcode`` is ``ld`` and ``modifiers`` are the words after it. ``span`` is its place in the PTX
    text, ``location`` that of the ``.loc`` before it: (file number, line, column).
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    predicate: Register | None
    span: Span
    location: tuple[int, int, int] | None = None

    @property
    def name(self) -> str:
        """The opcode with its modifiers, as written."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Variable:
    """Memory with a name: ``.shared .align 16 .b8 tile[4096];``

    ``count`` is the number of elements, 0 for an array whose size the launch gives. ``initial`` are
    its bytes where the text has them.
    """

    name: str
    space: Space
    type: PtxType
    count: int
    align: int
    span: Span
    initial: bytes | None = None
    external: bool = False

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes."""
        return self.type.size_bytes * self.count


@dataclass(frozen=True, slots=True)
class Entry:
    """One kernel: what ``.entry`` declares, and its instructions in order.

    ``labels`` maps each label to the number of the instruction after it, ``tables`` the label of a
    ``.branchtargets`` to the labels it lists.
    """

    name: str
    parameters: tuple[Variable, ...]
    registers: dict[str, PtxType]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    tables: dict[str, tuple[str, ...]]
    span: Span
    max_threads: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """One device function: what ``.func`` declares, and its body (see ``Entry``)."""

    name: str
    results: tuple[Variable, ...]
    parameters: tuple[Variable, ...]
    registers: dict[str, PtxType]
    variables: tuple[Variable, ...]
    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    tables: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX text: its entries by name and the variables that all of them see."""

    source: Source
    version: str
    target: str
    entries: dict[str, Entry]
    variables: tuple[Variable, ...] = ()
    files: dict[int, str] = field(default_factory=dict[int, str])

"""An instruction's form: its types and flags; and the table rows that say what it computes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.types import TYPES, PtxType

Array: TypeAlias = NDArray[Any]
Pipe = Literal[
    "integer", "float", "double", "special", "tensor", "convert", "move", "memory", "control"
]


class UnknownForm(Exception):
    """An instruction or modifier that is not simulated; the message says which."""


@dataclass(frozen=True)
class Form:
    """``setp.lt.and.f32``: the opcode, the types among its modifiers in order, and the rest."""

    instruction: Instruction

    @cached_property
    def types(self) -> tuple[PtxType, ...]:
        """The types among the modifiers."""
        return tuple(TYPES[word] for word in self.instruction.modifiers if word in TYPES)

    @cached_property
    def flags(self) -> frozenset[str]:
        """The modifiers that are no types."""
        return frozenset(word for word in self.instruction.modifiers if word not in TYPES)

    @property
    def type(self) -> PtxType:
        """The last type: that of the operands, where there is one type only."""
        if not self.types:
            raise UnknownForm(f"{self.instruction.name} names no type")
        return self.types[-1]

    def one_of(self, words: Sequence[str], otherwise: str = "") -> str:
        """The flag out of a set that is there."""
        return next((word for word in words if word in self.flags), otherwise)


Types = Callable[[Form], tuple[PtxType, ...]]
Compute = Callable[..., Any]


@dataclass(frozen=True)
class Row:
    """One opcode: the types of its sources and results, and its meaning on arrays of these.

    ``compute`` takes the form and one array for each source (in its type's ``value`` dtype) and
    gives the result, or a tuple of results. ``flops`` is how many floating-point operations one
    thread's execution counts as. ``flags`` are the modifiers that the meaning knows.
    """

    sources: Types
    results: Types
    compute: Compute
    pipe: Pipe
    flags: frozenset[str] = frozenset()
    flops: int = 0


def alike(count: int) -> Types:
    """So many operands of the instruction's one type."""
    return lambda form: (form.type,) * count


def plain(function: Callable[..., Array]) -> Compute:
    """The meaning of an opcode whose form does not matter."""

    def compute(form: Form, *operands: Array) -> Array:
        return function(*operands)

    return compute

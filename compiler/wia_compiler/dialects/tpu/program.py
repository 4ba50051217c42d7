"""A program of the machine as plain records; ``str`` of each is its assembly text.

::

    .kernel matmul_relu tpu:spec
    .hbm A f32 1000x257 input
    .view A_1 257000 strides 1 of A
    .vmem input_buffer bf16 1000x128 slots 2
    .accumulators accumulators 1000x128 slots 2
    loop %k, 257, 128
      dma_in input_buffer, A[0 : 1000, %k : 128 clip]
    end

A **window** takes of each axis of a tensor one index (``%b``) or a run (``start : length``); the
first run is the tile's rows and the last its columns; a lone run is one row, no run is one element,
and ``transposed`` swaps rows and columns. A run must lie inside its axis; ``clip`` cuts off what
lies behind the axis's end. A buffer or accumulators with ``slots n`` is a ring: what fills it takes
the next slot, what reads it means the slot filled last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Span

Role = Literal["input", "output", "temporary"]
Memory = Literal["vmem", "accumulators"]

NOWHERE = Span(1, 1, 1, 1)


@dataclass(frozen=True)
class Index:
    """A constant plus registers times constants: ``%i + 2*%j + 1``."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        parts = [f"%{name}" if factor == 1 else f"{factor}*%{name}" for name, factor in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)


@dataclass(frozen=True)
class Axis:
    """What a window takes of one axis: ``length`` elements from ``start``, or one (``None``)."""

    start: Index
    length: int | None = None
    clip: bool = False

    def __str__(self) -> str:
        if self.length is None:
            return str(self.start)
        return f"{self.start} : {self.length}{' clip' if self.clip else ''}"


@dataclass(frozen=True)
class Window:
    """A rectangle of a tensor."""

    tensor: str
    axes: tuple[Axis, ...]
    transposed: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        """The most rows and columns it can have."""
        runs = [axis.length for axis in self.axes if axis.length is not None]
        rows, columns = (
            (1, 1) if not runs else (1, runs[0]) if len(runs) == 1 else (runs[0], runs[-1])
        )
        return (columns, rows) if self.transposed else (rows, columns)

    def __str__(self) -> str:
        text = f"{self.tensor}[{', '.join(map(str, self.axes))}]"
        return f"{text} transposed" if self.transposed else text


Operand: TypeAlias = "str | int | float | Window"


@dataclass(frozen=True)
class Tensor:
    """An array in HBM: ``.hbm A f32 1000x257 input``; a scalar has no sizes."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: Role
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "scalar"
        return f".hbm {self.name} {self.dtype} {sizes} {self.role}"


@dataclass(frozen=True)
class View:
    """The memory of a tensor under another shape: ``.view A_1 6x4 strides 4x1 of A``.

    Strides count elements; the first element is the tensor's first.
    """

    name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    tensor: str
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        sizes = "x".join(map(str, self.shape)) or "scalar"
        strides = "x".join(map(str, self.strides)) or "none"
        return f".view {self.name} {sizes} strides {strides} of {self.tensor}"


@dataclass(frozen=True)
class Buffer:
    """Tiles on the chip: ``.vmem weight_buffer bf16 128x128 slots 2``; accumulators are f32."""

    name: str
    memory: Memory
    dtype: str
    rows: int
    columns: int
    slots: int = 1
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def size_bytes(self) -> int:
        """Bytes of all its slots."""
        return self.slots * self.rows * self.columns * DTYPES[self.dtype].size_bytes

    def __str__(self) -> str:
        dtype = f" {self.dtype}" if self.memory == "vmem" else ""
        slots = f" slots {self.slots}" if self.slots > 1 else ""
        return f".{self.memory} {self.name}{dtype} {self.rows}x{self.columns}{slots}"


@dataclass(frozen=True)
class Instruction:
    """One line; ``operands`` are names without marks, numbers, sizes as text, and windows."""

    mnemonic: str
    operands: tuple[Operand, ...]
    span: Span = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        parts = [str(operand) for operand in self.operands]
        if self.mnemonic == "loop":
            parts[0] = f"%{parts[0]}"
        return f"{self.mnemonic} {', '.join(parts)}".rstrip()


@dataclass(frozen=True)
class Loop:
    """``loop %i, extent, step`` … ``end``; ``head`` is its first line."""

    head: Instruction
    register: str
    extent: int
    step: int
    body: tuple[Instruction | Loop, ...]


@dataclass(frozen=True)
class Program:
    """A whole text."""

    name: str
    machine: str
    tensors: tuple[Tensor, ...]
    views: tuple[View, ...]
    buffers: tuple[Buffer, ...]
    body: tuple[Instruction | Loop, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """The text, without comments."""
        head = [f".kernel {self.name} {self.machine}"]
        declared = map(str, (*self.tensors, *self.views, *self.buffers))
        return (*head, *declared, *_lines(self.body, ""))

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def loop(register: str, extent: int, step: int, body: tuple[Instruction | Loop, ...]) -> Loop:
    """A loop with its head."""
    return Loop(Instruction("loop", (register, extent, step)), register, extent, step, body)


def _lines(body: tuple[Instruction | Loop, ...], indent: str) -> list[str]:
    lines: list[str] = []
    for each in body:
        if isinstance(each, Loop):
            lines += [f"{indent}{each.head}", *_lines(each.body, indent + "  "), f"{indent}end"]
        else:
            lines.append(f"{indent}{each}")
    return lines

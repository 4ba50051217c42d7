"""LLVM IR as text: values of a warp as vectors of lanes, and the instructions that make them.

A register of a warp is 32 lanes, more than one vector register holds; every value is therefore a
row of *parts*, each a vector of ``width`` lanes, and every instruction is written once a part.
"""

from __future__ import annotations

import copy
import itertools
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from wia_compiler.simulators.ptx.threads import WARP

BF16 = np.dtype(ml_dtypes.bfloat16)
_NAMES = {
    np.dtype(np.bool_): "i1",
    np.dtype(np.float16): "half",
    BF16: "i16",
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
}


def element_type(dtype: np.dtype[Any]) -> str:
    """LLVM's type of one element; bf16 is kept as its bits, which no x86 computes with."""
    return _NAMES.get(dtype) or f"i{dtype.itemsize * 8}"


def constant_text(value: Any, dtype: np.dtype[Any]) -> str:
    """One element as LLVM writes constants."""
    if dtype == np.bool_:
        return "true" if value else "false"
    if dtype == BF16:
        return str(int(np.array(value, BF16).view(np.uint16)))
    if dtype.kind == "f":
        if dtype == np.float16:
            return f"0xH{int(np.array(value, dtype).view(np.uint16)):04X}"
        # A float is written as the double of the same value.
        bits = struct.unpack("<Q", struct.pack("<d", float(value)))[0]
        if np.isnan(value):
            bits = _nan_bits(value, dtype)
        return f"0x{bits:016X}"
    return str(int(value))


def _nan_bits(value: Any, dtype: np.dtype[Any]) -> int:
    if dtype == np.float64:
        return int(np.array(value, dtype).view(np.uint64))
    bits = int(np.array(value, dtype).view(np.uint32))
    return (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29


@dataclass(frozen=True)
class Value:
    """A value of every lane: the names of its parts, or of constants."""

    dtype: np.dtype[Any]
    parts: tuple[str, ...]


class Function:
    """The text of one function, instruction by instruction.

    ``width`` is how many lanes a vector has, ``parts`` how many vectors a value. What is declared
    outside of it is kept by name.
    """

    def __init__(self, width: int):
        self.width = width
        self.parts = WARP // width
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.outlined: dict[str, str] = {}
        self.label = "entry"
        self._numbers = itertools.count(1)

    def single(self) -> Function:
        """The same function, written for values of one lane."""
        made = copy.copy(self)
        made.width = made.parts = 1
        return made

    def other(self) -> Function:
        """A function beside this one, that this one calls; ``outlined`` keeps its text."""
        made = Function(self.width)
        made.declarations, made.outlined = self.declarations, self.outlined
        return made

    def emit(self, text: str) -> None:
        """Write an instruction without a result."""
        self.lines.append(f"  {text}")

    def new(self, text: str) -> str:
        """Write an instruction; the name of its result."""
        name = f"%v{next(self._numbers)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def start(self, label: str) -> None:
        """Begin a block."""
        self.lines.append(f"{label}:")
        self.label = label

    def fresh(self, word: str) -> str:
        """A label that no other block has."""
        return f"{word}_{next(self._numbers)}"

    def declare(self, name: str, text: str) -> str:
        """Note what a function outside looks like; gives its name."""
        self.declarations[name] = text
        return name

    def vector(self, dtype: np.dtype[Any]) -> str:
        """The type of one part."""
        return f"<{self.width} x {element_type(dtype)}>"

    def splat(self, value: Any, dtype: np.dtype[Any]) -> Value:
        """The same constant in every lane."""
        text = f"splat ({element_type(dtype)} {constant_text(value, dtype)})"
        return Value(dtype, (text,) * self.parts)

    def spread(self, scalar: str, dtype: np.dtype[Any]) -> Value:
        """A scalar in every lane."""
        type, element = self.vector(dtype), element_type(dtype)
        first = self.new(f"insertelement {type} poison, {element} {scalar}, i64 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        made = self.new(f"shufflevector {type} {first}, {type} poison, {zeros}")
        return Value(dtype, (made,) * self.parts)

    def each(self, dtype: np.dtype[Any], text: str, *operands: Value) -> Value:
        """One instruction for each part; ``{0}``, ``{1}`` stand for the operands' names."""
        made: dict[tuple[str, ...], str] = {}
        names: list[str] = []
        for number in range(self.parts):
            key = tuple(operand.parts[number] for operand in operands)
            # The same instruction on the same operands (a value that all lanes share) is one.
            if key not in made:
                made[key] = self.new(text.format(*key))
            names.append(made[key])
        return Value(dtype, tuple(names))

    def call(
        self, name: str, result: np.dtype[Any], *operands: Value, suffix: str | None = None
    ) -> Value:
        """An intrinsic whose operands and result are all of one type."""
        type = self.vector(result)
        full = f"{name}.v{self.width}{suffix or name_suffix(result)}"
        self.declare(full, f"declare {type} @{full}({', '.join([type] * len(operands))})")
        arguments = ", ".join(f"{type} {{{number}}}" for number in range(len(operands)))
        return self.each(result, f"call {type} @{full}({arguments})", *operands)

    def lane_numbers(self, dtype: np.dtype[Any], factor: int = 1) -> Value:
        """0, 1, … 31 times a factor."""
        element = element_type(dtype)
        parts = [
            f"<{', '.join(f'{element} {lane * factor}' for lane in lanes)}>"
            for lanes in self.lanes()
        ]
        return Value(dtype, tuple(parts))

    def lanes(self) -> Sequence[range]:
        """The lanes of each part."""
        return [range(part * self.width, (part + 1) * self.width) for part in range(self.parts)]


def name_suffix(dtype: np.dtype[Any]) -> str:
    """What the name of an intrinsic says of an element's type."""
    return f"{'f' if dtype.kind == 'f' else 'i'}{dtype.itemsize * 8}"

"""Factors of ``wgmma`` in shared memory to matrices of f64 (see ``descriptors``)."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np

from wia_compiler.simulators.ptx.descriptors import CHUNK_BYTES, SWIZZLE_BYTES, UNUSED_BITS
from wia_compiler.simulators.ptx.jit.code import Function, Value
from wia_compiler.simulators.ptx.jit.elements import number_of
from wia_compiler.simulators.ptx.jit.loops import repeat
from wia_compiler.simulators.ptx.matrix_elements import BITS

F64 = np.dtype(np.float64)


@dataclass(frozen=True)
class _Fields:
    """The fields of a descriptor: names of i64; ``row_shift`` is the logarithm of chunks a row."""

    start: str
    leading: str
    stride: str
    base_offset: str
    plain: str
    pitch: str
    mask: str
    row_shift: str


def _fields(function: Function, word: str) -> _Fields:
    def field(first: int, bits: int) -> str:
        moved = function.new(f"lshr i64 {word}, {first}") if first else word
        return function.new(f"and i64 {moved}, {(1 << bits) - 1}")

    def offset(first: int) -> str:
        return function.new(f"shl i64 {field(first, 14)}, 4")

    code = field(62, 2)

    def by_code(values: list[int]) -> str:
        found = str(values[0])
        for number, value in enumerate(values[1:], 1):
            here = function.new(f"icmp eq i64 {code}, {number}")
            found = function.new(f"select i1 {here}, i64 {value}, i64 {found}")
        return found

    widths = [width or CHUNK_BYTES for width in SWIZZLE_BYTES]
    return _Fields(
        offset(0),
        offset(16),
        offset(32),
        field(49, 3),
        function.new(f"icmp eq i64 {code}, 0"),
        by_code(widths),
        by_code([width - CHUNK_BYTES for width in widths]),
        by_code([(width // CHUNK_BYTES).bit_length() - 1 for width in widths]),
    )


@dataclass(frozen=True)
class SharedFactor:
    """``outer`` rows (or columns) of a factor, ``depth`` being summed, in a matrix ``target``.

    The matrix has its summed axis along its rows where ``summed_inner`` holds. ``word`` names the
    descriptor, ``first`` the first of the outer rows (i64). Where shared memory ends before the
    factor does, a flag ``%wrong`` is set.
    """

    function: Function
    target: str
    word: str
    name: str
    outer: int
    depth: int
    first: str
    negated: bool
    summed: bool
    summed_inner: bool

    def write(self) -> None:
        """Write the loads of all chunks."""
        function = self.function
        unused = function.new(f"and i64 {self.word}, {UNUSED_BITS}")
        self._note(function.new(f"icmp ne i64 {unused}, 0"))
        fields = _fields(function, self.word)
        per_chunk = CHUNK_BYTES * 8 // BITS[self.name]
        if self.summed:

            def row(number: str) -> None:
                down = function.new(f"add i64 {number}, {self.first}")
                for chunk in range(self.depth // per_chunk):
                    address = self._deep_address(fields, down, chunk)
                    self._move(address, number, str(chunk * per_chunk), along_outer=False)

            repeat(function, self.outer, row)
            return
        first = function.new(f"udiv i64 {self.first}, {per_chunk}")

        def column(number: str) -> None:
            chunk = function.new(f"add i64 {number}, {first}")
            start = function.new(f"mul i64 {number}, {per_chunk}")

            def deep(row: str) -> None:
                self._move(self._wide_address(fields, row, chunk), start, row, along_outer=True)

            repeat(function, self.depth, deep)

        repeat(function, self.outer // per_chunk, column)

    def _deep_address(self, fields: _Fields, row: str, chunk: int) -> str:
        """Of a chunk along the summed axis (K-major)."""
        function = self.function
        step = function.new(f"select i1 {fields.plain}, i64 {fields.leading}, i64 {CHUNK_BYTES}")
        across = function.new(f"mul i64 {step}, {chunk}")
        return self._address(fields, row, fields.stride, across)

    def _wide_address(self, fields: _Fields, row: str, chunk: str) -> str:
        """Of a chunk along the other axis (MN-major)."""
        function = self.function
        block = function.new(f"lshr i64 {chunk}, {fields.row_shift}")
        before = function.new(f"shl i64 {block}, {fields.row_shift}")
        within = function.new(f"sub i64 {chunk}, {before}")
        pair = (fields.stride, fields.leading)
        step = function.new(f"select i1 {fields.plain}, i64 {pair[0]}, i64 {pair[1]}")
        down = function.new(f"select i1 {fields.plain}, i64 {pair[1]}, i64 {pair[0]}")
        inner = function.new(f"mul i64 {within}, {CHUNK_BYTES}")
        across = function.new(f"add i64 {function.new(f'mul i64 {block}, {step}')}, {inner}")
        return self._address(fields, row, down, across)

    def _address(self, fields: _Fields, row: str, down: str, across: str) -> str:
        function = self.function
        within = function.new(f"and i64 {row}, 7")
        inner = function.new(f"mul i64 {within}, {fields.pitch}")
        core = function.new(f"lshr i64 {row}, 3")
        outer = function.new(f"mul i64 {core}, {down}")
        address = function.new(f"add i64 {fields.start}, {inner}")
        address = function.new(f"add i64 {address}, {outer}")
        address = function.new(f"add i64 {address}, {across}")
        phase = function.new(f"lshr i64 {address}, 7")
        phase = function.new(f"sub i64 {phase}, {fields.base_offset}")
        phase = function.new(f"shl i64 {phase}, 4")
        swapped = function.new(f"and i64 {phase}, {fields.mask}")
        return function.new(f"xor i64 {address}, {swapped}")

    def _note(self, wrong: str) -> None:
        function = self.function
        known = function.new("load i1, ptr %wrong, align 1")
        function.emit(f"store i1 {function.new(f'or i1 {known}, {wrong}')}, ptr %wrong, align 1")

    def _move(self, address: str, outer: str, deep: str, *, along_outer: bool) -> None:
        """A chunk that begins at an element of the factor to its place in the matrix."""
        function = self.function
        end = function.new(f"add i64 {address}, {CHUNK_BYTES}")
        beyond = function.new(f"icmp ugt i64 {end}, %limit")
        self._note(beyond)
        safe = function.new(f"select i1 {beyond}, i64 0, i64 {address}")
        place = function.new(f"getelementptr i8, ptr %shared, i64 {safe}")
        size = BITS[self.name] // 8
        count = CHUNK_BYTES // size
        held = function.new(f"load <{count} x i{8 * size}>, ptr {place}, align {CHUNK_BYTES}")
        wide = copy.copy(function)
        wide.width, wide.parts = count, 1
        number = number_of(wide, Value(np.dtype(f"u{size}"), (held,)), self.name).parts[0]
        type = f"<{count} x double>"
        if self.negated:
            number = function.new(f"fneg {type} {number}")
        row_size = self.depth if self.summed_inner else self.outer
        row, column = (outer, deep) if self.summed_inner else (deep, outer)
        first = function.new(f"mul i64 {row}, {row_size}")
        first = function.new(f"add i64 {first}, {column}")
        begin = function.new(f"getelementptr double, ptr %{self.target}, i64 {first}")
        if along_outer != self.summed_inner:
            function.emit(f"store {type} {number}, ptr {begin}, align 8")
            return
        for element in range(count):
            scalar = function.new(f"extractelement {type} {number}, i64 {element}")
            to = function.new(f"getelementptr double, ptr {begin}, i64 {element * row_size}")
            function.emit(f"store double {scalar}, ptr {to}, align 8")

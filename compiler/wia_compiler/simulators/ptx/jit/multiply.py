"""``mma`` as a function of the fragments' registers: matrices on the stack, rows of vectors."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from wia_compiler.simulators.ptx.decode_multiply import Product, product_of
from wia_compiler.simulators.ptx.fragments import Fragment
from wia_compiler.simulators.ptx.jit.access import Window, bail_if, gather, scatter
from wia_compiler.simulators.ptx.jit.code import Function, Value, element_type
from wia_compiler.simulators.ptx.jit.conversions import converted, reinterpreted
from wia_compiler.simulators.ptx.jit.elements import numbers_of, rounded
from wia_compiler.simulators.ptx.jit.lanes import Lanes
from wia_compiler.simulators.ptx.jit.values import joined, part_of
from wia_compiler.simulators.ptx.threads import Array
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form

U64, U32, F64 = (np.dtype(kind) for kind in (np.uint64, np.uint32, np.float64))


def write_multiply(lanes: Lanes, form: Form) -> None:
    """``mma.sync``: exact products, summed in f64, rounded once (see ``decode_multiply``)."""
    product = product_of(form)
    function = lanes.function
    if lanes.active() is not None:
        bail_if(function, "true")
    targets, a, b, c = product.operands(form)
    name = form.instruction.name.replace(".", "_")
    if name not in function.outlined:
        function.outlined[name] = _multiply_text(function.other(), name, form, product)
    factor, result = product.holder, _register(product.sum_type)
    values = [lanes.read(each, factor) for each in (*a, *b)]
    values += [lanes.read(each, _register(product.added_type)) for each in c]
    arguments = ", ".join(
        f"{function.vector(value.dtype)} {part}" for value in values for part in value.parts
    )
    type = function.vector(result.holder)
    count = len(targets) * function.parts
    made = function.new(f"call [{count} x {type}] @{name}({arguments})")
    for number, target in enumerate(targets):
        parts = [
            function.new(
                f"extractvalue [{count} x {type}] {made}, {number * function.parts + part}"
            )
            for part in range(function.parts)
        ]
        lanes.write(target, result, Value(result.holder, tuple(parts)))


def _register(type: PtxType) -> PtxType:
    """The bits of a register of sums."""
    return TYPES[f"b{type.bits}"]


def _multiply_text(function: Function, name: str, form: Form, product: Product) -> str:
    m, n, k = product.sizes
    names, types = itertools.count(), list[str]()

    def argument(dtype: np.dtype[Any]) -> Value:
        made = Value(dtype, tuple(f"%a{next(names)}" for _ in range(function.parts)))
        types.extend([function.vector(dtype)] * function.parts)
        return made

    holders = (product.holder, product.holder, _register(product.added_type))
    fragments = (product.left, product.right, product.added)
    left, right, added = (
        [argument(holder.holder) for _ in range(fragment.registers * fragment.packed // packed)]
        for holder, fragment, packed in zip(
            holders,
            fragments,
            (product.left.packed, product.right.packed, product.added_type.lanes),
            strict=True,
        )
    )
    # Bits are multiplied 32 at a time.
    bits = product.left_name == "b1"
    depth = k // 32 if bits else k
    element = "i32" if bits else "double"
    for label, count in (("x", m * depth), ("y", depth * n)):
        function.emit(f"%{label} = alloca [{count} x {element}], align 64")
    function.emit(f"%z = alloca [{m * n} x double], align 64")
    spill(function, "x", product.left, left, product.left_name, depth)
    spill(function, "y", product.right, right, product.right_name, n)
    if bits:
        _bit_product(function, m, n, depth, "and" if "and" in form.flags else "xor")
    else:
        small_product(function, m, n, k)
    had = [each for value in added for each in sum_numbers(function, value, product.added_type)]
    made: list[Value] = []
    for slot in range(len(product.added.rows)):
        total = fetched(function, product.added, slot, n)
        text = f"fadd {function.vector(F64)} {{0}}, {{1}}"
        total = function.each(F64, text, total, had[slot])
        made.append(rounded(function, total, product.sum_type.value, form))
    packed, holder = product.sum_type.lanes, _register(product.sum_type).holder
    registers = [
        joined(function, made[first : first + packed], holder) if packed > 1 else made[first]
        for first in range(0, len(made), packed)
    ]
    type = function.vector(holder)
    count = len(registers) * function.parts
    total_name = "poison"
    for number, part in enumerate(part for value in registers for part in value.parts):
        total_name = function.new(
            f"insertvalue [{count} x {type}] {total_name}, {type} {part}, {number}"
        )
    function.emit(f"ret [{count} x {type}] {total_name}")
    arguments = ", ".join(f"{each} %a{number}" for number, each in enumerate(types))
    body = "\n".join(function.lines)
    return (
        f"define internal [{count} x {type}] @{name}({arguments}) noinline {{\nentry:\n{body}\n}}"
    )


def sum_numbers(function: Function, value: Value, type: PtxType) -> list[Value]:
    """The numbers in a register of sums, as f64."""
    if type.lanes == 2:
        halves = [part_of(function, value, half, np.dtype(np.uint16)) for half in range(2)]
        return [
            converted(function, reinterpreted(function, each, type.value), F64) for each in halves
        ]
    return [converted(function, reinterpreted(function, value, type.value), F64)]


def spill(
    function: Function, name: str, fragment: Fragment, registers: list[Value], kind: str, row: int
) -> None:
    """Elements in registers of the lanes to their places in a matrix with rows of ``row``."""
    if kind == "b1":
        # The words of a row lie next to one another, those of a column below one another.
        words = [(value, number * fragment.packed) for number, value in enumerate(registers)]
        for value, slot in words:
            down, across = fragment.rows[slot], fragment.columns[slot]
            places = down * row + across // 32 if name == "x" else down // 32 * row + across
            _scatter(function, name, places, value)
        return
    slot = 0
    for value in registers:
        for number in numbers_of(function, value, kind):
            places = fragment.rows[slot] * row + fragment.columns[slot]
            _scatter(function, name, places, number)
            slot += 1


def lane_constants(function: Function, numbers: Array, dtype: np.dtype[Any]) -> Value:
    """A constant for each lane."""
    element = element_type(dtype)
    parts = [
        f"<{', '.join(f'{element} {int(numbers[lane])}' for lane in lanes)}>"
        for lanes in function.lanes()
    ]
    return Value(dtype, tuple(parts))


def _scatter(function: Function, name: str, places: Array, value: Value) -> None:
    offsets = lane_constants(function, places * value.dtype.itemsize, U64)
    scatter(function, Window(f"%{name}", offsets, ""), None, [value])


def fetched(function: Function, fragment: Fragment, slot: int, row: int) -> Value:
    """An element of each lane out of the sums, whose rows have ``row`` numbers."""
    places = fragment.rows[slot] * row + fragment.columns[slot]
    offsets = lane_constants(function, places * 8, U64)
    return gather(function, Window("%z", offsets, ""), None, F64, 0)


def small_product(function: Function, m: int, n: int, k: int) -> None:
    """z = x y, rows of y as vectors."""
    row = f"<{n} x double>"
    name = f"llvm.fma.v{n}f64"
    function.declare(name, f"declare {row} @{name}({row}, {row}, {row})")
    rows: list[str] = []
    for at in range(k):
        place = function.new(f"getelementptr double, ptr %y, i64 {at * n}")
        rows.append(function.new(f"load {row}, ptr {place}, align 8"))
    for i in range(m):
        total = "zeroinitializer"
        for at in range(k):
            place = function.new(f"getelementptr double, ptr %x, i64 {i * k + at}")
            scalar = function.new(f"load double, ptr {place}, align 8")
            total = function.new(
                f"call {row} @{name}({row} {_spread(function, row, 'double', scalar, n)}, "
                f"{row} {rows[at]}, {row} {total})"
            )
        place = function.new(f"getelementptr double, ptr %z, i64 {i * n}")
        function.emit(f"store {row} {total}, ptr {place}, align 8")


def _bit_product(function: Function, m: int, n: int, words: int, operation: str) -> None:
    """z = how many bits of x and y are set together (``and``) or differ (``xor``)."""
    row = f"<{n} x i32>"
    count = f"llvm.ctpop.v{n}i32"
    function.declare(count, f"declare {row} @{count}({row})")
    for i in range(m):
        total = "zeroinitializer"
        for at in range(words):
            place = function.new(f"getelementptr i32, ptr %x, i64 {i * words + at}")
            scalar = function.new(f"load i32, ptr {place}, align 4")
            below = function.new(f"getelementptr i32, ptr %y, i64 {at * n}")
            held = function.new(f"load {row}, ptr {below}, align 4")
            spread = _spread(function, row, "i32", scalar, n)
            met = function.new(f"{operation} {row} {spread}, {held}")
            bits = function.new(f"call {row} @{count}({row} {met})")
            total = function.new(f"add {row} {total}, {bits}")
        place = function.new(f"getelementptr double, ptr %z, i64 {i * n}")
        wide = function.new(f"uitofp {row} {total} to <{n} x double>")
        function.emit(f"store <{n} x double> {wide}, ptr {place}, align 8")


def _spread(function: Function, row: str, element: str, scalar: str, n: int) -> str:
    first = function.new(f"insertelement {row} poison, {element} {scalar}, i64 0")
    return function.new(f"shufflevector {row} {first}, {row} poison, <{n} x i32> zeroinitializer")

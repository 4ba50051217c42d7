"""Steps of ``mma``: a warp multiplies small matrices that its registers hold together.

Products are exact and summed in f64 (integers exactly), then rounded once. The hardware's order
and rounding of sums differs between architectures and is not IEEE's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.fragments import (
    Fragment,
    left_fragment,
    right_fragment,
    sum_fragment,
)
from wia_compiler.simulators.ptx.machine import Machine, Step
from wia_compiler.simulators.ptx.matrix_elements import (
    BITS,
    SUMS,
    numbers,
    rounded_sums,
    sizes_of,
)
from wia_compiler.simulators.ptx.operands import Read, Scope, items_of, reader, writer
from wia_compiler.simulators.ptx.threads import WARP, Array, Threads
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

Matrices = NDArray[np.float64]


def matrix_flops(form: Form) -> int:
    """Floating-point operations of one thread's part of a product."""
    m, n, k = sizes_of(form)
    return 2 * m * n * k // WARP


@dataclass(frozen=True)
class Product:
    """A form of ``mma``: how its matrices lie in registers, and what they are of."""

    left: Fragment
    right: Fragment
    added: Fragment
    left_name: str
    right_name: str
    sum_type: PtxType
    added_type: PtxType
    sizes: tuple[int, int, int]

    def operands(self, form: Form) -> list[tuple[Any, ...]]:
        """The registers of result, factors and sum; ``wmma`` names some twice."""
        result, *rest = (items_of(each) for each in form.instruction.operands)
        counts = (self.left.registers, self.right.registers, len(rest[2]))
        return [result, *(items[:count] for items, count in zip(rest, counts, strict=True))]

    @property
    def holder(self) -> PtxType:
        """The type of a register of the factors."""
        return TYPES["b64"] if self.left_name == "f64" else TYPES["b32"]


def product_of(form: Form) -> Product:
    """What an ``mma`` multiplies; ``UnknownForm`` for what there is not, or is not simulated."""
    name = form.instruction.name
    words = [w for w in form.instruction.modifiers if w in BITS or w in SUMS]
    wide = form.instruction.opcode == "wmma.mma"
    if wide and len(words) == 2:
        words = [words[0], "f16", "f16", words[1]]
    if not {"sp", "sp::ordered_metadata"}.isdisjoint(form.flags):
        raise UnknownForm(f"{name}: products of sparse matrices")
    if (
        len(words) != 4
        or not (wide or "row" in form.flags)
        or BITS.get(words[1]) != BITS.get(words[2])
    ):
        raise UnknownForm(name)
    if "b1" in words and "and" not in form.flags and "xor" not in form.flags:
        raise UnknownForm(name)
    result, left, right, added = words
    m, n, k = sizes_of(form)
    bits = BITS[left]
    if (m, n, k, left) == (8, 8, 4, "f16"):
        raise UnknownForm(f"{name}: the layout of Volta")
    packed = max(1, 32 // bits)
    if m % 8 or n % 8 or (n != 8 and not wide) or k % (4 * packed):
        raise UnknownForm(name)
    return Product(
        left_fragment(m, k, packed),
        right_fragment(k, n, packed),
        sum_fragment(m, n, 2 if result == "f16" else 1),
        left,
        right,
        sum_type(result),
        sum_type(added),
        (m, n, k),
    )


def sum_type(name: str) -> PtxType:
    """The type of a register of sums: two f16 share one."""
    return TYPES["f16x2"] if name == "f16" else TYPES[name]


def decode_multiply(form: Form, scope: Scope) -> Step:
    """``mma.sync.aligned``: exact products, summed in f64 (integers: exactly), rounded once."""
    product = product_of(form)
    operands = product.operands(form)
    puts = [writer(each, product.sum_type, scope) for each in operands[0]]
    a, b = ([reader(each, product.holder, scope) for each in items] for items in operands[1:3])
    c = [reader(each, product.added_type, scope) for each in operands[3]]
    m, n, k = product.sizes
    multiply = multiplier(form)

    def step(machine: Machine) -> None:
        threads = machine.threads
        warps = threads.count // WARP
        x = matrices(product.left, (warps, m, k), elements(threads, a, product.left_name))
        y = matrices(product.right, (warps, k, n), elements(threads, b, product.right_name))
        z = matrices(product.added, (warps, m, n), sums(threads, c))
        total = multiplied(machine, form, multiply, x, y, z)
        store(threads, puts, product.added, rounded_sums(form, total,
              product.sum_type.value), product.sum_type.lanes)  # fmt: skip

    return step


def multiplier(form: Form) -> Callable[[Matrices, Matrices], Matrices]:
    """How factors are multiplied: bits by ``and`` or ``xor``, everything else as numbers."""
    if "xor" not in form.flags:
        return lambda x, y: x @ y

    def differing(x: Matrices, y: Matrices) -> Matrices:
        return x.sum(axis=2)[:, :, None] + y.sum(axis=1)[:, None, :] - 2 * (x @ y)

    return differing


def multiplied(
    machine: Machine,
    form: Form,
    multiply: Callable[[Matrices, Matrices], Matrices],
    x: Matrices,
    y: Matrices,
    z: Matrices,
) -> Matrices:
    """x y + z, summed in f64; sums of f32 and f16 as a launch with jitter has them."""
    loose = not {"f32", "f16"}.isdisjoint(form.instruction.modifiers)
    if machine.jitter is not None and loose:
        return machine.jitter.summed(form.instruction, multiply, x, y, z)
    return multiply(x, y) + z


def elements(threads: Threads, reads: Sequence[Read], name: str) -> Matrices:
    """The numbers in registers of factors: (elements, warps, lanes)."""
    held = np.stack([np.broadcast_to(read(threads), (threads.count,)) for read in reads], axis=-1)
    return np.moveaxis(numbers(held.reshape(-1, WARP, len(reads)), name), -1, 0)


def sums(threads: Threads, reads: Sequence[Read]) -> Matrices:
    """The numbers in registers of sums: (elements, warps, lanes)."""
    rows: list[Any] = []
    for read in reads:
        value: Array = read(threads)
        lanes = value.shape[1:] or (1,)
        value = np.broadcast_to(value.reshape(-1, *lanes), (threads.count, *lanes))
        rows.append(value.astype(np.float64).reshape(-1, WARP, *lanes))
    return np.moveaxis(np.concatenate(rows, axis=-1), -1, 0)


def matrices(fragment: Fragment, shape: tuple[int, int, int], held: Matrices) -> Matrices:
    """Matrices of warps, from their elements in registers: (warps, rows, columns)."""
    made = np.zeros(shape)
    made[:, fragment.rows, fragment.columns] = np.moveaxis(held, 1, 0)
    return made


def store(
    threads: Threads, puts: Sequence[Any], fragment: Fragment, made: Array, packed: int
) -> None:
    """Put matrices of warps into registers, ``packed`` elements in each."""
    parts = made[:, fragment.rows, fragment.columns]
    for number, put in enumerate(puts):
        some = parts[:, number * packed : (number + 1) * packed]
        values = np.ascontiguousarray(np.moveaxis(some, 1, -1)).reshape(threads.count, packed)
        put(threads, values if packed > 1 else values[:, 0])

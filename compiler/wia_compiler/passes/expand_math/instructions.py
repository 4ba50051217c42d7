"""Steps of functions that AVX-512 has one instruction for, on vectors of its sizes.

Each gives ``None`` where there is no such instruction; the caller then takes the steps. Vectors and
scalars on one CPU give the same bits (``size-layout`` in docs/numerics.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from xdsl.dialects import arith, llvm
from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    Float32Type,
    IntegerType,
    VectorType,
    f32,
)
from xdsl.ir import Attribute

from wia_compiler.passes.expand_math.builder import Number

_SCALE = "llvm.x86.avx512.mask.scalef"
_SIZES = (128, 256, 512)
_ROUNDING_OF_THE_THREAD = 4
_PERMUTE = "llvm.x86.avx512.permvar.sf.512"
"""Lanes of a vector by an index for each."""


def scaled_at_once(number: Number, power: Number) -> Number | None:
    """A float times ``2^floor(power)``, rounded once."""
    bits = _bits_of(number.type)
    if not number.at.scales_vectors or bits not in _SIZES:
        return None
    lanes = cast("VectorType[Attribute]", number.type).get_shape()[0]
    every = number.at.constant(-1, IntegerType(max(8, lanes)))
    operands = [number.value, power.value, number.value, every.value]
    if bits == 512:
        rounding = number.at.constant(_ROUNDING_OF_THE_THREAD, IntegerType(32))
        operands.append(rounding.value)
    name = f"{_SCALE}.{'ps' if number.is_f32 else 'pd'}.{bits}"
    made = llvm.CallIntrinsicOp(name, operands, [number.type])
    return number.at.number(number.at.insert(made))


def chosen_from(index: Number, table: Sequence[float]) -> Number | None:
    """An element of a table of 16 f32 by the low 4 bits of integers.

    A register holds the table for vectors of its size; others and scalars halve what is left of it
    at each bit, so that the element is the same for every shape on one CPU.
    """
    if not index.at.scales_vectors:
        return None
    type_ = index.like(f32)
    if _bits_of(type_) == 512:
        shape = cast("VectorType[Any]", type_)
        values = DenseIntOrFPElementsAttr.from_list(shape, list(table))
        held = index.at.insert(arith.ConstantOp(values, shape))
        made = llvm.CallIntrinsicOp(_PERMUTE, [held, index.value], [type_])
        return index.at.number(index.at.insert(made))
    left = [index.at.constant(each, type_) for each in table]
    for bit in range(4):
        is_set = (index & (1 << bit)).compare("ne", 0)
        left = [is_set.select(b, a) for a, b in zip(left[::2], left[1::2], strict=True)]
    return left[0]


def _bits_of(type_: Attribute) -> int:
    """Bits of a vector of floats; 0 for a scalar."""
    if not isinstance(type_, VectorType):
        return 0
    vector = cast("VectorType[Attribute]", type_)
    width = 32 if isinstance(vector.element_type, Float32Type) else 64
    return width * vector.get_shape()[0] if len(vector.get_shape()) == 1 else 0

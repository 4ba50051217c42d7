"""MLIR types and constants as LLVM spells them."""

from __future__ import annotations

import math
import struct
from typing import Any, cast

import ml_dtypes
import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    IndexType,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    VectorType,
)
from xdsl.ir import Attribute

from wia_compiler.dialects.gpu_memory import scope_of_type
from wia_compiler.dialects.nvgpu_hopper_types import (
    AccumulatorType,
    BarrierGroupType,
    TensorMapType,
    WarpgroupDescriptorType,
)
from wia_compiler.passes.llvm.options import EmitOptions

_FLOAT_NAMES: dict[type[Attribute], tuple[str, str, int]] = {
    Float64Type: ("double", "f64", 8),
    Float32Type: ("float", "f32", 4),
    Float16Type: ("half", "f16", 2),
    BFloat16Type: ("bfloat", "bf16", 2),
}


_HOPPER_NAMES: dict[type[Attribute], str] = {
    BarrierGroupType: "ptr addrspace(3)",
    TensorMapType: "ptr",
    WarpgroupDescriptorType: "i64",
}


class LLVMError(Exception):
    """A module that has no LLVM form: an op or type that an earlier pass should have replaced."""


def integer_width(attribute: Attribute) -> int | None:
    """Bits of an integer or index type; ``None`` for another."""
    kind = type(attribute)  # these have no subclasses, and isinstance takes ten times as long
    if kind is IndexType:
        return 64
    if kind is IntegerType:
        return cast("IntegerType", attribute).width.data
    return None


def llvm_type(attribute: Attribute, options: EmitOptions) -> str:
    """The LLVM type of an SSA value: ``float``, ``i64``, ``<8 x float>``, ``ptr addrspace(3)``."""
    kind = type(attribute)
    width = integer_width(attribute)
    if width is not None:
        return f"i{width}"
    if kind is BFloat16Type and options.bf16 == "integer":
        return "i16"
    named = _FLOAT_NAMES.get(kind)
    if named is not None:
        return named[0]
    if type(attribute) is VectorType:
        return f"<{_lanes(attribute)} x {llvm_type(attribute.element_type, options)}>"
    if kind is MemRefType:
        return pointer_type(address_space(cast("MemRefType[Attribute]", attribute), options))
    if isinstance(attribute, AccumulatorType):
        return accumulator_type(attribute)
    if kind in _HOPPER_NAMES:
        return _HOPPER_NAMES[kind]
    raise LLVMError(f"no LLVM type for {attribute}")


def accumulator_type(attribute: AccumulatorType) -> str:
    """A struct of the elements that one thread holds: ``%accumulator.128xf32``."""
    element = "i32" if isinstance(attribute.fragmented.element_type, IntegerType) else "f32"
    return f"%accumulator.{attribute.slots}x{element}"


def memory_type(element: Attribute, options: EmitOptions) -> str:
    """How an element lies in memory: as its SSA type, but a bool takes a byte."""
    if type(element) is VectorType:
        return f"<{_lanes(element)} x {memory_type(element.element_type, options)}>"
    return "i8" if integer_width(element) == 1 else llvm_type(element, options)


def size_bytes(element: Attribute) -> int:
    """Bytes of one element in memory."""
    width = integer_width(element)
    if width is not None:
        return max(1, width // 8)
    if type(element) is VectorType:
        return _lanes(element) * size_bytes(element.element_type)
    return _FLOAT_NAMES[type(element)][2]


def intrinsic_suffix(attribute: Attribute) -> str:
    """What overloaded intrinsics append for a type: ``f32``, ``i64``, ``v8f32``."""
    width = integer_width(attribute)
    if width is not None:
        return f"i{width}"
    if isinstance(attribute, VectorType):
        vector = cast("VectorType[Attribute]", attribute)
        return f"v{_lanes(vector)}{intrinsic_suffix(vector.element_type)}"
    return _FLOAT_NAMES[type(attribute)][1]


def scalar_of(attribute: Attribute) -> Attribute:
    """The element type of a vector; any other type itself."""
    if isinstance(attribute, VectorType):
        return cast("VectorType[Attribute]", attribute).element_type
    return attribute


def with_element(attribute: Attribute, element: Attribute) -> Attribute:
    """The type with another element: ``vector<8xbf16>`` and f32 give ``vector<8xf32>``."""
    if isinstance(attribute, VectorType):
        return VectorType(element, cast("VectorType[Attribute]", attribute).get_shape())
    return element


def is_bf16(attribute: Attribute) -> bool:
    """Whether the type is bf16 or a vector of it."""
    return isinstance(scalar_of(attribute), BFloat16Type)


def pointer_type(space: int) -> str:
    """``ptr``, or ``ptr addrspace(N)``."""
    return f"ptr addrspace({space})" if space else "ptr"


def scope_of(memref: MemRefType[Attribute]) -> str:
    """Whose memory it is: ``register``, ``shared`` …; empty for main memory."""
    return scope_of_type(memref)


def address_space(memref: MemRefType[Attribute], options: EmitOptions) -> int:
    """The address space of a memref's pointer."""
    match scope_of(memref):
        case "":
            return options.global_space
        case "shared":
            return 3
        case _:
            return 0


def strides_of(memref: MemRefType[Attribute]) -> tuple[int, ...]:
    """Strides in elements; ``LLVMError`` where the layout leaves one open."""
    layout = memref.layout
    if isinstance(layout, NoneAttr):
        strides: list[int] = []
        stride = 1
        for size in reversed(memref.get_shape()):
            strides.append(stride)
            stride *= max(size, 1)
        return tuple(reversed(strides))
    if isinstance(layout, StridedLayoutAttr):
        values = layout.get_strides()
        if all(value is not None for value in values):
            return tuple(value for value in values if value is not None)
    raise LLVMError(f"the layout of {memref} leaves strides open")


def num_elements(memref: MemRefType[Attribute]) -> int:
    """Product of the sizes."""
    return math.prod(memref.get_shape())


def constant(value: Any, attribute: Attribute, options: EmitOptions) -> str:
    """A Python number as a constant of a scalar type, or splatted over a vector."""
    if isinstance(attribute, VectorType):
        vector = cast("VectorType[Attribute]", attribute)
        element = constant(value, vector.element_type, options)
        return f"splat ({llvm_type(vector.element_type, options)} {element})"
    width = integer_width(attribute)
    if width == 1:
        return "true" if value else "false"
    if width is not None:
        return str(int(value))
    return _float_constant(float(value), attribute, options)


def _float_constant(value: float, attribute: Attribute, options: EmitOptions) -> str:
    if isinstance(attribute, Float16Type):
        with np.errstate(over="ignore"):
            return f"0xH{int(np.float16(value).view(np.uint16)):04X}"
    if isinstance(attribute, BFloat16Type):
        bits = int(np.array(value, ml_dtypes.bfloat16).view(np.uint16))
        return str(bits) if options.bf16 == "integer" else f"0xR{bits:04X}"
    if isinstance(attribute, Float32Type):
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    text = f"{value:e}"
    if math.isfinite(value) and float(text) == value:
        return text
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _lanes(vector: VectorType[Attribute]) -> int:
    return math.prod(vector.get_shape())

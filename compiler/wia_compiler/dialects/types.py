"""Between the language's types and MLIR's, and between Python values and attributes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BFloat16Type,
    BoolAttr,
    Float16Type,
    Float32Type,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    Signedness,
    StringAttr,
    TensorType,
    UnitAttr,
)
from xdsl.ir import Attribute

from wia_compiler.base.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, I8, I16, I32, I64, U8, DType

Value: TypeAlias = "bool | int | float | str | tuple[Value, ...] | None"

ELEMENT_TYPES: dict[str, Attribute] = {
    F64.name: Float64Type(),
    F32.name: Float32Type(),
    F16.name: Float16Type(),
    BF16.name: BFloat16Type(),
    I64.name: IntegerType(64),
    I32.name: IntegerType(32),
    I16.name: IntegerType(16),
    I8.name: IntegerType(8),
    U8.name: IntegerType(8, Signedness.UNSIGNED),
    BOOL.name: IntegerType(1),
}
_DTYPE_OF = {attribute: DTYPES[name] for name, attribute in ELEMENT_TYPES.items()}


@dataclass(frozen=True)
class TensorSpec:
    """Shape and dtype of a value; ``label`` is what messages call it (``A``)."""

    shape: tuple[int, ...]
    dtype: DType
    label: str = field(default="", compare=False)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def num_elements(self) -> int:
        """Product of the sizes (1 for a scalar)."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def size_bytes(self) -> int:
        """Bytes of all elements."""
        return self.num_elements * self.dtype.size_bytes

    def __str__(self) -> str:
        sizes = "".join(f"{size}x" for size in self.shape)
        return f"tensor<{sizes}{self.dtype}>"


def element_type(dtype: DType) -> Attribute:
    """The MLIR type of one element at the high level (u8 is ``ui8``, bool is ``i1``)."""
    return ELEMENT_TYPES[dtype.name]


def dtype_of(attribute: Attribute) -> DType:
    """The dtype of a scalar or tensor type; ``KeyError`` for a type the language does not have."""
    tensor = as_tensor(attribute)
    return _DTYPE_OF[attribute if tensor is None else tensor.element_type]


def as_tensor(attribute: Attribute) -> TensorType[Attribute] | None:
    """The type itself where it is a ranked tensor."""
    if isinstance(attribute, TensorType):
        return cast("TensorType[Attribute]", attribute)
    return None


def tensor_type(shape: Sequence[int], dtype: DType) -> TensorType[Attribute]:
    """``tensor<4x8xf32>``."""
    return TensorType(element_type(dtype), list(shape))


def spec_of(attribute: Attribute, label: str = "") -> TensorSpec:
    """Shape and dtype of a ranked, static tensor type or a scalar type."""
    tensor = as_tensor(attribute)
    shape = () if tensor is None else tensor.get_shape()
    return TensorSpec(shape, dtype_of(attribute), label)


def type_of(spec: TensorSpec) -> TensorType[Attribute]:
    """The tensor type of a spec."""
    return tensor_type(spec.shape, spec.dtype)


def to_attribute(value: Value) -> Attribute:
    """A Python value as an MLIR attribute: ints are i64, floats f64, tuples arrays."""
    match value:
        case None:
            return UnitAttr()
        case bool():
            return BoolAttr.from_bool(value)
        case int():
            return IntegerAttr(value, 64)
        case float():
            return FloatAttr(value, 64)
        case str():
            return StringAttr(value)
        case tuple():
            return ArrayAttr([to_attribute(item) for item in value])


def from_attribute(attribute: Attribute) -> Value:
    """The Python value that ``to_attribute`` made the attribute from."""
    match attribute:
        case UnitAttr():
            return None
        case IntegerAttr():
            if attribute.type == IntegerType(1):
                return bool(attribute.value.data)
            return attribute.value.data
        case FloatAttr():
            return attribute.value.data
        case StringAttr():
            return attribute.data
        case ArrayAttr():
            return tuple(from_attribute(item) for item in attribute.data)
        case _:
            raise TypeError(f"no Python value for attribute {attribute}")

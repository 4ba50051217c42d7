"""Names that a text does not declare and ``bindings=`` gives a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wia_compiler.base.dtypes import from_numpy
from wia_compiler.frontend.cpp.context import Context, Variable
from wia_compiler.frontend.cpp.reading import text_of
from wia_compiler.frontend.cpp.types import ANY, CppType
from wia_compiler.frontend.cpp.values import Number, constant

if TYPE_CHECKING:
    from tree_sitter import Node

_INT = 2**31


def bound_variable(
    node: Node, rank: int, context: Context, bindings: Mapping[str, object]
) -> Variable | None:
    """What a free name is bound to: a number as if it were ``#define``d, or an array."""
    name = text_of(node)
    if name not in bindings:
        return None
    value = bindings[name]
    number = bound_number(value)
    if number is not None:
        typed = constant(number[0], number[1], context.text.span(node))
        return Variable(name, name, "scalar", number[1], is_fixed=True, value=typed)
    dtype = getattr(value, "dtype", None)
    shape = getattr(value, "shape", None)
    if dtype is None or shape is None:
        return None
    if rank and len(shape) != rank:
        raise context.text.refuse(
            node,
            f"{name!r} is bound to an array with {len(shape)} axes, found {rank} indices",
            f"write {name}{'[i]' * len(shape)}",
        )
    return Variable(name, name, "array", _type_of(dtype), len(shape), is_fixed=True)


def bound_number(value: object) -> tuple[Number, CppType] | None:
    """A Python or numpy number with the type that C++ gives its like: int, double, bool."""
    if isinstance(value, np.generic):
        scalar = cast("np.generic", value)
        type_ = _type_of(cast("Any", scalar).dtype)
        return None if type_ == ANY else (cast("Number", scalar.item()), type_)
    if isinstance(value, bool):
        return value, "bool"
    if isinstance(value, int):
        return value, "i32" if -_INT <= value < _INT else "i64"
    return (value, "f64") if isinstance(value, float) else None


def _type_of(dtype: Any) -> CppType:
    """The dtype's name; that of an array which the compiler will refuse is not known here."""
    try:
        found = from_numpy(np.dtype(dtype))
    except TypeError:
        return ANY
    return ANY if found is None else found.name

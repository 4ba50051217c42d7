"""Free names of a text and what ``bindings=`` gives for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, NamedTuple, cast

from xdsl.ir import SSAValue

from wia_compiler.dialects.types import Value

Number = bool | int | float


class NotAConstant(Enum):
    """What is bound holds an array, whose elements are known only when the kernel runs."""

    ARRAY = "array"


class Bound(NamedTuple):
    """What a name is bound to: ``number`` of a number, ``elements`` of a tuple or list.

    ``described`` is how a message speaks of another object.
    """

    sort: Literal["array", "number", "tuple", "other"]
    number: Number | None = None
    elements: tuple[Bound, ...] = ()
    described: str = ""

    @property
    def constant(self) -> Value | NotAConstant:
        """The number, or the numbers of a tuple, for an attribute."""
        if self.number is not None:
            return self.number
        if self.sort != "tuple":
            return NotAConstant.ARRAY
        items = [each.constant for each in self.elements]
        known = [each for each in items if not isinstance(each, NotAConstant)]
        return tuple(known) if len(known) == len(items) else NotAConstant.ARRAY


@dataclass
class BoundNames:
    """The bindings as one function sees them.

    ``arrays`` are the bound arrays that it takes, in the order in which it first used them.
    """

    bindings: Mapping[str, object] = field(default_factory=dict[str, object])
    arrays: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def find(self, name: str) -> Bound | None:
        """What ``name`` is bound to; ``params.0`` is the first element of the tuple ``params``."""
        base, *places = name.split(".")
        if base not in self.bindings:
            return None
        value = self.bindings[base]
        for place in places:
            if not _is_sequence(value) or not place.isdecimal():
                return None
            elements = cast("Sequence[object]", value)
            if int(place) >= len(elements):
                return None
            value = elements[int(place)]
        return _bound(value)


def _bound(value: object) -> Bound:
    number = _number(value)
    if number is not None:
        return Bound("number", number)
    if _is_sequence(value):
        elements = tuple(_bound(each) for each in cast("Sequence[object]", value))
        return Bound("tuple", None, elements, f"a {type(value).__name__} of {len(elements)}")
    if isinstance(value, type):
        return Bound("other", None, (), "a class")
    arrays = ("__array__", "__dlpack__", "__cuda_array_interface__")
    is_spec = hasattr(value, "shape") and hasattr(value, "dtype")  # which stands for an array
    if is_spec or any(hasattr(value, each) for each in arrays):
        return Bound("array")
    kind = f"a {type(value).__name__}"
    return Bound("other", None, (), kind)


def _number(value: object) -> Number | None:
    if isinstance(value, bool | int | float):
        return value
    import numpy as np

    if not isinstance(value, np.generic):
        return None
    found = cast("np.generic", value).item()
    return found if isinstance(found, bool | int | float) else None


def _is_sequence(value: object) -> bool:
    return isinstance(value, tuple | list)

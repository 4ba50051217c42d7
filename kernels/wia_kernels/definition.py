"""What the library knows of one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Shapes = tuple[tuple[int, ...], ...]

FLOATS = ("f64", "f32", "f16", "bf16")
INTEGERS = ("i64", "i32", "i16", "i8", "u8")


@dataclass(frozen=True)
class KernelDefinition:
    """A kernel of the library.

    ``text`` is its source in the language and ``name`` the kernel in it. ``reference`` takes the
    inputs in order as numpy arrays (float64 for every float dtype, integers as they are; scalars
    as numbers) and gives the result, an array. ``shapes`` holds, for each case worth running,
    one shape per input in order (``()`` for a scalar); odd sizes and empty ones are among them.
    ``dtypes`` are the element types its tensors may have.
    """

    name: str
    text: str
    reference: Callable[..., Any]
    shapes: tuple[Shapes, ...]
    dtypes: tuple[str, ...]
    doc: str

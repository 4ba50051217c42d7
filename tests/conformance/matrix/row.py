"""What a row of the matrix is: how one op is called, on which operands, and what it must give.

The matrix is op × dtype × shape condition × values × executor. Its cross product is cut on
purpose, so that every pair of two of the first four stands in at least one case:

* every op meets every dtype, and every op meets every shape condition: a dtype takes the
  conditions whose number, counted from that of the op's group, falls on it (``assigned``);
* every case is run with every class of values that its dtype has, for that needs no compilation;
* every case is run by every executor.

Ops with equal operands are compiled together, up to ``MOST_TOGETHER`` a kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
Shape: TypeAlias = tuple[int, ...]

SIZES = (0, 1, 3, 17, 127, 1000)
LAYOUTS = ("strided", "negative", "broadcast")
CONDITIONS: tuple[str, ...] = (*map(str, SIZES), *LAYOUTS)
VALUES = ("ordinary", "nan", "inf", "subnormal")
MOST_TOGETHER = 14

ORDINARY = 9


def size_of(condition: str) -> int:
    """The size that a condition is about; an ordinary one under a layout."""
    return int(condition) if condition.isdigit() else ORDINARY


Shapes: TypeAlias = Callable[[str], tuple[Shape, ...]]
"""The shapes of the operands ``a``, ``b``, … under a shape condition."""

Truth: TypeAlias = Callable[..., Array]
"""The mathematical value: floats come and go as ``longdouble``, integers as Python numbers."""

Scale: TypeAlias = Callable[..., Array]
"""The size that an error is measured against, from the operands as ``longdouble``."""


@dataclass(frozen=True)
class Bound:
    """How far a float result may be from the truth.

    ``ulps`` units in the last place of the result's dtype at the truth, and ``terms`` times the
    epsilon of the accumulator times ``scale``. Without either a result must be the reference's,
    bit for bit, and the reference within half a unit of the truth.
    """

    ulps: float = 0.0
    terms: Callable[..., Any] | float = 0.0
    scale: Scale | None = None

    @property
    def is_exact(self) -> bool:
        """Whether every executor must give the same bits."""
        return not self.ulps and self.scale is None


EXACT = Bound()


@dataclass(frozen=True)
class Call:
    """One way to call an op: ``text`` in the language over the operands ``a``, ``b``, ….

    In the text ``{n}`` stands for the size of the condition (``ORDINARY`` for a layout).
    ``truth`` is what it means in more bits (``None``: the reference alone says it).
    """

    text: str
    truth: Truth | None = None
    bound: Bound = EXACT

    def written(self, condition: str) -> str:
        """The text of the call under a shape condition."""
        return self.text.replace("{n}", str(size_of(condition)))


@dataclass(frozen=True)
class Row:
    """How the matrix tries one op.

    ``dtypes`` of an operand replace the dtype of the case (``bool`` for a condition); ``makers``
    replace the values. ``only`` restricts the dtypes that are tried, for operands whose values
    have no meaning in the others.
    """

    op: str
    shapes: Shapes
    calls: tuple[Call, ...]
    dtypes: Mapping[str, str] = field(default_factory=dict[str, str])
    makers: Mapping[str, str] = field(default_factory=dict[str, str])
    only: tuple[str, ...] = ()

    @property
    def operands(self) -> str:
        """The names of the operands."""
        return "abcdefgh"[: len(self.shapes("17"))]

    @property
    def group(self) -> tuple[Any, ...]:
        """Equal for rows that can be compiled together."""
        return (
            self.shapes.__name__,
            tuple(self.dtypes.items()),
            tuple(self.makers.items()),
            self.only,
        )


def assigned(dtypes: tuple[str, ...], dtype: str, turn: int) -> tuple[str, ...]:
    """The shape conditions that a dtype takes, of all that ``dtypes`` share among them.

    ``turn`` (the number of the group) shifts the deal, so that over the groups a dtype meets every
    condition.
    """
    place = dtypes.index(dtype)
    count = len(CONDITIONS)
    each = -(-count // len(dtypes))
    start = turn + place * each
    return tuple(CONDITIONS[(start + step) % count] for step in range(each))

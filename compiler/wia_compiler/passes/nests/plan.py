"""What a nest will be, before its IR is written: axes, buffers, leaves and what they read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from xdsl.ir import Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.base.dtypes import I64, DType
from wia_compiler.dialects.tile import LeafKind
from wia_compiler.dialects.tile_places import LookupOp
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.nests.movement import Index
from wia_compiler.passes.nests.views import View

AxisRole = Literal["kept", "inner", "ordered"]


@dataclass(frozen=True)
class Axis:
    """One axis of a nest: ``kept`` ones have a loop, ``inner`` ones live in leaves alone.

    An ``ordered`` one has a loop inside those of the kept axes, which runs in order.
    """

    name: str
    size: int
    role: AxisRole = "kept"


@dataclass(frozen=True, eq=False)
class Register:
    """A register buffer with one element for each point of the kept axes."""

    name: str
    dtype: DType
    op: Operation


@dataclass(frozen=True, eq=False)
class Positions:
    """The numbers from 0 up to ``size``, as an array that no memory holds."""

    size: int
    name: str = "position"
    dtype: DType = I64


@dataclass
class Access:
    """One operand of a leaf; ``index`` is over the nest's axes, a register has the kept ones."""

    buffer: View | Register | Positions
    index: Index = ()
    padded: bool = False


@dataclass
class LeafPlan:
    """One leaf: ``inner`` are its axes beside the kept ones, ``reduce`` those of them it folds.

    Only points with ``0 <= expression < limit`` for every pair of ``bounds`` take part. ``tables``
    holds the array of each lookup in its body. A ``reduce`` leaf that ``multiplies`` is a matrix
    product of values computed on the way. An ordered leaf stands in the ordered axis's loop,
    after all leaves that are not.
    """

    kind: LeafKind
    inner: tuple[int, ...]
    reduce: tuple[int, ...]
    inputs: list[Access]
    outputs: list[Access]
    body: Region
    ops: Sequence[Operation]
    bounds: Sequence[tuple[AffineExpr, int]] = ()
    tables: Mapping[LookupOp, View] = field(default_factory=dict[LookupOp, View])
    is_ordered: bool = False
    multiplies: bool = False


@dataclass
class NestPlan:
    """One nest. Position in ``axes`` is the dimension's number in every index.

    ``units`` are the names of axes that have one point here, and so are none.
    """

    axes: list[Axis]
    leaves: list[LeafPlan]
    registers: list[Register] = field(default_factory=list[Register])
    units: list[str] = field(default_factory=list[str])

    @property
    def sizes(self) -> list[int]:
        """Extents of the axes."""
        return [axis.size for axis in self.axes]

    @property
    def kept(self) -> list[int]:
        """Positions of the axes that have a loop."""
        return [n for n, axis in enumerate(self.axes) if axis.role == "kept"]

    @property
    def ordered(self) -> list[int]:
        """Positions of the axes whose loop stands inside the others and runs in order."""
        return [n for n, axis in enumerate(self.axes) if axis.role == "ordered"]


@dataclass(frozen=True)
class Result:
    """A value of a group and the array it is written to."""

    value: SSAValue
    target: View


@dataclass
class Group:
    """Ops that become one nest: arguments are arrays or numbers, results are written to arrays."""

    name: str
    ops: Sequence[TensorOp | ConstantOp]
    arrays: Mapping[SSAValue, View]
    numbers: Mapping[SSAValue, bool | int | float]
    results: Sequence[Result]


AXIS_NAMES = "ijklmnopqtuvwz"


def fresh_name(taken: Sequence[str], pool: str = AXIS_NAMES) -> str:
    """The first name of the pool that is free; then ``x1``, ``x2`` …"""
    for name in pool:
        if name not in taken:
            return name
    number = 1
    while f"x{number}" in taken:
        number += 1
    return f"x{number}"


def domain_index(shape: Sequence[int], positions: Mapping[int, int]) -> Index:
    """The index of a whole domain: its axis's dimension, or 0 where the size is 1."""
    return tuple(
        AffineExpr.dimension(positions[axis]) if axis in positions else AffineExpr.constant(0)
        for axis in range(len(shape))
    )

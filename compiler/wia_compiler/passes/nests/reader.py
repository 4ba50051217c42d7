"""Leaf bodies: the scalar ops that compute values of a group at given indices.

Elementwise ops and movement ops are inlined: a value is computed where it is needed, at the index
at which it is needed. Reading stops at arrays, numbers, anchors (results of reductions and
contractions, which live in registers) and values of a row that an earlier leaf keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.nests.body import Body, scalar_type
from wia_compiler.passes.nests.casts import cast_scalar
from wia_compiler.passes.nests.movement import (
    MOVEMENT,
    Index,
    broadcast_index,
    kind_of,
    moved_view,
    operand_index,
)
from wia_compiler.passes.nests.plan import Access, Group, NotOneNest, Register
from wia_compiler.passes.nests.scalars import apply_scalar
from wia_compiler.passes.nests.views import View


@dataclass(frozen=True)
class Anchor:
    """The result of a reduction or contraction: its register and the one index it exists at."""

    register: Register
    index: Index
    dtype: DType


Root = tuple[SSAValue, Index]
"""A value and the index at which it is needed."""
Wanted = dict[SSAValue, dict[Index, None]]
"""For each value, the indices at which a leaf computes it."""


@dataclass
class Reader:
    """Reads values of one group; ``anchors`` and ``kept`` grow as leaves that compute them do."""

    group: Group
    sizes: Sequence[int]
    anchors: dict[SSAValue, Anchor] = field(default_factory=dict[SSAValue, Anchor])
    kept: dict[Root, Register] = field(default_factory=dict[Root, Register])

    def __post_init__(self) -> None:
        self.views = reshaped_views(self.group)

    def is_inlined(self, value: SSAValue, index: Index) -> bool:
        """Whether the op that makes the value is computed in the leaf that needs it."""
        return not (
            value in self.anchors
            or (value, index) in self.kept
            or value in self.views
            or value in self.group.numbers
            or isinstance(value.owner, ConstantOp)
        )

    def read(self, roots: Sequence[Root]) -> LeafReading:
        """The body that computes each root at its index, and the accesses it makes."""
        wanted = self._wanted(roots)
        reading = LeafReading(self)
        for op in self.group.ops:
            for index in wanted.get(op.results[0], ()):
                reading.compute(op, index)
        reading.roots = [reading.value(value, index) for value, index in roots]
        return reading

    def row_values(self, roots: Sequence[Root], row: Collection[int]) -> list[Root]:
        """What the leaf of ``roots`` would compute at each of its points though a row has one.

        These are elementwise values whose index moves along the axes ``row`` alone, where what they
        are needed for moves along others too.
        """
        wanted = self._wanted(roots)
        found: dict[Root, None] = {}
        for op in self.group.ops:
            for index in wanted.get(op.results[0], ()):
                if not is_within_axes(index, row):
                    found |= dict.fromkeys(self._row_operands(op, index, row))
        return list(found)

    def _row_operands(
        self, op: TensorOp | ConstantOp, index: Index, row: Collection[int]
    ) -> Iterator[Root]:
        """Operands of an op that are values of the row, behind what only moves them."""
        assert isinstance(op, TensorOp)
        for operand, each in operand_indices(op, index, self.sizes):
            if not is_within_axes(each, row) or not self.is_inlined(operand, each):
                continue
            assert isinstance(operand.owner, TensorOp)
            if operand.owner.declaration.family == "movement":
                yield from self._row_operands(operand.owner, each, row)
            else:
                yield operand, each

    def _wanted(self, roots: Sequence[Root]) -> Wanted:
        wanted: Wanted = {}
        for value, index in roots:
            if self.is_inlined(value, index):
                wanted.setdefault(value, {})[index] = None
        for op in reversed(self.group.ops):
            for index in wanted.get(op.results[0], ()):
                self._want_operands(op, index, wanted)
        return wanted

    def _want_operands(self, op: TensorOp | ConstantOp, index: Index, wanted: Wanted) -> None:
        assert isinstance(op, TensorOp)
        if op.declaration.family not in ("elementwise", "movement"):
            raise NotOneNest(f"{kind_of(op)} depends on a value that one nest computes later")
        for operand, each in operand_indices(op, index, self.sizes):
            if self.is_inlined(operand, each):
                wanted.setdefault(operand, {})[each] = None


class LeafReading:
    """A body under construction: block arguments are made as arrays are first read."""

    def __init__(self, reader: Reader):
        self.reader = reader
        self.body = Body()
        self.inputs: list[Access] = []
        self.ops: dict[Operation, None] = {}
        self.roots: list[SSAValue] = []
        self._values: dict[Root, SSAValue] = {}
        self._arguments: dict[tuple[View | Register, Index], SSAValue] = {}

    def at(self, op: Operation) -> None:
        """Note that the leaf computes ``op``; what is added next gets its location."""
        self.ops[op] = None
        self.body.location = op.location

    def compute(self, op: TensorOp | ConstantOp, index: Index) -> None:
        """Append one op at one index; its operands are there already."""
        assert isinstance(op, TensorOp)
        name = kind_of(op)
        operands = [
            self.value(operand, each)
            for operand, each in operand_indices(op, index, self.reader.sizes)
        ]
        self.at(op)
        if name in MOVEMENT:
            self._values[op.result, index] = operands[0]
            return
        dtype = spec_of(op.arguments[-1].type).dtype
        if name == "cast":
            made = cast_scalar(self.body, operands[0], dtype, DTYPES[str(op.values["dtype"])])
        else:
            made = apply_scalar(self.body, name, dtype, operands)
        if made.name_hint is None and made is not operands[0]:
            made.name_hint = op.result.name_hint
        self._values[op.result, index] = made

    def value(self, value: SSAValue, index: Index) -> SSAValue:
        """The scalar of a value at an index: computed before, read from an array, or a number."""
        known = self._values.get((value, index))
        if known is not None:
            return known
        reader = self.reader
        row = reader.kept.get((value, index))
        if row is not None:
            made = self.access(Access(row), row.name)
        elif value in reader.anchors:
            made = self._anchor(reader.anchors[value], index)
        elif value in reader.views:
            made = self.access(Access(reader.views[value], index), value.name_hint)
        else:
            return self._number(value)
        self._values[value, index] = made
        return made

    def _number(self, value: SSAValue) -> SSAValue:
        """A constant of the group, or a number that it is given."""
        dtype = spec_of(value.type).dtype
        if isinstance(value.owner, ConstantOp):
            self.at(value.owner)
            return self.body.constant(value.owner.number, dtype)
        return self.body.constant(self.reader.group.numbers[value], dtype)

    def values_at(self, index: Index) -> list[SSAValue]:
        """The values that the body computes at an index."""
        return [value for value, each in self._values if each == index]

    def access(self, access: Access, name: str | None) -> SSAValue:
        """The body's argument for one access; the same access is one argument."""
        key = (access.buffer, access.index)
        known = self._arguments.get(key)
        if known is None:
            self.inputs.append(access)
            known = self.body.argument(scalar_type(access.buffer.dtype), name)
            self._arguments[key] = known
        return known

    def _anchor(self, anchor: Anchor, index: Index) -> SSAValue:
        if index != anchor.index:
            raise NotOneNest(
                f"{anchor.register.name} is read at another place than where it is computed"
            )
        held = self.access(Access(anchor.register), anchor.register.name)
        self.at(anchor.register.op)
        return cast_scalar(self.body, held, anchor.register.dtype, anchor.dtype)


def is_within_axes(index: Index, axes: Collection[int]) -> bool:
    """Whether an index moves along no other axes than these."""
    read = (atom for each in index for atom in atoms(each))
    return all(isinstance(atom, AffineDimExpr) and atom.position in axes for atom in read)


def operand_indices(
    op: TensorOp, index: Index, sizes: Sequence[int]
) -> list[tuple[SSAValue, Index]]:
    """Each operand of an elementwise or movement op with the index at which it is read."""
    if op.declaration.family == "movement":
        return [(op.arguments[0], operand_index(op, index, sizes))]
    return [
        (operand, broadcast_index(index, spec_of(operand.type).shape)) for operand in op.arguments
    ]


def reshaped_views(group: Group) -> Mapping[SSAValue, View]:
    """Arrays of the group, and reshapes of them that need no index arithmetic.

    Permutes and broadcasts are left out: they read better as index maps.
    """
    moved = dict(group.arrays)
    views = dict(group.arrays)
    for op in group.ops:
        if not isinstance(op, TensorOp) or op.declaration.family != "movement":
            continue
        source = moved.get(op.arguments[0])
        target = moved_view(op, source) if source is not None else None
        if target is None:
            continue
        moved[op.result] = target
        if kind_of(op) == "reshape":
            views[op.result] = target
    return views

"""Leaf bodies: the scalar ops that compute values of a group at given indices.

Elementwise ops and movement ops are inlined: a value is computed where it is needed, at the index
at which it is needed. Reading stops at arrays, numbers, anchors (results of reductions and
contractions, which live in registers) and values of a row that an earlier leaf keeps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.base.dtypes import DTYPES, I64, DType
from wia_compiler.dialects.tile_places import LookupOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.dialects.wia.rules import normalize_axis
from wia_compiler.passes.affine import linear_form, range_of
from wia_compiler.passes.nests.body import Body, scalar_type
from wia_compiler.passes.nests.casts import cast_scalar
from wia_compiler.passes.nests.movement import (
    Index,
    kind_of,
)
from wia_compiler.passes.nests.operands import (
    is_within_axes,
    listed_place,
    operand_indices,
    views_of,
)
from wia_compiler.passes.nests.places import Cut, concatenated_place, margin_place, padded_place
from wia_compiler.passes.nests.plan import Access, Group, Positions, Register
from wia_compiler.passes.nests.refusal import NotOneNest
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
    """Reads values of one group; ``anchors`` and ``kept`` grow as leaves that compute them do.

    ``pads_reads`` allows reads that give 0 outside of their array.
    """

    group: Group
    sizes: Sequence[int]
    anchors: dict[SSAValue, Anchor] = field(default_factory=dict[SSAValue, Anchor])
    kept: dict[Root, Register] = field(default_factory=dict[Root, Register])
    pads_reads: bool = True

    def __post_init__(self) -> None:
        self.views, self.tables = views_of(self.group)
        self.positions: dict[int, Positions] = {}

    def is_inlined(self, value: SSAValue, index: Index) -> bool:
        """Whether the op that makes the value is computed in the leaf that needs it."""
        return not (
            value in self.anchors
            or (value, index) in self.kept
            or value in self.views
            or value in self.group.numbers
            or isinstance(value.owner, ConstantOp)
        )

    def operands(self, op: TensorOp, index: Index) -> list[Root]:
        """What an elementwise or movement op is computed from at an index."""
        match kind_of(op):
            case "pad":
                try:
                    place = padded_place(op, index, self.sizes)
                except Cut:
                    if self.padding(op, index) is None:
                        raise
                    return []
                return [] if place is None else [(op.arguments[0], place)]
            case "concat":
                return [concatenated_place(op, index, self.sizes)]
            case "iota":
                return []
            case "index_select" | "gather":
                return [(op.arguments[1], listed_place(op, index))]
            case _:
                return operand_indices(op, index, self.sizes)

    def padding(self, op: TensorOp, index: Index) -> Access | None:
        """A ``pad`` by 0 as a read of its operand that gives 0 outside, where that may be read."""
        array = self.views.get(op.arguments[0])
        place = margin_place(op, index)
        if array is None or place is None or not self.pads_reads:
            return None
        return Access(array, place, padded=True)

    def position(self, index: AffineExpr) -> Access:
        """A read that gives the value of an index."""
        extent = range_of(index, [(0, size - 1) for size in self.sizes])
        if extent is None or extent[0] < 0:
            raise NotOneNest(f"no range is known of the index {index}")
        size = extent[1] + 1
        return Access(self.positions.setdefault(size, Positions(size)), (index,))

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
        for operand, each in self.operands(op, index):
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
        for operand, each in self.operands(op, index):
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
        self.tables: dict[LookupOp, View] = {}
        self._values: dict[Root, SSAValue] = {}
        self._arguments: dict[tuple[View | Register | Positions, Index, bool], SSAValue] = {}

    def at(self, op: Operation) -> None:
        """Note that the leaf computes ``op``; what is added next gets its location."""
        self.ops[op] = None
        self.body.location = op.location

    def compute(self, op: TensorOp | ConstantOp, index: Index) -> None:
        """Append one op at one index; its operands are there already."""
        assert isinstance(op, TensorOp)
        name = kind_of(op)
        operands = [self.value(operand, each) for operand, each in self.reader.operands(op, index)]
        self.at(op)
        if op.declaration.family == "movement":
            self._values[op.result, index] = self._moved(op, name, index, operands)
            return
        dtype = spec_of(op.arguments[-1].type).dtype
        if name == "cast":
            made = cast_scalar(self.body, operands[0], dtype, DTYPES[str(op.values["dtype"])])
        else:
            made = apply_scalar(self.body, name, dtype, operands)
        if made.name_hint is None and made is not operands[0]:
            made.name_hint = op.result.name_hint
        self._values[op.result, index] = made

    def _moved(
        self, op: TensorOp, name: str, index: Index, operands: Sequence[SSAValue]
    ) -> SSAValue:
        dtype = op.result_spec.dtype
        match name:
            case "iota":
                axis = normalize_axis(op.values["dim"], op.result_spec)
                return cast_scalar(self.body, self.position(index[axis]), I64, dtype)
            case "index_select" | "gather":
                return self._looked_up(op, index, operands[0])
            case "pad" if not operands:
                read = self.reader.padding(op, index) if self._is_cut(op, index) else None
                if read is not None:
                    return self.access(read, op.arguments[0].name_hint)
                return self.body.constant(cast(float, op.values["value"]), dtype)
            case _:
                return operands[0]

    def _is_cut(self, op: TensorOp, index: Index) -> bool:
        try:
            padded_place(op, index, self.reader.sizes)
        except Cut:
            return True
        return False

    def _looked_up(self, op: TensorOp, index: Index, place: SSAValue) -> SSAValue:
        """The element of an array at an index that another array holds."""
        source, reader = op.arguments[0], self.reader
        if source in reader.group.numbers or isinstance(source.owner, ConstantOp):
            return self._number(source)
        table = reader.tables.get(source)
        if table is None:
            raise NotOneNest(f"{kind_of(op)} reads an array, not a value computed on the way")
        axis = normalize_axis(op.values["dim"], spec_of(source.type)) if table.shape else 0
        dtype = spec_of(op.arguments[1].type).dtype
        wide = cast_scalar(self.body, place, dtype, I64)
        places = [
            wide if each == axis else self.position(index[each]) for each in range(len(table.shape))
        ]
        lookup = LookupOp(table.value, places, [axis] if table.shape else [])
        self.body.add(lookup)
        lookup.result._type = scalar_type(table.dtype)  # pyright: ignore[reportPrivateUsage]
        self.tables[lookup] = table
        return lookup.result

    def position(self, index: AffineExpr) -> SSAValue:
        """An index as an i64."""
        known = linear_form(index)
        if not known.terms:
            return self.body.constant(known.constant, I64)
        return self.access(self.reader.position(index), None)

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
        key = (access.buffer, access.index, access.padded)
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

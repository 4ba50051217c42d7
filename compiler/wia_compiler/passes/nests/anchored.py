"""What reductions and contractions share: where their results stand, and the leaves after them.

A reduction or contraction (an anchor) exists at one index only: that of the loops around it. What
follows it is computed there too, so each result's index is found by following the anchor's index
forward through the ops after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.nests.body import Body
from wia_compiler.passes.nests.elementwise import map_leaf
from wia_compiler.passes.nests.movement import (
    MOVEMENT,
    ZERO,
    Index,
    PartialIndex,
    kind_of,
    result_index,
)
from wia_compiler.passes.nests.plan import (
    Access,
    Axis,
    Group,
    LeafPlan,
    NestPlan,
    Register,
    Result,
    fresh_name,
)
from wia_compiler.passes.nests.reader import Anchor, LeafReading, Reader, Root
from wia_compiler.passes.nests.refusal import NotOneNest


class AnchoredNest:
    """A nest under construction around anchors; ``axes`` are those of the anchors' domain.

    ``part`` is how many elements of its anchors' results it computes, and how many there are.
    """

    def __init__(self, group: Group, axes: Sequence[Axis], *, part: tuple[int, int] = (1, 1)):
        self.group = group
        self.part = part
        self.plan = NestPlan(list(axes), [])
        self.reader = Reader(group, self.plan.sizes)

    def register(self, op: TensorOp, name: str, dtype: DType) -> Register:
        """A new register buffer for a value of the row."""
        taken = [each.name for each in self.plan.registers]
        unique = name
        number = 1
        while unique in taken:
            unique = f"{name}{number}"
            number += 1
        made = Register(unique, dtype, op)
        self.plan.registers.append(made)
        return made

    def read(self, roots: Sequence[Root]) -> LeafReading:
        """The body of a leaf; what it needs of the row is computed in a leaf before it, once."""
        rows = self.reader.row_values(roots, self.plan.kept)
        if rows:
            reading = self.reader.read(rows)
            registers: list[Register] = []
            for value, _ in rows:
                op = cast(TensorOp, value.owner)
                name = value.name_hint or kind_of(op)
                registers.append(self.register(op, name, op.result_spec.dtype))
            leaf = map_leaf(reading, [Access(register) for register in registers])
            self.plan.leaves.append(leaf)
            self.reader.kept |= dict(zip(rows, registers, strict=True))
        return self.reader.read(roots)

    def anchor(self, op: TensorOp, register: Register, index: Index) -> None:
        """From here on, ``op``'s result is read from its register."""
        self.reader.anchors[op.result] = Anchor(register, index, op.result_spec.dtype)

    def fill(self, registers: Sequence[Register], numbers: Sequence[int | float]) -> None:
        """A leaf that gives each register its first value."""
        body = Body()
        values: list[SSAValue] = []
        for register, number in zip(registers, numbers, strict=True):
            body.location = register.op.location
            values.append(body.constant(number, register.dtype))
        self.plan.leaves.append(
            LeafPlan(
                "map",
                (),
                (),
                [],
                [Access(register) for register in registers],
                body.finish(values),
                [register.op for register in registers],
            )
        )

    def finish(self, also: Mapping[SSAValue, Index]) -> tuple[NestPlan, list[Result]]:
        """Leaves that write the results; and the results that do not depend on the anchors.

        ``also`` are values with an index in this nest though they depend on no anchor.
        """
        partial = self._partial_indices(also)
        leaves: dict[Index, list[Result]] = {}
        others: list[Result] = []
        for result in self.group.results:
            if result.value in partial:
                index = self._completed(partial[result.value], result)
                leaves.setdefault(index, []).append(result)
            else:
                others.append(result)
        self.reader.sizes = self.plan.sizes
        for index, results in leaves.items():
            inner = sorted(self._axes_of(index) - set(self.plan.kept + self.plan.ordered))
            reading = self.read([(result.value, index) for result in results])
            outputs = [Access(result.target, index) for result in results]
            self.plan.leaves.append(map_leaf(reading, outputs, inner))
        return self.plan, others

    def _partial_indices(self, also: Mapping[SSAValue, Index]) -> dict[SSAValue, PartialIndex]:
        """The index of every value that depends on an anchor, as far as the anchors fix it."""
        known: dict[SSAValue, PartialIndex] = dict(also)
        known |= {value: anchor.index for value, anchor in self.reader.anchors.items()}
        for op in self.group.ops:
            if isinstance(op, ConstantOp) or op.result in known:
                continue
            if not any(operand in known for operand in op.arguments):
                continue
            if op.declaration.family == "movement":
                if kind_of(op) not in MOVEMENT:
                    raise NotOneNest(f"{kind_of(op)} follows a result that one nest computes")
                source = known[op.arguments[0]]
                if kind_of(op) == "reshape":
                    # Row-major order mixes axes: what is open has to be fixed first.
                    source = self._filled(source, spec_of(op.arguments[0].type).shape)
                known[op.result] = result_index(op, source, self.plan.sizes)
            elif op.declaration.family == "elementwise":
                known[op.result] = _joined(op, known)
            else:
                raise NotOneNest(f"{kind_of(op)} follows a result that one nest computes")
        return known

    def _completed(self, partial: PartialIndex, result: Result) -> Index:
        """A result's index; every element must be written once, from one row."""
        shape = result.target.shape
        index = self._filled(partial, shape)
        used = self._axes_of(index)
        points = math.prod(self.plan.axes[axis].size for axis in used)
        own, whole = self.part
        missing = set(self.plan.kept + self.plan.ordered) - used
        if points * whole != math.prod(shape) * own or missing:
            raise NotOneNest("a result takes a value of one row to elements of several rows")
        return index

    def _filled(self, partial: PartialIndex, shape: Sequence[int]) -> Index:
        """An index with an axis wherever the anchors leave one open."""
        index: list[AffineExpr] = []
        used = self._axes_of(tuple(each for each in partial if each is not None))
        for each, size in zip(partial, shape, strict=True):
            if each is not None or size == 1:
                index.append(each if each is not None else ZERO)
                continue
            axis = self._open_axis(size, used)
            used.add(axis)
            index.append(AffineExpr.dimension(axis))
        return tuple(index)

    def _open_axis(self, size: int, used: set[int]) -> int:
        """An inner axis of that size that the index does not use yet, else a new one."""
        for number, axis in enumerate(self.plan.axes):
            if axis.role == "inner" and axis.size == size and number not in used:
                return number
        name = fresh_name([axis.name for axis in self.plan.axes])
        self.plan.axes.append(Axis(name, size, "inner"))
        return len(self.plan.axes) - 1

    def _axes_of(self, index: Index) -> set[int]:
        return {
            atom.position
            for each in index
            for atom in atoms(each)
            if isinstance(atom, AffineDimExpr)
        }


def _joined(op: TensorOp, known: Mapping[SSAValue, PartialIndex]) -> PartialIndex:
    """The index of an elementwise result: of each axis, what the first operand that knows says."""
    shape = op.result_spec.shape
    joined: list[AffineExpr | None] = [ZERO if size == 1 else None for size in shape]
    for operand in op.arguments:
        if operand not in known:
            continue
        sizes = spec_of(operand.type).shape
        missing = len(shape) - len(sizes)
        for axis, (each, size) in enumerate(zip(known[operand], sizes, strict=True)):
            if size != 1 and joined[missing + axis] is None:
                joined[missing + axis] = each
    return tuple(joined)


def accumulator_of(op: TensorOp) -> DType:
    """The dtype that carries an op's sum."""
    return DTYPES[op.result_spec.dtype.accumulator]


def anchors_of(group: Group) -> list[TensorOp]:
    """The reductions and contractions of a group, in order."""
    families = ("reduction", "contraction")
    return [
        op for op in group.ops if isinstance(op, TensorOp) and op.declaration.family in families
    ]

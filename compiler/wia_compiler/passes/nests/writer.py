"""From a nest's plan to its function."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    LocationAttr,
    MemRefType,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.tile import PRODUCTS, ComputeOp, ForOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.nests.body import scalar_type
from wia_compiler.passes.nests.plan import Access, LeafPlan, NestPlan, Positions, Register
from wia_compiler.passes.nests.views import View

NEST = "wia.nest"
"""Attribute of a function that holds one nest."""
UNIT_AXES = "wia.unit_axes"
"""Attribute of a nest: names of axes that have one point for these sizes, and so no loop."""
SCHEDULED = "wia.scheduled"
"""Attribute of a nest that is written as it should run: its tiles are chosen already."""


def arrays_of(plan: NestPlan) -> list[View]:
    """The arrays of a nest, each once: those it reads, in order, then those it writes."""
    read = [
        buffer
        for leaf in plan.leaves
        for buffer in (*(access.buffer for access in leaf.inputs), *leaf.tables.values())
    ]
    written = [access.buffer for leaf in plan.leaves for access in leaf.outputs]
    return [each for each in dict.fromkeys([*read, *written]) if isinstance(each, View)]


class NestWriter:
    """Writes one plan as a function whose arguments are ``arrays_of`` it."""

    def __init__(self, plan: NestPlan):
        self.plan = plan
        self.arrays = arrays_of(plan)
        self.kept = plan.kept
        self.values: dict[View | Register | Positions, SSAValue] = {}
        self.ivs: list[SSAValue] = []
        self.location: LocationAttr = merge_locations(
            dict.fromkeys(op for leaf in plan.leaves for op in leaf.ops)
        )

    def function(self, name: str) -> func.FuncOp:
        """The nest as ``func.func @name``."""
        arrays = self.arrays
        block = Block(arg_types=[array.type for array in arrays])
        for argument, array in zip(block.args, arrays, strict=True):
            argument.name_hint = array.value.name_hint
            self.values[array] = argument
        for positions in self._positions():
            self._add(block, positions, self.location)
        inside = self._loops(block, self.kept)
        for register in self.plan.registers:
            self._allocate(register, inside)
        for leaf in self.plan.leaves:
            if not leaf.is_ordered:
                self._add(inside, self._leaf(leaf, self.kept), merge_locations(leaf.ops))
        ordered = [leaf for leaf in self.plan.leaves if leaf.is_ordered]
        inside = self._loops(inside, self.plan.ordered) if ordered else inside
        for leaf in ordered:
            walked = [*self.kept, *self.plan.ordered]
            self._add(inside, self._leaf(leaf, walked), merge_locations(leaf.ops))
        self._add(block, func.ReturnOp(), self.location)
        type = FunctionType.from_lists([array.type for array in arrays], [])
        made = func.FuncOp(name, type, Region(block))
        made.attributes[NEST] = UnitAttr()
        units = [name for name in self.plan.units if name not in {a.name for a in self.plan.axes}]
        if units:
            made.attributes[UNIT_AXES] = ArrayAttr([StringAttr(name) for name in units])
        made.location = self.location
        return made

    def _positions(self) -> list[PositionsOp]:
        accesses = [access for leaf in self.plan.leaves for access in leaf.inputs]
        made: list[PositionsOp] = []
        for each in dict.fromkeys(access.buffer for access in accesses):
            if isinstance(each, Positions):
                made.append(PositionsOp(each.size))
                made[-1].memref.name_hint = each.name
                self.values[each] = made[-1].memref
        return made

    def _add(self, block: Block, op: Operation, location: LocationAttr) -> None:
        op.location = location
        block.add_op(op)

    def _loops(self, block: Block, axes: Sequence[int]) -> Block:
        """Loops over axes; the body of the innermost."""
        for axis in axes:
            loop = ForOp(f"{self.plan.axes[axis].name}.0", self.plan.axes[axis].size)
            self._add(block, loop, self.location)
            self.ivs.append(loop.induction_variable)
            block = loop.body.block
        return block

    def _allocate(self, register: Register, block: Block) -> None:
        type = MemRefType(
            scalar_type(register.dtype), [1] * len(self.kept), memory_space=StringAttr("register")
        )
        op = memref.AllocOp([], [], type)
        op.memref.name_hint = register.name
        self._add(block, op, register.op.location)
        self.values[register] = op.memref

    def _leaf(self, leaf: LeafPlan, walked: Sequence[int]) -> ComputeOp:
        """A leaf inside of loops over the axes ``walked``."""
        axes = [*walked, *leaf.inner]
        names = self.plan.axes
        dims = [AffineExpr.constant(0)] * len(names)
        for place, axis in enumerate(axes):
            own = AffineExpr.dimension(place)
            dims[axis] = AffineExpr.symbol(place) + own if place < len(walked) else own
        accesses = [*leaf.inputs, *leaf.outputs]
        for lookup, table in leaf.tables.items():
            lookup.operands[0] = self.values[table]
        bounds = [each.replace_dims_and_symbols(dims, ()) for each, _ in leaf.bounds]
        made = ComputeOp(
            leaf.kind,
            axes=[(names[axis].name, 1 if axis in walked else names[axis].size) for axis in axes],
            reduce_axes=[names[axis].name for axis in leaf.reduce],
            ivs=self.ivs[: len(walked)],
            inputs=[self.values[access.buffer] for access in leaf.inputs],
            outputs=[self.values[access.buffer] for access in leaf.outputs],
            maps=[self._map(access, (len(axes), len(walked)), dims) for access in accesses],
            bounds=AffineMap(len(axes), len(walked), tuple(bounds)),
            limits=[limit for _, limit in leaf.bounds],
            padded=[access.padded for access in leaf.inputs],
            body=leaf.body,
        )
        if leaf.multiplies:
            made.attributes[PRODUCTS] = UnitAttr()
        return made

    def _map(self, access: Access, rank: tuple[int, int], dims: Sequence[AffineExpr]) -> AffineMap:
        if isinstance(access.buffer, Register):
            own = tuple(AffineExpr.dimension(place) for place in range(len(self.kept)))
            return AffineMap(*rank, own)
        results = tuple(e.replace_dims_and_symbols(dims, ()) for e in access.index)
        return AffineMap(*rank, results)

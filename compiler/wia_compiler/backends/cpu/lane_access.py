"""How code along the lanes reads and writes: whole vectors, masked ones, backwards, numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    MemRefType,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from wia_compiler.backends.cpu.lane_plan import LanePlan, flat_place
from wia_compiler.backends.cpu.lane_walk import Place, Points
from wia_compiler.dialects.shared_attributes import vector_type
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.lane_ops import splat
from wia_compiler.passes.llvm.types import num_elements, size_bytes, strides_of

ALIGNMENT = "wia.alignment"
"""Attribute of a vector access: its address is a multiple of so many bytes."""


@dataclass
class LaneAccess:
    """Loads and stores of a leaf that is walked in vectors.

    ``prepare`` goes before its loops. ``fixed`` holds what is the same in all lanes, loaded once
    where the loop along them begins.
    """

    plan: LanePlan
    views: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    fixed: dict[int, SSAValue] = field(default_factory=dict[int, SSAValue])
    _mask: tuple[tuple[IndexEmitter, SSAValue], SSAValue] | None = None

    @property
    def leaf(self) -> ComputeOp:
        """The leaf."""
        return self.plan.leaf

    def prepare(self, emitter: IndexEmitter) -> None:
        """Make views in which neighbouring lanes are neighbours in memory, where they are not."""
        operands = (*self.leaf.inputs, *self.leaf.outputs)
        maps = (*self.leaf.input_maps, *self.leaf.output_maps)
        for value, each, access in zip(operands, maps, self.plan.accesses, strict=True):
            array = self.plan.context.array(value)
            if access in ("dense", "backwards") and not self._is_direct(value, each):
                self.views[array] = emitter.emit(_as_row(array))

    def load_fixed(self, emitter: IndexEmitter, points: Points) -> None:
        """Load what is the same in all lanes, and along the axes inside of them."""
        self.fixed = {}
        inside = {AffineDimExpr(axis) for axis in self.plan.inner}
        for number, each in enumerate(self.leaf.input_maps):
            used = {AffineDimExpr(dim) for result in each.results for dim in result.used_dims()}
            if self.plan.accesses[number] == "same" and not used & inside:
                self.fixed[number] = self._broadcast(emitter, number, points)

    def inputs(self, place: Place) -> list[SSAValue]:
        """A vector of each input."""
        numbers = range(len(self.leaf.inputs))
        return [self.fixed[n] if n in self.fixed else self._input(place, n) for n in numbers]

    def mask(self, place: Place) -> SSAValue | None:
        """Which lanes take part; ``None``: all."""
        if place.room is None:
            return None
        key = (place.emitter, place.room)
        if self._mask is None or self._mask[0] != key:
            self._mask = key, self._make_mask(place.emitter, place.room)
        return self._mask[1]

    def _make_mask(self, emitter: IndexEmitter, room: SSAValue) -> SSAValue:
        shape = vector_type(i1, self.plan.lanes)
        made = vector.CreateMaskOp.build(operands=[[room]], result_types=[shape])
        return emitter.emit(made)

    def _input(self, place: Place, number: int) -> SSAValue:
        value, each = self.leaf.inputs[number], self.leaf.input_maps[number]
        match self.plan.accesses[number]:
            case "same":
                return self._broadcast(place.emitter, number, place.points)
            case "position":
                return self._positions(place, each)
            case access:
                return self._load(place, value, each, backwards=access == "backwards")

    def held(self, place: Place, output: int) -> SSAValue:
        """What an output holds."""
        access = self.plan.accesses[len(self.leaf.inputs) + output]
        value, each = self.leaf.outputs[output], self.leaf.output_maps[output]
        return self._load(place, value, each, backwards=access == "backwards")

    def scalar(
        self, emitter: IndexEmitter, value: SSAValue, each: AffineMap, at: Points
    ) -> SSAValue:
        """One element."""
        array = self.plan.context.array(value)
        indices = [emitter.affine(result, at, self.plan.context.ivs) for result in each.results]
        if isinstance(value.owner, PositionsOp):
            return emitter.emit(arith.IndexCastOp(indices[0], i64))
        return emitter.emit(memref.LoadOp.get(array, indices))

    def _broadcast(self, emitter: IndexEmitter, number: int, points: Points) -> SSAValue:
        value = self.leaf.inputs[number]
        scalar = self.scalar(emitter, value, self.leaf.input_maps[number], points)
        return emitter.emit(vector.BroadcastOp(scalar, vector_type(scalar.type, self.plan.lanes)))

    def _positions(self, place: Place, each: AffineMap) -> SSAValue:
        """``first + factor * lane`` in each lane."""
        emitter = place.emitter
        step = linear_form(each.results[0]).terms[AffineDimExpr(self.plan.axis)]
        first = emitter.affine(each.results[0], place.points, self.plan.context.ivs)
        type_ = vector_type(i64, self.plan.lanes)
        number = emitter.emit(arith.IndexCastOp(first, i64))
        steps = [step * lane for lane in range(self.plan.lanes)]
        offsets = DenseIntOrFPElementsAttr.from_list(cast("VectorType[Any]", type_), steps)
        row = emitter.emit(arith.ConstantOp(offsets, type_))
        return emitter.emit(arith.AddiOp(emitter.emit(vector.BroadcastOp(number, type_)), row))

    def _load(self, place: Place, value: SSAValue, each: AffineMap, *, backwards: bool) -> SSAValue:
        emitter = place.emitter
        array, indices = self._target(place, value, each, backwards=backwards)
        type_ = vector_type(_element(value), self.plan.lanes)
        mask = self.mask(place)
        if mask is None:
            loaded = emitter.emit(vector.LoadOp(array, indices, type_))
        else:
            mask = self._turned(emitter, mask) if backwards else mask
            zero = emitter.emit(splat(0, type_))
            loaded = emitter.emit(vector.MaskedLoadOp(array, indices, mask, zero, type_))
        return self._turned(emitter, loaded) if backwards else loaded

    def store(self, place: Place, output: int, value: SSAValue, *, stream: bool = False) -> None:
        """Write a vector of an output; ``stream`` it past the caches where the place is aligned."""
        target, each = self.leaf.outputs[output], self.leaf.output_maps[output]
        emitter = place.emitter
        backwards = self.plan.accesses[len(self.leaf.inputs) + output] == "backwards"
        array, indices = self._target(place, target, each, backwards=backwards)
        mask = self.mask(place)
        value = self._turned(emitter, value) if backwards else value
        made: Operation
        if mask is not None:
            mask = self._turned(emitter, mask) if backwards else mask
            made = vector.MaskedStoreOp.build(operands=[array, indices, mask, value])
        elif stream and place.aligned:
            made = vector.StoreOp(value, array, indices, BoolAttr.from_bool(True))
            made.attributes[ALIGNMENT] = IntegerAttr(self.vector_bytes(output), i64)
        else:
            made = vector.StoreOp(value, array, indices)
        made.location = emitter.location
        emitter.builder.insert(made)

    def vector_bytes(self, output: int) -> int:
        """Bytes of a vector of an output's elements."""
        return self.plan.lanes * size_of(self.leaf.outputs[output])

    def address(self, emitter: IndexEmitter, output: int, points: Points) -> SSAValue:
        """The address of an output's element, as an index."""
        value, each = self.leaf.outputs[output], self.leaf.output_maps[output]
        array = self.plan.context.array(value)
        base = emitter.emit(
            memref.ExtractAlignedPointerAsIndexOp.build(
                operands=[array], result_types=[emitter.constant(0).type]
            )
        )
        place = emitter.affine(flat_place(value, each), points, self.plan.context.ivs)
        return emitter.add(base, emitter.scale(place, size_of(value)))

    def _target(
        self, place: Place, value: SSAValue, each: AffineMap, *, backwards: bool
    ) -> tuple[SSAValue, list[SSAValue]]:
        """Array and indices of a vector's first element in memory."""
        emitter, ivs = place.emitter, self.plan.context.ivs
        array = self.plan.context.array(value)
        if array in self.views and not self._is_direct(value, each):
            array, results = self.views[array], (flat_place(value, each),)
        else:
            results = each.results
        indices = [emitter.affine(result, place.points, ivs) for result in results]
        if backwards:
            indices[-1] = emitter.subtract(indices[-1], emitter.constant(self.plan.lanes - 1))
        return array, indices

    def _is_direct(self, value: SSAValue, each: AffineMap) -> bool:
        """Whether the lanes run along the last axis of the array as it is."""
        own = AffineDimExpr(self.plan.axis)
        *before, last = [linear_form(result).terms.get(own, 0) for result in each.results]
        strides = strides_of(cast("MemRefType[Attribute]", value.type))
        return strides[-1] == 1 and not any(before) and abs(last) == 1

    def _turned(self, emitter: IndexEmitter, value: SSAValue) -> SSAValue:
        """The lanes in the opposite order."""
        order = list(reversed(range(self.plan.lanes)))
        made = vector.ShuffleOp.build(
            operands=[value, value],
            result_types=[value.type],
            properties={"mask": DenseArrayBase.from_list(i64, order)},
        )
        return emitter.emit(made)


def size_of(value: SSAValue) -> int:
    """Bytes of one element of an array."""
    return size_bytes(_element(value))


def _element(value: SSAValue) -> Attribute:
    return cast("MemRefType[Attribute]", value.type).element_type


def _as_row(array: SSAValue) -> memref.ReinterpretCastOp:
    """All elements of an array in the order of memory, from that at [0, 0, …] on."""
    type_ = cast("MemRefType[Attribute]", array.type)
    count = num_elements(type_)
    row = MemRefType(type_.element_type, [count], memory_space=type_.memory_space)
    made = memref.ReinterpretCastOp(array, [], [], [], [0], [count], [1], row)
    made.result.name_hint = array.name_hint
    return made

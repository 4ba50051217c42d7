"""What one nest computes for another, computed inside of it: no array in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, MemRefType, StringAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp, hint_of
from wia_compiler.passes.affine import linear_form, simplify
from wia_compiler.passes.emit_index import range_of_value
from wia_compiler.passes.emit_leaf import zero_of
from wia_compiler.passes.tile_rewrites.handover import Handover, handover_of, take_over, walked_axis
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    leaves_of,
    loops_around,
    loops_of,
    needs_bounds,
    remap_leaf,
    replace_leaf,
)
from wia_compiler.passes.tile_rewrites.regions import Side, region_of


@dataclass(frozen=True)
class _Start:
    """Where a box starts along one dimension: a sum of variables of loops, and a number."""

    terms: tuple[tuple[SSAValue, int], ...]
    constant: int

    @staticmethod
    def of(leaf: ComputeOp, side: Side, name: str) -> _Start:
        """That of a region that a leaf reads."""
        form = linear_form(side.start)
        terms: list[tuple[SSAValue, int]] = []
        for atom, factor in form.terms.items():
            if isinstance(atom, AffineDimExpr):
                continue  # an axis of one point
            if not isinstance(atom, AffineSymExpr):
                raise IllegalRewrite(f"what is read of {name} starts at no sum of loop variables")
            terms.append((leaf.ivs[atom.position], factor))
        return _Start(tuple(terms), form.constant)

    def may_leave(self, size: int, extent: int) -> bool:
        """Whether ``size`` points from here on may lie outside of ``0 … extent - 1``."""
        first = last = self.constant
        for iv, factor in self.terms:
            reach = range_of_value(iv)
            if reach is None:
                return True
            first += min(reach[0] * factor, reach[1] * factor)
            last += max(reach[0] * factor, reach[1] * factor)
        return first < 0 or last + size > extent


@dataclass(frozen=True)
class _Box:
    """The part of an array that an iteration reads: start and size along each dimension."""

    starts: tuple[_Start, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]

    def may_leave(self, dimension: int) -> bool:
        """Whether the box may lie outside of the array along a dimension."""
        size, extent = self.sizes[dimension], self.shape[dimension]
        return self.starts[dimension].may_leave(size, extent)

    def is_whole(self, dimension: int) -> bool:
        """Whether the box is all of the array along a dimension."""
        at_start = self.starts[dimension] == _Start((), 0)
        return at_start and self.sizes[dimension] == self.shape[dimension]


def compute_at(
    consumer: FuncOp, parameter: SSAValue, loop: ForOp, name: str, scope: str
) -> list[ForOp]:
    """Compute what an iteration of ``loop`` reads of an array, by the nest that computes it all.

    ::

        P: for %i0 in 64, %j0 in 80: x[%i0, %j0] = …      for %i0 in 64
        C: for %i0 in 64                              →     x_tile = alloc 1×80
             reduce s[i] += x[%i0 + i, j]                   for %x_j0 in 80: x_tile[0, %x_j0] = …
                                                            reduce s[i] += x_tile[0, j]

    The array is no longer made, and its nest runs no more. Axes of the producer get the array's
    name in front. Legal where nothing else reads the array, and where all that is read of it inside
    of the loop is one box. Gives the producer's loops.
    """
    handed = handover_of(consumer, parameter, name)
    readers = [
        (leaf, number)
        for leaf in leaves_of(consumer)
        for number, each in enumerate(leaf.inputs)
        if each is parameter
    ]
    if any(loop not in loops_around(leaf) for leaf, _ in readers):
        raise IllegalRewrite(f"a leaf outside of {loop.axis.data} reads {name} too")
    box = _box_of(readers, loop, name, handed.shape)
    axes = _producer_axes(handed, box, name)
    element = cast("MemRefType[Attribute]", parameter.type).element_type
    type_ = MemRefType(element, list(box.sizes), memory_space=StringAttr(scope))
    buffer = memref.AllocOp([], [], type_)
    buffer.memref.name_hint = f"{name}_tile"
    buffer.location = readers[0][0].location
    for leaf in dict.fromkeys(leaf for leaf, _ in readers):
        numbers = [number for each, number in readers if each is leaf]
        _read_tile(leaf, numbers, loop, box, name, buffer.memref)
    made = take_over(handed, consumer, parameter, buffer.memref)
    first = loop.body.block.first_op
    assert first is not None
    loop.body.block.insert_ops_before([buffer, *_zeros(box, buffer), *made], first)
    for dimension, axis in enumerate(axes):
        if axis is not None and not box.is_whole(dimension):
            _restrict(made, axis, dimension, box, buffer.memref)
    _rename(made, name)
    return [each for op in made for each in (op, *loops_of(op)) if isinstance(each, ForOp)]


def _box_of(
    readers: Sequence[tuple[ComputeOp, int]], loop: ForOp, name: str, shape: tuple[int, ...]
) -> _Box:
    """The smallest box that holds all that is read in one iteration of a loop."""
    regions = [(leaf, region_of(leaf, number, loop)) for leaf, number in readers]
    starts: list[_Start] = []
    sizes: list[int] = []
    for dimension in range(len(shape)):
        sides = [sides[dimension] for _, sides in regions]
        each = [_Start.of(leaf, sides[dimension], name) for leaf, sides in regions]
        if len({start.terms for start in each}) != 1:
            raise IllegalRewrite(
                f"leaves inside of {loop.axis.data} read different parts of {name}",
                hint="choose a loop further out",
            )
        first = min(start.constant for start in each)
        ends = (start.constant + side.size for start, side in zip(each, sides, strict=True))
        starts.append(_Start(each[0].terms, first))
        sizes.append(max(ends) - first)
    return _Box(tuple(starts), tuple(sizes), shape)


def _producer_axes(handed: Handover, box: _Box, name: str) -> list[str | None]:
    """The axis of the producer that walks each dimension of the array; ``None`` for one point."""
    output = handed.producer.body.block.args[handed.written]
    writers = [leaf for leaf in leaves_of(handed.producer) if output in leaf.outputs]
    if len(writers) != 1 or writers[0].folds:
        raise IllegalRewrite(f"{name} is written by {len(writers)} leaves of its nest")
    (leaf,) = writers
    found: list[str | None] = []
    for dimension, result in enumerate(leaf.output_maps[list(leaf.outputs).index(output)].results):
        axis = walked_axis(leaf, result)
        if axis is None and not box.is_whole(dimension):
            raise IllegalRewrite(f"{name} is not written along its axes in order")
        if axis is not None and not box.is_whole(dimension):
            around = [each for each in loops_around(leaf) if axis_of(each) == axis]
            everything = leaves_of(around[0]) if len(around) == 1 else []
            if len(around) != 1 or around[0].step.value.data != 1:
                raise IllegalRewrite(
                    f"axis {axis!r} of what computes {name} is walked as a whole",
                    hint="choose a loop further out, which reads all of it",
                )
            if any(each not in everything for each in leaves_of(handed.producer)):
                raise IllegalRewrite(f"some of what computes {name} stands outside of {axis!r}")
        found.append(axis)
    return found


def _read_tile(
    leaf: ComputeOp,
    numbers: Sequence[int],
    loop: ForOp,
    box: _Box,
    name: str,
    buffer: SSAValue,
) -> None:
    """Let a leaf read the tile in the place of the array."""
    maps = [each.data for each in leaf.maps]
    inputs, padded = list(leaf.inputs), list(leaf.is_padded)
    rank = (len(leaf.axis_names), len(leaf.ivs))
    for number in numbers:
        index = (
            simplify(side.index + (_Start.of(leaf, side, name).constant - start.constant))
            for side, start in zip(region_of(leaf, number, loop), box.starts, strict=True)
        )
        maps[number] = AffineMap(*rank, tuple(index))
        inputs[number], padded[number] = buffer, False
    replace_leaf(leaf, inputs=inputs, maps=maps, padded=padded)


def _zeros(box: _Box, buffer: memref.AllocOp) -> list[Operation]:
    """What is read outside of the array is 0, as its readers have it."""
    if not any(box.may_leave(dimension) for dimension in range(len(box.sizes))):
        return []
    body = Block()
    zero = arith.ConstantOp(zero_of(buffer.memref.type.element_type))
    body.add_ops([zero, YieldOp([zero.result])])
    wide = [number for number, size in enumerate(box.sizes) if size > 1]
    index = tuple(
        AffineExpr.dimension(wide.index(number)) if number in wide else AffineExpr.constant(0)
        for number in range(len(box.sizes))
    )
    fill = ComputeOp(
        "map",
        axes=[(f"e{number}", box.sizes[number]) for number in wide],
        inputs=[],
        outputs=[buffer.memref],
        maps=[AffineMap(len(wide), 0, index)],
        body=Region(body),
    )
    for op in fill.walk():
        op.location = buffer.location
    return [fill]


def _restrict(
    made: Sequence[Operation], axis: str, dimension: int, box: _Box, buffer: SSAValue
) -> None:
    """Let the producer's loop over an axis walk the box alone, from where it starts."""
    (loop,) = (
        each
        for op in made
        for each in (op, *loops_of(op))
        if isinstance(each, ForOp) and axis_of(each) == axis
    )
    start, extent = box.starts[dimension], box.shape[dimension]
    loop.properties["extent"] = IntegerAttr(box.sizes[dimension], i64)
    for leaf in leaves_of(loop):
        ivs = list(leaf.ivs)
        for iv, _ in start.terms:
            if iv not in ivs:
                ivs.append(iv)
        own = ivs.index(loop.induction_variable) if loop.induction_variable in ivs else None
        place: AffineExpr = AffineExpr.constant(start.constant)
        for iv, factor in start.terms:
            place = place + AffineExpr.symbol(ivs.index(iv)) * factor
        symbols: list[AffineExpr] = [
            AffineExpr.symbol(number) + place if number == own else AffineExpr.symbol(number)
            for number in range(len(leaf.ivs))
        ]
        outputs = {
            number: each.results[dimension]
            for number, each in enumerate(leaf.output_maps)
            if leaf.outputs[number] is buffer
        }
        bounds: list[tuple[AffineExpr, int]] = []
        if own is not None and needs_bounds(leaf) and box.may_leave(dimension):
            point = AffineExpr.dimension(leaf.axis_names.index(axis))
            bounds = [(AffineExpr.symbol(own) + place + point, extent)]
        moved = remap_leaf(leaf, None, symbols, ivs, bounds=bounds)
        for number, index in outputs.items():
            _write_at(moved, number, dimension, index)


def _write_at(leaf: ComputeOp, number: int, dimension: int, index: AffineExpr) -> None:
    """Write into the tile, whose first element is where the box starts."""
    maps = [each.data for each in leaf.maps]
    each = maps[len(leaf.inputs) + number]
    results = list(each.results)
    results[dimension] = index
    maps[len(leaf.inputs) + number] = AffineMap(each.num_dims, each.num_symbols, tuple(results))
    replace_leaf(leaf, maps=maps)


def _rename(made: Sequence[Operation], name: str) -> None:
    """Put the array's name in front of the producer's axes: ``x_i.0``."""
    for op in made:
        for each in list(op.walk()):
            if isinstance(each, ForOp):
                each.properties["axis"] = StringAttr(f"{name}_{each.axis.data}")
                each.induction_variable.name_hint = hint_of(each.axis.data)
            elif isinstance(each, ComputeOp):
                for part in ("axes", "reduce_axes"):
                    listed = cast("ArrayAttr[StringAttr]", each.properties[part])
                    each.properties[part] = ArrayAttr(
                        [StringAttr(f"{name}_{axis.data}") for axis in listed]
                    )

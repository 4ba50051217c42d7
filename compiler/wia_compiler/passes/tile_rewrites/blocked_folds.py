"""A folded axis outside of kept ones: partial sums of a block wait in memory for the next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, BlockArgument, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp, YieldOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.emit_leaf import is_carried, is_folded_into
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    bounds_of,
    check_fold_order,
    leaves_of,
    loops_around,
    remap_leaf,
    replace_leaf,
    scope_of,
)

_WAITING = "wia.waiting"
"""Attribute of the copies that take partial sums to where they wait, and back."""


@dataclass(frozen=True)
class _Waiting:
    """Where the partial sums of one output wait: an array, and its index at a point."""

    array: SSAValue
    index: tuple[AffineExpr, ...]


def block_fold(leaf: ComputeOp, axis: str, size: int, loop: ForOp, scope: str = "packed") -> ForOp:
    """Fold ``size`` points of an axis at a time, by a serial loop around a loop over a kept axis.

    ::

        for %i0 in 1000 step 8                  for %k0 in 512 step 128 @serial
          %acc = alloc 8 @register                for %i0 in 1000 step 8
          map %acc[i] = 0                           %acc = alloc 8 @register
          contract [k = 512] %acc[i] +=             map %acc[i] = 0           bounds (%k0 < 1)
          map y[%i0 + i] = relu(%acc[i])            copy %acc[i] = y[%i0 + i] bounds (%k0 - 1 < 512)
                                            →       contract [k = 128] %acc[i] +=
                                                    copy y[%i0 + i] = %acc[i] bounds (%k0 < 384)
                                                    map y[%i0 + i] = relu(%acc[i])
                                                      bounds (%k0 - 384 < 512)

    Between blocks the sums wait in the result that they become, where it has their element type and
    nothing reads it, else in a buffer of ``scope`` outside the new loop. What follows the fold runs
    in the last block. Each element is summed in the order in which it was, to the last bit.
    """
    leaves = leaves_of(loop)
    _check(leaf, axis, size, loop, leaves)
    extent = leaf.sizes[leaf.axis_names.index(axis)]
    step = min(size, extent)
    outer = [each for each in loops_around(loop) if axis_of(each) == axis]
    folded = {name.data for name in leaf.reduce_axes}
    blocks = [each for each in loops_around(loop) if axis_of(each) in folded]
    before, after = _around(leaf, leaves)
    places: Sequence[_Waiting] = ()
    if extent > step and not any(_WAITING in each.attributes for each in leaves):
        places = _places(leaf, loop, after, scope)
    made = ForOp(f"{axis}.{len(outer)}", extent, step, "serial")
    made.location = leaf.location
    block = loop.parent_block()
    assert block is not None
    block.insert_op_before(made, loop)
    loop.detach()
    made.body.block.add_op(loop)
    last = (made.trip_count - 1) * step
    if last:
        _divide(leaf, made, before, after, blocks)
    for number, place in enumerate(places):
        _wait(leaf, number, place, made, last)
    _advance(axis, made)
    return made


def _check(leaf: ComputeOp, axis: str, size: int, loop: ForOp, leaves: Sequence[ComputeOp]) -> None:
    """Refusals, before anything is changed."""
    if axis not in {name.data for name in leaf.reduce_axes}:
        folded = ", ".join(name.data for name in leaf.reduce_axes)
        raise IllegalRewrite(f"the leaf does not fold {axis!r}; it folds {folded or 'nothing'}")
    if size < 1:
        raise IllegalRewrite(f"a tile of {size} points of axis {axis!r}")
    check_fold_order(leaf, axis, size)
    around = loops_around(leaf)
    if loop not in around:
        raise IllegalRewrite(f"{loop.axis.data} is not around the leaf")
    for each in around[around.index(loop) :]:
        if axis_of(each) == axis:
            raise IllegalRewrite(f"a loop over {axis!r} stands inside {loop.axis.data} already")
        if each.level.data != "serial":
            raise IllegalRewrite(
                f"{each.axis.data} is @{each.level.data}: a loop over {axis!r} outside of it would "
                "let its iterations add to the same sums"
            )
    for output, buffer in enumerate(leaf.outputs):
        if not is_folded_into(leaf, output) or not is_carried(leaf, output):
            raise IllegalRewrite(f"the leaf writes an element at each point of axis {axis!r}")
        if isinstance(buffer.owner, Block) or not loop.is_ancestor(buffer.owner):
            raise IllegalRewrite(f"the leaf folds into what lives outside of {loop.axis.data}")
    before, after = _around(leaf, leaves)
    for other in (*before, *after):
        staged = other in before and all(value in leaf.inputs for value in other.outputs)
        if axis in other.axis_names and not staged:
            raise IllegalRewrite(f"another {other.kind.data} leaf walks axis {axis!r} too")
    if any(scope_of(value) == "" for each in before for value in each.outputs):
        raise IllegalRewrite("a leaf before the fold writes a result")


def _around(
    leaf: ComputeOp, leaves: Sequence[ComputeOp]
) -> tuple[Sequence[ComputeOp], Sequence[ComputeOp]]:
    """The leaves that run before a leaf, and those after it."""
    number = leaves.index(leaf)
    return leaves[:number], leaves[number + 1 :]


def _places(
    leaf: ComputeOp, loop: ForOp, after: Sequence[ComputeOp], scope: str
) -> Sequence[_Waiting]:
    """Where the sums of each output wait."""
    nest = loops_around(leaf)[0].parent_op()
    assert nest is not None
    read = {value for each in leaves_of(nest) for value in each.inputs}
    taken: set[SSAValue] = set()
    places: list[_Waiting] = []
    for output, each in zip(leaf.outputs, leaf.output_maps, strict=True):
        place = next(
            (
                _Waiting(array, index)
                for reader in after
                for array, index in _results(reader, output, each, leaf)
                if array not in read and array not in taken
            ),
            None,
        )
        if place is None:
            place = _buffer(leaf, output, each, loop, scope)
        taken.add(place.array)
        places.append(place)
    return places


def _results(
    reader: ComputeOp, buffer: SSAValue, each: AffineMap, leaf: ComputeOp
) -> list[tuple[SSAValue, tuple[AffineExpr, ...]]]:
    """The results of a map with one element for each sum, and their index at the fold's point."""
    if reader.kind.data != "map" or buffer not in reader.inputs:
        return []
    own = reader.input_maps[list(reader.inputs).index(buffer)]
    kept = [
        name for name, folded in zip(leaf.axis_names, leaf.reductions, strict=True) if not folded
    ]
    sizes = dict(zip(leaf.axis_names, leaf.sizes, strict=True))
    if {n: s for n, s in zip(reader.axis_names, reader.sizes, strict=True) if s > 1} != {
        name: sizes[name] for name in kept if sizes[name] > 1
    }:
        return []
    dims = [
        AffineExpr.dimension(leaf.axis_names.index(name))
        if name in leaf.axis_names
        else AffineExpr.constant(0)
        for name in reader.axis_names
    ]
    if not set(reader.ivs) <= set(leaf.ivs):
        return []
    symbols = [AffineExpr.symbol(list(leaf.ivs).index(iv)) for iv in reader.ivs]

    def moved(expressions: Sequence[AffineExpr]) -> tuple[AffineExpr, ...]:
        return tuple(e.replace_dims_and_symbols(dims, symbols) for e in expressions)

    if moved(own.results) != tuple(each.results):
        return []
    element = cast("MemRefType[Attribute]", buffer.type).element_type
    return [
        (array, moved(place.results))
        for array, place in zip(reader.outputs, reader.output_maps, strict=True)
        if isinstance(array, BlockArgument)
        and cast("MemRefType[Attribute]", array.type).element_type == element
    ]


def _buffer(
    leaf: ComputeOp, output: SSAValue, each: AffineMap, loop: ForOp, scope: str
) -> _Waiting:
    """A buffer for the sums of all iterations of the loops inside of the new one."""
    around = loops_around(leaf)
    walked = around[around.index(loop) :]
    shape: list[int] = []
    index: list[AffineExpr] = []
    ivs = list(leaf.ivs)
    for result in each.results:
        dims = [atom for atom in atoms(result) if isinstance(atom, AffineDimExpr)]
        if len(dims) > 1 or (dims and result != dims[0]):
            raise IllegalRewrite("the fold's buffer is not indexed by its axes")
        size, total = 1, AffineExpr.constant(0)
        if dims:
            name = leaf.axis_names[dims[0].position]
            size, total = leaf.sizes[dims[0].position], result
            for each_loop in reversed([one for one in walked if axis_of(one) == name]):
                size += (each_loop.trip_count - 1) * each_loop.step.value.data
                total = AffineExpr.symbol(ivs.index(each_loop.induction_variable)) + total
        shape.append(size)
        index.append(total)
    element = cast("MemRefType[Attribute]", output.type).element_type
    buffer = memref.AllocOp([], [], MemRefType(element, shape, memory_space=StringAttr(scope)))
    buffer.memref.name_hint = f"{output.name_hint or 'acc'}_sums"
    buffer.location = leaf.location
    block = loop.parent_block()
    assert block is not None
    block.insert_op_before(buffer, loop)
    return _Waiting(buffer.memref, tuple(index))


def _divide(
    leaf: ComputeOp,
    made: ForOp,
    before: Sequence[ComputeOp],
    after: Sequence[ComputeOp],
    blocks: Sequence[ForOp],
) -> None:
    """What begins the sums runs in the first block, what follows them in the last.

    Copies that wait for an outer loop's blocks already wait for those of both.
    """
    last = (made.trip_count - 1) * made.step.value.data
    for other in (*before, *after):
        if _WAITING in other.attributes:
            _extend(other, made, blocks, last)
        elif other in after:
            _guard(other, made, -last, made.extent.value.data)
        elif any(value in leaf.outputs for value in other.outputs):
            _guard(other, made, 0, 1)


def _wait(leaf: ComputeOp, output: int, place: _Waiting, made: ForOp, last: int) -> None:
    """Sums fetched from where they wait, but in the first block, and put there, but in the last."""
    block = leaf.parent_block()
    assert block is not None
    fetch = _copy(leaf, output, place, into_register=True)
    block.insert_op_before(fetch, leaf)
    _guard(fetch, made, -1, made.extent.value.data)
    away = _copy(leaf, output, place, into_register=False)
    block.insert_op_after(away, leaf)
    _guard(away, made, 0, last)


def _copy(leaf: ComputeOp, output: int, place: _Waiting, *, into_register: bool) -> ComputeOp:
    """One of the two copies, at every point that the fold keeps."""
    kept = [number for number, folded in enumerate(leaf.reductions) if not folded]
    dims: list[AffineExpr] = [AffineExpr.constant(0)] * len(leaf.sizes)
    for number, axis in enumerate(kept):
        dims[axis] = AffineExpr.dimension(number)
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    rank = (len(kept), len(leaf.ivs))

    def moved(expressions: Sequence[AffineExpr]) -> AffineMap:
        return AffineMap(
            *rank, tuple(e.replace_dims_and_symbols(dims, symbols) for e in expressions)
        )

    folded = {AffineDimExpr(n) for n, reduced in enumerate(leaf.reductions) if reduced}
    bounds = [(e, limit) for e, limit in bounds_of(leaf) if not atoms(e) & folded]
    element = cast("MemRefType[Attribute]", place.array.type).element_type
    body = Block(arg_types=[element])
    body.add_op(YieldOp(list(body.args)))
    register = (leaf.outputs[output], moved(leaf.output_maps[output].results))
    waiting = (place.array, moved(place.index))
    source, target = (waiting, register) if into_register else (register, waiting)
    made = ComputeOp(
        "copy",
        axes=[(leaf.axis_names[axis], leaf.sizes[axis]) for axis in kept],
        ivs=list(leaf.ivs),
        inputs=[source[0]],
        outputs=[target[0]],
        maps=[source[1], target[1]],
        bounds=moved([e for e, _ in bounds]),
        limits=[limit for _, limit in bounds],
        body=Region(body),
    )
    made.attributes[_WAITING] = UnitAttr()
    for op in made.walk():
        op.location = leaf.location
    return made


def _guard(leaf: ComputeOp, loop: ForOp, shift: int, limit: int) -> None:
    """Let a leaf run only where ``0 <= variable + shift < limit``."""
    ivs = list(leaf.ivs)
    if loop.induction_variable not in ivs:
        ivs.append(loop.induction_variable)
    symbols = [AffineExpr.symbol(number) for number in range(len(leaf.ivs))]
    variable = AffineExpr.symbol(ivs.index(loop.induction_variable))
    remap_leaf(leaf, None, symbols, ivs, bounds=[(variable + shift, limit)])


def _extend(leaf: ComputeOp, made: ForOp, blocks: Sequence[ForOp], last: int) -> None:
    """A copy's condition on the loops over blocks so far, on those and the new one.

    Some block came before where the sum of their variables is not 0, and some comes after where it
    is below that of their last ones.
    """
    ivs = [*leaf.ivs, made.induction_variable]
    own = {each.induction_variable for each in blocks}
    pairs: list[tuple[AffineExpr, int]] = []
    for expression, limit in bounds_of(leaf):
        read = atoms(expression)
        of_axis = bool(read) and all(
            isinstance(atom, AffineSymExpr) and leaf.ivs[atom.position] in own for atom in read
        )
        if of_axis:
            expression = AffineExpr.symbol(len(ivs) - 1) + expression
            limit += last
        pairs.append((expression, limit))
    replace_leaf(
        leaf,
        ivs=ivs,
        maps=[AffineMap(len(leaf.sizes), len(ivs), each.data.results) for each in leaf.maps],
        bounds=pairs,
    )


def _advance(axis: str, made: ForOp) -> None:
    """The fold, and copies of what it reads, at the new loop's place of the axis."""
    extent, step = made.extent.value.data, made.step.value.data
    for leaf in leaves_of(made):
        if axis not in leaf.axis_names:
            continue
        position = leaf.axis_names.index(axis)
        ivs = [*leaf.ivs, made.induction_variable]
        dims = [AffineExpr.dimension(number) for number in range(len(leaf.axis_names))]
        dims[position] = AffineExpr.symbol(len(ivs) - 1) + dims[position]
        symbols = [AffineExpr.symbol(number) for number in range(len(ivs) - 1)]
        axes = list(zip(leaf.axis_names, leaf.sizes, strict=True))
        axes[position] = (axis, step)
        bounds = [(dims[position], extent)] if extent % step else []
        remap_leaf(leaf, dims, symbols, ivs, axes=axes, bounds=bounds)

"""One leaf of the mid level on numpy: all its points, and all instances of it, at once."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from wia_compiler.base.errors import OutOfRangeError
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tile_places import LookupOp
from wia_compiler.reference.rounding import Array
from wia_compiler.reference.scalar_ops import (
    FOLDS,
    apply,
    combine,
    fold_axes,
    signless,
    unsigned,
)


class TileError(Exception):
    """A mid-level program that does what no target may do."""


@dataclass(frozen=True)
class Memory:
    """A memref's elements and which of them were written.

    The first ``batch_rank`` axes are the loops around its allocation: each iteration has its own.
    ``reads`` counts how often each element was read, where that is asked for.
    """

    data: Array
    written: Array
    batch_rank: int
    reads: Array | None = None

    def count(self, index: Sequence[Array], active: Array, batch: tuple[int, ...]) -> None:
        """Count one read of each element at ``index`` where ``active``, in each of the batch."""
        if self.reads is None:
            return
        places = [np.asarray(each) for each in index]
        own = (*batch, *(1,) * (active.ndim - len(batch)))
        shape = np.broadcast_shapes(own, *(place.shape for place in places))
        # What many points need of one element is read once for them.
        spread = tuple(axis for axis, size in enumerate(shape) if size == 1)
        live = np.broadcast_to(active.any(axis=spread, keepdims=True), shape)
        where = tuple(np.broadcast_to(place, shape)[live] for place in places)
        np.add.at(self.reads, where, 1)


def run_leaf(
    leaf: ComputeOp,
    values: Mapping[SSAValue, Memory],
    batch: tuple[int, ...],
    ivs: Sequence[Any],
    active: Array | None = None,
) -> None:
    """Read, compute and write every point of a leaf for every instance of the batch.

    ``active`` says which instances run it: an array over the batch.
    """
    _Leaf(leaf, values, batch, ivs, active).run()


class _Leaf:
    def __init__(
        self,
        leaf: ComputeOp,
        values: Mapping[SSAValue, Memory],
        batch: tuple[int, ...],
        ivs: Sequence[Any],
        active: Array | None,
    ):
        self.leaf = leaf
        self.values = values
        self.batch = batch
        self.grid = (*batch, *leaf.sizes)
        rank = len(leaf.sizes)
        self.dims = [
            _along(n + len(batch), np.arange(size), len(self.grid))
            for n, size in enumerate(leaf.sizes)
        ]
        self.symbols = [np.asarray(iv).reshape((*np.shape(iv), *(1,) * rank)) for iv in ivs]
        self.active = np.ones((1,) * len(self.grid), np.bool_)
        if active is not None:
            self.active = active.reshape((*active.shape, *(1,) * rank))
        for expression, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True):
            value = np.asarray(expression.eval(self.dims, self.symbols))  # pyright: ignore[reportArgumentType]
            self.active = self.active & (value >= 0) & (value < limit)

    def run(self) -> None:
        leaf = self.leaf
        if 0 in self.grid:
            return
        arguments = [self._load(n) for n in range(len(leaf.inputs))]
        if leaf.folds:
            self._fold(arguments)
            return
        block = leaf.body.block
        known: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
        for op in block.ops:
            if isinstance(op, YieldOp):
                for number, value in enumerate(op.arguments):
                    self._write(number, known[value], self.active, self.dims)
            else:
                known[op.results[0]] = self._scalar(op, known)

    def _scalar(self, op: Operation, known: Mapping[SSAValue, Array]) -> Array:
        """One op of the body at every point."""
        if isinstance(op, LookupOp):
            return self._lookup(op, [known[index] for index in op.indices])
        return apply(op, [known[operand] for operand in op.operands])

    def _lookup(self, op: LookupOp, index: Sequence[Array]) -> Array:
        memory = self.values[op.memref]
        if memory.batch_rank:
            raise TileError("a lookup reads an array of the nest's caller")
        inside = np.broadcast_to(_inside(index, memory.data.shape), self.grid)
        for axis, (each, size) in enumerate(zip(index, memory.data.shape, strict=True)):
            wrong = np.broadcast_to(((each < 0) | (each >= size)) & self.active, self.grid)
            if axis not in op.checked_axes and np.any(wrong):
                raise TileError(f"axis {axis} of a lookup is read outside its memref")
            if op.number is not None and np.any(wrong):
                place = tuple(found[0] for found in np.nonzero(wrong)) if wrong.ndim else ()
                at = tuple(int(np.broadcast_to(n, self.grid)[place]) for n in index)
                name = op.memref.name_hint or "an array"
                raise OutOfRangeError(name, at, memory.data.shape, next(iter(spans_of(op)), None))
        if memory.data.size == 0:
            return np.zeros(self.grid, memory.data.dtype)
        safe = tuple(np.where(inside, each, 0) for each in index)
        if not np.all(memory.written[safe] | ~(inside & self.active)):
            raise TileError("a lookup reads an element before it is written")
        memory.count(safe, inside & self.active, self.batch)
        return np.where(inside, memory.data[safe], np.zeros((), memory.data.dtype))

    def _index(self, memory: Memory, each: AffineMap, dims: Sequence[Any]) -> list[Array]:
        """Index arrays for the batch axes of a memory, then its own."""
        rank = len(self.grid)
        own = [_along(n, np.arange(self.batch[n]), rank) for n in range(memory.batch_rank)]
        return [*own, *(np.asarray(e.eval(dims, self.symbols)) for e in each.results)]  # pyright: ignore[reportArgumentType]

    def _load(self, number: int) -> Array:
        leaf = self.leaf
        memory = self.values[leaf.inputs[number]]
        index = self._index(memory, leaf.input_maps[number], self.dims)
        inside = _inside(index, memory.data.shape)
        if not leaf.is_padded[number] and not np.all(inside | ~self.active):
            raise TileError(f"input {number} of a {leaf.kind.data} leaf is read outside its memref")
        safe = tuple(np.where(inside, each, 0) for each in index)
        if memory.data.size == 0:
            return np.zeros(self.grid, memory.data.dtype)
        if not np.all(memory.written[safe] | ~(inside & self.active)):
            raise TileError(
                f"input {number} of a {leaf.kind.data} leaf is read before it is written"
            )
        memory.count(safe, inside & self.active, self.batch)
        return np.where(inside, memory.data[safe], np.zeros((), memory.data.dtype))

    def _fold(self, arguments: Sequence[Array]) -> None:
        leaf = self.leaf
        block = leaf.body.block
        known: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=False))
        held = block.args[len(arguments) :]
        last = cast(YieldOp, block.last_op)
        folded = zip(last.arguments, held, strict=True)
        folds = {value.owner for value, old in folded if old.first_use is not None}
        for op in block.ops:
            if op not in folds and op is not last:
                known[op.results[0]] = self._scalar(op, known)
        for number, value in enumerate(last.arguments):
            if held[number].first_use is None:
                self._write(number, known[value], self.active, self.dims)
                continue
            fold = cast(Operation, value.owner)
            if fold.name not in FOLDS or held[number] not in fold.operands:
                raise TileError("a folding leaf yields what combines a held value with an element")
            (element,) = (each for each in fold.operands if each is not held[number])
            self._fold_output(number, fold, known[element])

    def _fold_output(self, number: int, fold: Operation, element: Array) -> None:
        leaf = self.leaf
        each = leaf.output_maps[number]
        used = {e for result in each.results for e in result.dfs() if isinstance(e, AffineDimExpr)}
        gone = tuple(
            len(self.batch) + n
            for n, reduced in enumerate(leaf.reductions)
            if reduced and AffineDimExpr(n) not in used
        )
        ufunc = FOLDS[fold.name]
        element = np.broadcast_to(element, self.grid)
        active = np.broadcast_to(self.active, self.grid)
        is_unsigned = fold.name.endswith("ui")
        viewed = unsigned(np.ascontiguousarray(element)) if is_unsigned else element
        dims = [
            np.zeros((1,) * len(self.grid), np.int64) if n + len(self.batch) in gone else dim
            for n, dim in enumerate(self.dims)
        ]
        live = np.asarray(active.any(axis=gone, keepdims=True)) if gone else active
        memory = self.values[leaf.outputs[number]]
        index = self._index(memory, each, dims)
        safe = tuple(np.where(_inside(index, memory.data.shape), e, 0) for e in index)
        if not np.all(memory.written[safe] | ~live):
            raise TileError(
                f"output {number} of a {leaf.kind.data} leaf is folded before it is filled"
            )
        old = unsigned(memory.data[safe]) if is_unsigned else memory.data[safe]
        if leaf.is_ordered:
            combined = _fold_in_order(ufunc, old, viewed, active, gone)
        else:
            elements = np.where(active, viewed, _identity(ufunc, viewed.dtype))
            folded = fold_axes(ufunc, elements, gone) if gone else elements
            combined = combine(ufunc, old, folded).astype(viewed.dtype, copy=False)
        self._write(number, signless(combined) if is_unsigned else combined, live, dims)

    def _write(self, number: int, value: Array, active: Array, dims: Sequence[Any]) -> None:
        leaf = self.leaf
        memory = self.values[leaf.outputs[number]]
        index = self._index(memory, leaf.output_maps[number], dims)
        inside = _inside(index, memory.data.shape)
        if not np.all(inside | ~active):
            raise TileError(
                f"output {number} of a {leaf.kind.data} leaf is written outside its memref"
            )
        shape = np.broadcast_shapes(*(np.shape(each) for each in (*index, value, active)))
        live = np.broadcast_to(active, shape)
        places = tuple(np.broadcast_to(each, shape)[live] for each in index)
        elements = np.broadcast_to(value, shape)[live]
        if not len(elements):
            return
        if not places:
            # A memref of rank 0: every point writes its one element.
            memory.data[...], memory.written[...] = elements[-1], True
            return
        memory.data[places] = elements
        memory.written[places] = True
        self._check_once(number, memory, places, elements)

    def _check_once(
        self, number: int, memory: Memory, places: tuple[Array, ...], elements: Array
    ) -> None:
        """Points that write one element must agree: a block-level leaf in every thread's loop."""
        linear = np.ravel_multi_index(places, memory.data.shape)
        if len(np.unique(linear)) == len(linear):
            return
        kept = memory.data[places]
        same = (kept == elements) | ((kept != kept) & (elements != elements))
        if self.leaf.level.data == "thread" or not np.all(same):
            raise TileError(f"output {number} of a {self.leaf.kind.data} leaf is written twice")


def _fold_in_order(
    ufunc: np.ufunc, held: Array, elements: Array, active: Array, axes: tuple[int, ...]
) -> Array:
    """One element after the other, the last axis fastest, starting from what is held."""
    total = held
    for place in itertools.product(*(range(elements.shape[axis]) for axis in axes)):
        where: list[Any] = [slice(None)] * elements.ndim
        for axis, at in zip(axes, place, strict=True):
            where[axis] = slice(at, at + 1)
        taken = tuple(where)
        total = np.where(active[taken], combine(ufunc, total, elements[taken]), total)
    return total.astype(elements.dtype, copy=False)


def _along(axis: int, values: Array, rank: int) -> Array:
    return values.reshape([-1 if n == axis else 1 for n in range(rank)])


def _inside(index: Sequence[Array], shape: Sequence[int]) -> Array:
    inside: Array = np.ones((), np.bool_)
    for each, size in zip(index, shape, strict=True):
        inside = inside & (each >= 0) & (each < size)
    return inside


def _identity(ufunc: np.ufunc, dtype: np.dtype[Any]) -> Array:
    """What a fold may take any number of times: where no point is, it changes nothing."""
    if ufunc in (np.add, np.multiply):
        return np.asarray(0 if ufunc is np.add else 1, dtype)
    lowest = ufunc is np.maximum
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        return np.asarray(limits.min if lowest else limits.max, dtype)
    return np.asarray(-np.inf if lowest else np.inf, dtype)

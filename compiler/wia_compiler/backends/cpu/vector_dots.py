"""Sums of four products of 8-bit integers in one instruction, or two by two.

::

    acc[i, j] += sext(a[i, k]) * zext(b[k floordiv 4, j, k mod 4])
      →  each group of 4 points of k:
           %b = 16 × 4 numbers of b        %a = 4 numbers of a, for all 16 lanes
           %acc = vpdpbusd %acc, %b, %a    each lane adds 4 products, in 32 bits that wrap

Where there is no such instruction, the numbers at even and at odd places become 16 bits wide, and
``vpmaddwd`` adds the products of two of them: no intermediate is rounded to 16 bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from xdsl.builder import Builder
from xdsl.dialects import arith, llvm, scf, vector
from xdsl.dialects.builtin import MemRefType, VectorType, i1, i8, i16, i32
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr

from wia_compiler.backends.cpu.vector_access import TileAccess
from wia_compiler.backends.cpu.vector_plan import Condition, VectorPlan, ended_axis, is_register
from wia_compiler.passes.affine import atoms, linear_form
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.emit_leaf import LeafContext
from wia_compiler.passes.lane_ops import splat
from wia_compiler.passes.llvm.types import strides_of
from wia_compiler.passes.tile_rewrites.integer_products import NEIGHBOURS, integer_product

_MOST_SUMS = 24
_FOURS = {
    64: "llvm.x86.avx512.vpdpbusd.512",
    32: "llvm.x86.avx512.vpdpbusd.256",
    16: "llvm.x86.avx512.vpdpbusd.128",
}
_PAIRS = {
    64: "llvm.x86.avx512.pmaddw.d.512",
    32: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.sse2.pmadd.wd",
}
"""LLVM's names, by the bytes of a vector."""


@dataclass(frozen=True)
class DotPlan:
    """How a product is spelled: ``tile`` has its lanes, rows and ends.

    ``vectors`` is the operand whose neighbours lie side by side, ``scalars`` the one of which four
    numbers go to all lanes; ``vectors_signed`` says that the first is the one with signs;
    ``at_once`` are the products that an instruction adds, 4 or 2.
    """

    tile: VectorPlan
    vectors: int
    scalars: int
    vectors_signed: bool
    at_once: int

    @property
    def context(self) -> LeafContext:
        """The leaf's values."""
        return self.tile.context


def plan_dots(context: LeafContext, vector_bytes: int, at_once: int) -> DotPlan | None:
    """How to spell a leaf with such instructions; ``None`` where it is no product laid out so."""
    leaf = context.leaf
    product = integer_product(leaf)
    if product is None or len(leaf.reduce_axes) != 1 or any(leaf.is_padded):
        return None
    fold = leaf.axis_names.index(leaf.reduce_axes.data[0].data)
    k = AffineDimExpr(fold)
    laid_out = [n for n in range(2) if _is_interleaved(leaf.input_maps[n].results, k)]
    if len(laid_out) != 1 or not is_register(leaf.inputs[laid_out[0]]):
        return None
    vectors, scalars = laid_out[0], 1 - laid_out[0]
    if product.is_signed(vectors) == product.is_signed(scalars):
        return None
    across = leaf.input_maps[vectors].results[-2]
    lanes = vector_bytes // 4
    if not isinstance(across, AffineDimExpr) or leaf.sizes[across.position] % lanes:
        return None
    axis = across.position
    if not _is_dense(context, leaf.inputs[scalars], leaf.input_maps[scalars].results, k):
        return None
    reads = {atom for each in leaf.input_maps[scalars].results for atom in atoms(each)}
    if across in reads or leaf.output_maps[0].results[-1] != across:
        return None
    if not is_register(leaf.outputs[0]):
        return None
    rows = tuple(n for n in range(len(leaf.sizes)) if n not in (axis, fold))
    sums = math.prod(leaf.sizes[n] for n in rows) * leaf.sizes[axis] // lanes
    bounds = tuple(
        Condition(expression, limit)
        for expression, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True)
        if not context.is_within(expression, limit)
    )
    ends = tuple((fold, each) for each in bounds if ended_axis(leaf, each.expression) == fold)
    rest = tuple(each for each in bounds if each not in [end for _, end in ends])
    if sums > _MOST_SUMS or any(k in atoms(each.expression) for each in rest):
        return None
    padding = ((None,), (None,))
    tile = VectorPlan(context, axis, lanes, rows, (fold,), rest, padding, False, ends)
    return DotPlan(tile, vectors, scalars, product.is_signed(vectors), at_once)


def _is_interleaved(results: Sequence[AffineExpr], k: AffineExpr) -> bool:
    """Whether four neighbours along an axis lie side by side: ``[…, k floordiv 4, …, k mod 4]``."""
    if len(results) < 3 or results[-1] != k % NEIGHBOURS:
        return False
    others = [each for each in results[:-1] if k in atoms(each)]
    return others == [k // NEIGHBOURS]


def _is_dense(
    context: LeafContext, array: SSAValue, results: Sequence[AffineExpr], along: AffineExpr
) -> bool:
    """Whether neighbours along an axis are neighbours in memory."""
    type_ = cast("MemRefType[Attribute]", context.array(array).type)
    if not results or strides_of(type_)[-1] != 1:
        return False
    form = linear_form(results[-1])
    hidden = [atom for atom in form.terms if atom != along and along in atoms(atom)]
    before = any(along in atoms(each) for each in results[:-1])
    return form.terms.get(along) == 1 and not hidden and not before


def lower_dots(plan: DotPlan, builder: Builder) -> None:
    """Write a product's vector code at the builder's place."""
    leaf = plan.context.leaf
    emitter = IndexEmitter(builder, leaf.location)
    _Product(plan).write(emitter)


class _Product:
    def __init__(self, plan: DotPlan):
        self.plan = plan
        self.tile = plan.tile
        self.leaf = plan.context.leaf
        self.access = TileAccess(plan.tile, masked=False)
        self.rows = list(
            itertools.product(*(range(self.leaf.sizes[axis]) for axis in self.tile.rows))
        )
        self.whole = VectorType(i8, [self.tile.lanes, NEIGHBOURS])
        self.sums = VectorType(i32, [self.tile.lanes])

    def write(self, emitter: IndexEmitter) -> None:
        """Sums from their buffer, all groups of four, what is left of one, sums to the buffer."""
        fold = self.tile.reduce[0]
        end = self._end(emitter, fold)
        groups = emitter.binary(arith.DivUIOp, end, emitter.constant(NEIGHBOURS))
        known = emitter.constant_of(end)
        if known is not None:
            groups = emitter.constant(known // NEIGHBOURS)
        tiles = [(row, chunk) for row in self.rows for chunk in range(self.tile.chunks)]
        held: list[SSAValue] = [
            self.access.read(emitter, self._points(emitter, row, chunk), output=0)
            for row, chunk in tiles
        ]
        zero, one = emitter.constant(0), emitter.constant(1)
        body = Block(arg_types=[zero.type, *(value.type for value in held)])
        body.args[0].name_hint = self.leaf.axis_names[fold]
        inner = emitter.nested(body)
        results = self._group(inner, body.args[0], list(body.args[1:]), self._four)
        emitter.close(body, *results)
        loop = scf.ForOp(zero, groups, one, held, Region(body))
        emitter.put(loop)
        held = [*loop.results]
        if known is None or known % NEIGHBOURS:
            held = self._rest(emitter, groups, end, held)
        for (row, chunk), value in zip(tiles, held, strict=True):
            self.access.write(emitter, 0, self._points(emitter, row, chunk), value)

    def _end(self, emitter: IndexEmitter, fold: int) -> SSAValue:
        end = emitter.constant(self.leaf.sizes[fold])
        zeros = [emitter.constant(0)] * len(self.leaf.sizes)
        for _, bound in self.tile.ends:
            first = emitter.affine(bound.expression, zeros, self.plan.context.ivs)
            end = emitter.minimum(end, emitter.subtract(emitter.constant(bound.limit), first))
        return end

    def _points(self, emitter: IndexEmitter, row: Sequence[int], chunk: int) -> list[SSAValue]:
        points = [emitter.constant(0)] * len(self.leaf.sizes)
        points[self.tile.axis] = emitter.constant(chunk * self.tile.lanes)
        for axis, place in zip(self.tile.rows, row, strict=True):
            points[axis] = emitter.constant(place)
        return points

    def _rest(
        self, emitter: IndexEmitter, groups: SSAValue, end: SSAValue, held: list[SSAValue]
    ) -> list[SSAValue]:
        """The last one to three points: numbers beyond them are taken as 0."""
        start = emitter.scale(groups, NEIGHBOURS)
        count = emitter.subtract(end, start)
        some = emitter.emit(arith.CmpiOp(count, emitter.constant(0), "ne"))
        taken, skipped = Block(), Block()
        inner = emitter.nested(taken)
        four = VectorType(i8, [NEIGHBOURS])
        mask_type = VectorType(i1, [NEIGHBOURS])
        mask = inner.emit(vector.CreateMaskOp.build(operands=[[count]], result_types=[mask_type]))
        nothing = inner.emit(splat(0, four))

        def masked(place: IndexEmitter, array: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
            return place.emit(vector.MaskedLoadOp(array, list(indices), mask, nothing, four))

        results = self._group(inner, groups, held, masked)
        emitter.close(taken, *results)
        emitter.close(skipped, *held)
        types = [value.type for value in held]
        branch = scf.IfOp(some, types, Region(taken), Region(skipped))
        emitter.put(branch)
        return list(branch.results)

    def _four(
        self, emitter: IndexEmitter, array: SSAValue, indices: Sequence[SSAValue]
    ) -> SSAValue:
        return emitter.emit(vector.LoadOp(array, list(indices), VectorType(i8, [NEIGHBOURS])))

    def _group(
        self,
        emitter: IndexEmitter,
        group: SSAValue,
        held: list[SSAValue],
        four: Callable[[IndexEmitter, SSAValue, Sequence[SSAValue]], SSAValue],
    ) -> list[SSAValue]:
        """Four points of the folded axis for the whole tile."""
        chunks = [self._vector(emitter, group, chunk) for chunk in range(self.tile.chunks)]
        made: list[SSAValue] = []
        sums = iter(held)
        if self.plan.at_once == 2:
            signed = self.plan.vectors_signed
            halves = [self._halves(emitter, values, signed=signed) for values in chunks]
            for row in self.rows:
                numbers = self._numbers(emitter, group, row, four)
                others = self._halves(emitter, numbers, signed=not signed)
                made += [self._pairs(emitter, next(sums), each, others) for each in halves]
            return made
        for row in self.rows:
            numbers = self._numbers(emitter, group, row, four)
            for values in chunks:
                unsigned, signed = (
                    (numbers, values) if self.plan.vectors_signed else (values, numbers)
                )
                call = llvm.CallIntrinsicOp(
                    _FOURS[4 * self.tile.lanes], [next(sums), unsigned, signed], [self.sums]
                )
                made.append(emitter.emit(call))
        return made

    def _halves(
        self, emitter: IndexEmitter, values: SSAValue, *, signed: bool
    ) -> tuple[SSAValue, SSAValue]:
        """The numbers at even and at odd places, each in 16 bits."""
        wide = VectorType(i16, [self.tile.lanes * 2])
        both = emitter.emit(vector.BitcastOp(values, wide))
        byte = emitter.emit(splat(8, wide))
        if signed:
            moved = emitter.emit(arith.ShLIOp(both, byte))
            even = emitter.emit(arith.ShRSIOp(moved, byte))
            return even, emitter.emit(arith.ShRSIOp(both, byte))
        even = emitter.emit(arith.AndIOp(both, emitter.emit(splat(0xFF, wide))))
        return even, emitter.emit(arith.ShRUIOp(both, byte))

    def _pairs(
        self,
        emitter: IndexEmitter,
        total: SSAValue,
        a: tuple[SSAValue, SSAValue],
        b: tuple[SSAValue, SSAValue],
    ) -> SSAValue:
        """A sum and four products more: those at even places, then those at odd ones."""
        name = _PAIRS[4 * self.tile.lanes]
        for one, other in zip(a, b, strict=True):
            added = emitter.emit(llvm.CallIntrinsicOp(name, [one, other], [self.sums]))
            total = emitter.emit(arith.AddiOp(total, added))
        return total

    def _vector(self, emitter: IndexEmitter, group: SSAValue, chunk: int) -> SSAValue:
        operand = self.plan.vectors
        array = self.plan.context.array(self.leaf.inputs[operand])
        points = self._points(emitter, [0] * len(self.tile.rows), chunk)
        k = AffineDimExpr(self.tile.reduce[0])
        indices: list[SSAValue] = []
        for expression in self.leaf.input_maps[operand].results:
            if expression == k // NEIGHBOURS:
                indices.append(group)
            elif expression == k % NEIGHBOURS:
                indices.append(emitter.constant(0))
            else:
                indices.append(emitter.affine(expression, points, self.plan.context.ivs))
        return emitter.emit(vector.LoadOp(array, indices, self.whole))

    def _numbers(
        self,
        emitter: IndexEmitter,
        group: SSAValue,
        row: Sequence[int],
        four: Callable[[IndexEmitter, SSAValue, Sequence[SSAValue]], SSAValue],
    ) -> SSAValue:
        operand = self.plan.scalars
        array = self.plan.context.array(self.leaf.inputs[operand])
        points = self._points(emitter, row, 0)
        points[self.tile.reduce[0]] = emitter.scale(group, NEIGHBOURS)
        results = self.leaf.input_maps[operand].results
        indices = [emitter.affine(each, points, self.plan.context.ivs) for each in results]
        self.access.stay_inside(emitter, operand, indices)
        return emitter.emit(vector.BroadcastOp(four(emitter, array, indices), self.whole))

"""One block of queries of an attention whose threads share tiles: what a GPU runs.

::

    copy query_tile[i, e] @shared;  copy key_tile[j, e] of the first keys
    for j.0 in S step 64
      copy value_tile[j, v]
      contract scores[i, j] += query_tile[i, e] * key_tile[j, e]
      copy key_tile of the next keys                         while the scores are worked on
      map scores: masks;  reduce larger[i] = max(largest[i], scores[i, j])
      map weights[i, j] = 2 ** ((scores[i, j] - larger[i]) * scale)
      map total, sums: scaled down;  reduce total[i] += weights[i, j]
      contract sums[i, v] += weights[i, j] * value_tile[j, v]
    map result[i, v] = sums[i, v] / total[i]

Tiles are whole: what lies past the ends of an array reads as 0, scores of keys past the end are
-inf. Where the target multiplies tiles of the dtype (tensor cores), tiles keep it and weights are
rounded to it; elsewhere tiles are widened, and weights go through shared memory, since a sum over
keys needs those of other threads.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects import arith, scf
from xdsl.dialects import math as math_dialect
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import IndexType, IntegerAttr
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Block, Region, SSAValue

from wia_compiler.base.dtypes import BOOL, I64
from wia_compiler.passes.nests.attention_heads import Heads
from wia_compiler.passes.nests.attention_tiles import BlockTiles
from wia_compiler.passes.nests.body import Body
from wia_compiler.passes.nests.casts import cast_scalar
from wia_compiler.passes.nests.leaf_writer import LeafWriter, Place, Tile

SHARED = "shared"
_APPROXIMATE = FastMathFlagsAttr([FastMathFlag.APPROX_FUNC])
"""Weights that are rounded to 11 or 8 bits may come from an instruction within 2 ulp of f32."""


class SharedBlock:
    """A block of ``tiles.queries`` queries from ``first``, the name of a loop's variable."""

    def __init__(self, heads: Heads, writer: LeafWriter, tiles: BlockTiles, first: str):
        self.heads, self.writer, self.tiles, self.first = heads, writer, tiles, first
        wide, tile, rows = heads.wide, tiles.dtype, tiles.queries
        names = ("largest", "larger", "shrink", "total")
        across = tiles.width + tiles.padding
        self.query = writer.buffer("query_tile", [rows, across], tile, SHARED)
        self.held = None
        if tiles.holds_queries:
            self.held = writer.buffer("query", [rows, tiles.width], tile)
        self.key = writer.buffer("key_tile", [tiles.keys, across], tile, SHARED)
        self.value = writer.buffer("value_tile", [tiles.keys, tiles.values], tile, SHARED)
        self.largest, self.larger, self.shrink, self.total = (
            Tile(writer.buffer(name, [rows], wide), ("i",)) for name in names
        )
        self.sums = Tile(writer.buffer("sums", [rows, tiles.values], wide), ("i", "v"))
        self.scores = Tile(writer.buffer("scores", [rows, tiles.keys], wide), ("i", "j"))
        scope = "register" if tiles.has_products else SHARED
        weights = writer.buffer("weights", [rows, tiles.keys + tiles.weights_padding], tile, scope)
        self.weights = Tile(weights, ("i", "j"))
        # Scores are compared as they are, and their differences scaled, where that is the same.
        self.scales_first = heads.scale <= 0 or heads.mask_dtype not in (None, BOOL)
        self.factor = heads.scale * math.log2(math.e)

    def write(self) -> None:
        """Fetch the queries, walk the keys, write the result's rows."""
        heads, writer, tiles, wide = self.heads, self.writer, self.tiles, self.heads.wide
        self._fetch("query", self.query, self.first)
        if self.held is not None:
            axes = {"i": tiles.queries, "e": tiles.width}
            read, held = Tile(self.query, ("i", "e")), Tile(self.held, ("i", "e"))
            writer.leaf("map", axes, [read], held, _same)
        if tiles.stages > 1:
            self._fetch("key", self.key, "0")
        writer.fill(self.largest.memory, -math.inf, wide)
        for each in (self.total, self.sums):
            writer.fill(each.memory, 0, wide)
        whole = heads.keys - heads.keys % tiles.keys
        if whole:
            with writer.loop("j.0", whole, tiles.keys) as first, self._where_seen(first):
                self._key_block("j0", is_last=False)
        if whole < heads.keys:
            with self._where_seen(whole):
                self._key_block(str(whole), is_last=True)
        axes = {"i": tiles.queries, "v": tiles.values}
        place = (*heads.place("result", "", "")[:-2], f"{self.first} + i", "v")
        bounds = [(f"{self.first} + i", heads.queries), ("v", heads.values)]
        target = Tile(heads.memory["result"], place)
        writer.leaf("map", axes, [self.sums, self.total], self.sums, self._quotient)
        writer.leaf("map", axes, [self.sums], target, self._rounded, bounds=bounds)

    def _fetch(self, name: str, tile: SSAValue, first: str) -> None:
        """Copy a block of an operand, from row ``first`` on, to its tile; 0 past its ends."""
        heads, tiles = self.heads, self.tiles
        rows = tiles.queries if name == "query" else tiles.keys
        column = "v" if name == "value" else "e"
        axes = {"i" if name == "query" else "j": rows}
        (row,) = axes
        axes[column] = tiles.values if name == "value" else tiles.width
        place = (*heads.place(name, "", "")[:-2], f"{first} + {row}", column)
        source = Tile(heads.memory[name], place, padded=True)
        same = heads.dtype == tiles.dtype
        compute = _same if same else self._widened
        self.writer.leaf(
            "copy" if same else "map", axes, [source], Tile(tile, (row, column)), compute
        )

    def _widened(self, body: Body, x: SSAValue) -> SSAValue:
        return cast_scalar(body, x, self.heads.dtype, self.tiles.dtype)

    @contextmanager
    def _where_seen(self, first_key: SSAValue | int) -> Generator[None]:
        """Leave out a block of keys that lie behind all of the block's queries."""
        if not self.heads.causal:
            yield
            return
        writer = self.writer
        last = self._index(self.tiles.queries - 1)
        last = _added(writer, arith.AddiOp(writer.loops[self.first], last))
        first = self._index(first_key) if isinstance(first_key, int) else first_key
        with self._where(_added(writer, arith.CmpiOp(first, last, "sle"))):
            yield

    @contextmanager
    def _where(self, condition: SSAValue) -> Generator[None]:
        writer = self.writer
        outer, inside = writer.block, Block()
        writer.block = inside
        yield
        writer.add(scf.YieldOp())
        writer.block = outer
        writer.add(scf.IfOp(condition, [], Region(inside)))

    def _index(self, number: int) -> SSAValue:
        return _added(self.writer, arith.ConstantOp(IntegerAttr(number, IndexType())))

    def _key_block(self, first: str, *, is_last: bool) -> None:
        """The leaves of one block of keys; the last one may end before its tile does."""
        heads, writer, tiles = self.heads, self.writer, self.tiles
        rows, block = {"i": tiles.queries}, {"i": tiles.queries, "j": tiles.keys}
        largest, larger, shrink, total = self.largest, self.larger, self.shrink, self.total
        scores, sums, weights = self.scores, self.sums, self.weights
        is_ahead = tiles.stages > 1
        if is_ahead:
            self._fetch("value", self.value, first)
        else:
            self._fetch("key", self.key, first)
        writer.fill(scores.memory, 0, heads.wide)
        writer.leaf(
            "contract",
            {**block, "e": tiles.width},
            [Tile(self.held or self.query, ("i", "e")), Tile(self.key, ("j", "e"))],
            scores,
            self._multiply_add,
            reduce=("e",),
        )
        if not is_ahead:
            self._fetch("value", self.value, first)
        elif not is_last:
            self._fetch("key", self.key, f"{first} + {tiles.keys}")
        if self.scales_first or is_last or heads.mask_dtype is not None:
            self._mask(first, is_last, with_causal=heads.causal)
        elif heads.causal:
            with self._where_cut(first):
                self._mask(first, is_last, with_causal=True)
        writer.leaf("map", rows, [largest], larger, _same)
        writer.leaf("reduce", block, [scores], larger, _maximum, reduce=("j",))
        writer.leaf("map", rows, [largest, larger], shrink, self._power)
        writer.leaf("map", block, [scores, larger], scores, self._power)
        writer.leaf("map", rows, [total, shrink], total, _product)
        writer.leaf("reduce", block, [scores], total, _sum, reduce=("j",))
        writer.leaf("map", block, [scores], weights, self._narrowed)
        axes = {"i": tiles.queries, "v": tiles.values}
        writer.leaf("map", axes, [sums, shrink], sums, _product)
        writer.leaf(
            "contract",
            {**axes, "j": tiles.keys},
            [weights, Tile(self.value, ("j", "v"))],
            sums,
            self._multiply_add,
            reduce=("j",),
        )
        writer.leaf("map", rows, [larger], largest, _same)

    @contextmanager
    def _where_cut(self, first: str) -> Generator[None]:
        """Only where the diagonal goes through a block: some query does not see its last key."""
        writer = self.writer
        last = _added(writer, arith.AddiOp(writer.loops[first], self._index(self.tiles.keys - 1)))
        with self._where(_added(writer, arith.CmpiOp(last, writer.loops[self.first], "sgt"))):
            yield

    def _mask(self, first: str, is_last: bool, *, with_causal: bool) -> None:
        """Scores scaled where that is not done later, masked, and -inf past the last key."""
        heads, tiles = self.heads, self.tiles
        row, column = f"{self.first} + i", f"{first} + j"
        reads = [self.scores]
        if heads.mask_dtype is not None:
            place: Place = heads.place("mask", row, column)
            reads.append(Tile(heads.memory["mask"], place, padded=True))
        mask_count = len(reads) - 1
        if is_last or with_causal:
            position = heads.memory["position"]
            reads += [Tile(position, (row,)), Tile(position, (column,))]

        def masked(body: Body, score: SSAValue, *others: SSAValue) -> SSAValue:
            given, place = others[:mask_count], others[mask_count:]
            return self._masked(body, score, given, place, is_last, with_causal)

        axes = {"i": tiles.queries, "j": tiles.keys}
        self.writer.leaf("map", axes, reads, self.scores, masked)

    def _masked(
        self,
        body: Body,
        score: SSAValue,
        mask: Sequence[SSAValue],
        place: Sequence[SSAValue],
        is_last: bool,
        with_causal: bool,
    ) -> SSAValue:
        heads, wide = self.heads, self.heads.wide
        lowest = body.constant(-math.inf, wide)
        if self.scales_first:
            score = body.add(arith.MulfOp(score, body.constant(self.factor, wide)))
        if mask and heads.mask_dtype == BOOL:
            score = body.select(mask[0], score, lowest)
        elif mask and heads.mask_dtype is not None:
            added = cast_scalar(body, mask[0], heads.mask_dtype, wide)
            added = body.add(arith.MulfOp(added, body.constant(math.log2(math.e), wide)))
            score = body.add(arith.AddfOp(score, added))
        if with_causal:
            row, column = place
            score = body.select(body.compare("sle", column, row), score, lowest)
        if is_last:
            inside = body.compare("slt", place[1], body.constant(heads.keys, I64))
            score = body.select(inside, score, lowest)
        return score

    def _power(self, body: Body, score: SSAValue, largest: SSAValue) -> SSAValue:
        """``2 ** ((score - largest) * factor)``; 0 where the row has seen no score but -inf."""
        wide = self.heads.wide
        none = body.compare("oeq", largest, body.constant(-math.inf, wide))
        finite = body.select(none, body.constant(0, wide), largest)
        if self.scales_first:
            below = body.add(arith.SubfOp(score, finite))
        else:
            factor = body.constant(self.factor, wide)
            ends = body.add(arith.MulfOp(finite, body.constant(-self.factor, wide)))
            below = body.add(math_dialect.FmaOp(score, factor, ends))
        return body.add(
            math_dialect.Exp2Op(below, _APPROXIMATE if self.tiles.has_products else None)
        )

    def _narrowed(self, body: Body, x: SSAValue) -> SSAValue:
        return cast_scalar(body, x, self.heads.wide, self.tiles.dtype)

    def _quotient(self, body: Body, total: SSAValue, weights: SSAValue) -> SSAValue:
        """The mean of the values; 0 for a row that sees no key."""
        wide = self.heads.wide
        none = body.compare("oeq", weights, body.constant(0, wide))
        divisor = body.select(none, body.constant(1, wide), weights)
        return body.add(arith.DivfOp(total, divisor))

    def _rounded(self, body: Body, x: SSAValue) -> SSAValue:
        return cast_scalar(body, x, self.heads.wide, self.heads.dtype)

    def _multiply_add(self, body: Body, a: SSAValue, b: SSAValue, held: SSAValue) -> SSAValue:
        tile, wide = self.tiles.dtype, self.heads.wide
        a, b = (cast_scalar(body, each, tile, wide) for each in (a, b))
        return body.add(arith.AddfOp(held, body.add(arith.MulfOp(a, b))))


def _added(writer: LeafWriter, op: arith.ConstantOp | arith.AddiOp | arith.CmpiOp) -> SSAValue:
    return writer.add(op).results[0]


def _same(body: Body, x: SSAValue) -> SSAValue:
    return x


def _maximum(body: Body, x: SSAValue, held: SSAValue) -> SSAValue:
    return body.add(arith.MaximumfOp(held, x))


def _product(body: Body, x: SSAValue, y: SSAValue) -> SSAValue:
    return body.add(arith.MulfOp(x, y))


def _sum(body: Body, x: SSAValue, held: SSAValue) -> SSAValue:
    return body.add(arith.AddfOp(held, x))

"""One block of queries of an attention nest: its tiles, and the leaves of each block of keys.

Scores stand transposed, queries along the lanes of vectors: the largest score and the sum of
weights of a row are folds down columns, keys and values are read as they lie in memory, and only
the block of queries, once, is turned.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager

from xdsl.dialects import arith, scf
from xdsl.dialects import math as math_dialect
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import IndexType, IntegerAttr, UnitAttr
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Block, Region, SSAValue

from wia_compiler.base.dtypes import BOOL
from wia_compiler.dialects.loop_hints import WHOLE, LoopHints, note_axis_hints
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.expand_math.ranges import NEVER_POSITIVE
from wia_compiler.passes.nests.attention_heads import Heads
from wia_compiler.passes.nests.body import Body
from wia_compiler.passes.nests.casts import cast_scalar
from wia_compiler.passes.nests.leaf_writer import LeafWriter, Place, Tile, shape_of

_FEW_ROWS = 4
"""So many queries have a register tile of their own size; more are rounded up to tiles of 4."""


class QueryBlock:
    """``count`` queries from ``first``, a loop's variable or a number."""

    def __init__(self, heads: Heads, writer: LeafWriter, count: int, first: str):
        self.heads, self.writer, self.count, self.first = heads, writer, count, first
        wide, lanes = heads.wide, heads.lanes
        self.rows = count if count <= _FEW_ROWS else _round_up(count, _FEW_ROWS)
        self.row_tile = heads.rows if self.rows % heads.rows == 0 else min(self.rows, _FEW_ROWS)
        self.columns = _round_up(self.rows, lanes)
        self.column_tile = 2 * lanes if self.columns % (2 * lanes) == 0 else lanes
        self.values = _round_up(heads.values, lanes)
        self.value_tile = 2 * lanes if self.values % (2 * lanes) == 0 else lanes
        step = min(heads.rows, heads.keys)
        keys = _round_up(min(heads.key_rows, heads.keys), step)
        names = ("largest", "larger", "shrink", "total")
        rows = [writer.buffer(name, [self.columns], wide) for name in names]
        self.largest, self.larger, self.shrink, self.total = rows
        self.query = writer.buffer("query_tile", [heads.width, self.columns], wide)
        self.sums = writer.buffer("sums", [self.rows, self.values], wide)
        self.scores = writer.buffer("scores", [keys, self.columns], wide)
        blocks = [heads.key_rows] * (heads.keys >= heads.key_rows)
        blocks += [heads.keys % heads.key_rows] * (heads.keys % heads.key_rows > 0)
        self.tiles = {
            name: writer.buffer(f"{name}_tile", [keys, columns], wide)
            for name, columns in (("key", heads.width), ("value", self.values))
            if not all(self._lies_ready(name, count) for count in blocks)
        }

    def _lies_ready(self, name: str, count: int) -> bool:
        """Whether products read a block of keys or values where it lies.

        It needs no widening and no zeros at its edges, and its rows are dense.
        """
        heads = self.heads
        if heads.dtype != heads.wide or not heads.is_dense(name):
            return False
        if name == "key":
            return count % min(heads.rows, count) == 0
        return heads.values == self.values

    def write(self) -> None:
        """Fetch the queries, walk the keys, write the result's rows."""
        heads, writer, wide = self.heads, self.writer, self.heads.wide
        self._fetch("query", {"e": heads.width, "i": self.count}, self.query, ("e", "i"), "i", "e")
        writer.fill(self.largest, -math.inf, wide)
        for buffer in (self.total, self.sums):
            writer.fill(buffer, 0, wide)
        whole = heads.keys - heads.keys % heads.key_rows
        if whole:
            with writer.loop("j.0", whole, heads.key_rows) as first, self._where_seen(first):
                self._key_block("j0", heads.key_rows)
        if whole < heads.keys:
            with self._where_seen(whole):
                self._key_block(str(whole), heads.keys - whole)
        writer.leaf(
            "map",
            {"i": self.count, "v": heads.values},
            [Tile(self.sums, ("i", "v")), Tile(self.total, ("i",))],
            Tile(heads.memory["result"], heads.place("result", f"{self.first} + i", "v")),
            self._quotient,
        )

    def _quotient(self, body: Body, total: SSAValue, weights: SSAValue) -> SSAValue:
        """The mean of the values; 0 for a row that sees no key."""
        wide = self.heads.wide
        none = body.compare("oeq", weights, body.constant(0, wide))
        divisor = body.select(none, body.constant(1, wide), weights)
        return cast_scalar(body, body.add(arith.DivfOp(total, divisor)), wide, self.heads.dtype)

    @contextmanager
    def _where_seen(self, first_key: SSAValue | int) -> Generator[None]:
        """Leave out a block of keys that lie behind all of the block's queries."""
        if not self.heads.causal:
            yield
            return
        writer = self.writer
        last = self._index(self.count - 1)
        if self.first in writer.loops:
            last = _added(writer, arith.AddiOp(writer.loops[self.first], last))
        else:
            last = self._index(int(self.first) + self.count - 1)
        first = self._index(first_key) if isinstance(first_key, int) else first_key
        outer, inside = writer.block, Block()
        seen = _added(writer, arith.CmpiOp(first, last, "sle"))
        writer.block = inside
        yield
        writer.add(scf.YieldOp())
        writer.block = outer
        writer.add(scf.IfOp(seen, [], Region(inside)))

    def _index(self, number: int) -> SSAValue:
        return _added(self.writer, arith.ConstantOp(IntegerAttr(number, IndexType())))

    def _fetch(
        self, name: str, axes: dict[str, int], buffer: SSAValue, place: Place, *own: str
    ) -> None:
        """Copy a block of an operand, widened, into a tile; what is left of the tile is 0."""
        heads, writer = self.heads, self.writer
        first = self.first if name == "query" else self.key_first
        if tuple(axes.values()) != shape_of(buffer):
            writer.fill(buffer, 0, heads.wide)
        row, column = own
        writer.leaf(
            "map",
            axes,
            [Tile(heads.memory[name], heads.place(name, f"{first} + {row}", column))],
            Tile(buffer, place),
            self._scaled if name == "query" else self._widened,
        )

    def _widened(self, body: Body, x: SSAValue) -> SSAValue:
        return cast_scalar(body, x, self.heads.dtype, self.heads.wide)

    def _scaled(self, body: Body, x: SSAValue) -> SSAValue:
        """Queries carry the scale of the scores: once for each query, not for each score."""
        scale = body.constant(self.heads.scale, self.heads.wide)
        return body.add(arith.MulfOp(self._widened(body, x), scale))

    def _rows(self, name: str, count: int, column: str, row: str) -> Tile:
        """A block of keys or values as products read it: where it lies, or copied to its tile."""
        heads = self.heads
        if self._lies_ready(name, count):
            place = heads.place(name, f"{self.key_first} + {row}", column)
            return Tile(heads.memory[name], place)
        axes = {"j": count, column: heads.width if name == "key" else heads.values}
        self._fetch(name, axes, self.tiles[name], ("j", column), "j", column)
        return Tile(self.tiles[name], (row, column))

    def _key_block(self, first: str, count: int) -> None:
        """The leaves of one block of keys."""
        self.key_first = first
        writer = self.writer
        key = self._rows("key", count, "e", "j1 + j")
        self._score(count, key)
        rows, block = {"i": self.columns}, {"j": count, "i": self.columns}
        largest, larger, shrink, total = (
            Tile(each, ("i",)) for each in (self.largest, self.larger, self.shrink, self.total)
        )
        scores = Tile(self.scores, ("j", "i"))
        writer.leaf("map", rows, [largest], larger, _same)
        axes = {"i": self.columns, "j": count}
        writer.leaf("reduce", axes, [scores], larger, _maximum, reduce=("j",))
        writer.leaf("map", rows, [largest, larger], shrink, self._power)
        writer.leaf("map", block, [scores, larger], scores, self._power)
        writer.leaf("map", rows, [total, shrink], total, _product)
        writer.leaf("reduce", axes, [scores], total, _sum, reduce=("j",))
        self._weigh(count)
        writer.leaf("map", rows, [larger], largest, _same)

    def _score(self, count: int, key: Tile) -> None:
        """Scores of a block: products of keys and queries, masked."""
        heads, writer = self.heads, self.writer
        step = min(heads.rows, count)
        with (
            writer.loop("j.1", _round_up(count, step), step),
            writer.loop("i.1", self.columns, self.column_tile),
        ):
            tile = {"j": step, "i": self.column_tile}
            held = Tile(writer.buffer("dots", list(tile.values()), heads.wide), ("j", "i"))
            _written_out(writer.fill(held.memory, 0, heads.wide))
            writer.leaf(
                "contract",
                {**tile, "e": heads.width},
                [key, Tile(self.query, ("e", "i1 + i"))],
                held,
                _multiply_add,
                reduce=("e",),
            )
            target = Tile(self.scores, ("j1 + j", "i1 + i"))
            _written_out(writer.leaf("map", tile, [held], target, _same))
        if heads.mask_dtype is None and not heads.causal:
            return
        reads = [Tile(self.scores, ("j", "i"))]
        row, column = f"{self.first} + i", f"{self.key_first} + j"
        if heads.mask_dtype is not None:
            reads.append(Tile(heads.memory["mask"], heads.place("mask", row, column)))
        if heads.causal:
            position = heads.memory["position"]
            reads += [Tile(position, (row,)), Tile(position, (column,))]
        target = Tile(self.scores, ("j", "i"))
        writer.leaf("map", {"j": count, "i": self.count}, reads, target, self._masked)

    def _masked(self, body: Body, score: SSAValue, *others: SSAValue) -> SSAValue:
        heads, rest = self.heads, list(others)
        lowest = body.constant(-math.inf, heads.wide)
        if heads.mask_dtype == BOOL:
            score = body.select(rest.pop(0), score, lowest)
        elif heads.mask_dtype is not None:
            added = cast_scalar(body, rest.pop(0), heads.mask_dtype, heads.wide)
            score = body.add(arith.AddfOp(score, added))
        if heads.causal:
            row, column = rest
            score = body.select(body.compare("sle", column, row), score, lowest)
        return score

    def _power(self, body: Body, score: SSAValue, largest: SSAValue) -> SSAValue:
        """``exp(score - largest)``; 0 where the row has seen no score but -inf."""
        wide = self.heads.wide
        none = body.compare("oeq", largest, body.constant(-math.inf, wide))
        finite = body.select(none, body.constant(0, wide), largest)
        below = arith.SubfOp(score, finite)
        below.attributes[NEVER_POSITIVE] = UnitAttr()
        return body.add(math_dialect.ExpOp(body.add(below)))

    def _weigh(self, count: int) -> None:
        """Add the block's values, each by its weight, to the sums, which are scaled down."""
        writer = self.writer
        value = self._rows("value", count, "v", "j")
        value = Tile(value.memory, [*value.place[:-1], "v1 + v"])
        with (
            writer.loop("i.1", self.rows, self.row_tile),
            writer.loop("v.1", self.values, self.value_tile),
        ):
            tile = {"i": self.row_tile, "v": self.value_tile}
            sums = Tile(self.sums, ("i1 + i", "v1 + v"))
            held = Tile(writer.buffer("held", list(tile.values()), self.heads.wide), ("i", "v"))
            shrink = Tile(self.shrink, ("i1 + i",))
            _written_out(writer.leaf("map", tile, [sums, shrink], held, _product))
            writer.leaf(
                "contract",
                {**tile, "j": count},
                [Tile(self.scores, ("j", "i1 + i")), value],
                held,
                _multiply_add,
                reduce=("j",),
            )
            _written_out(writer.leaf("map", tile, [held], sums, _same))


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step


def _written_out(leaf: ComputeOp) -> None:
    """Let the rows of a register tile have no loop: only then do registers hold it."""
    note_axis_hints(leaf, leaf.axis_names[0], LoopHints(unroll=WHOLE))


def _added(writer: LeafWriter, op: arith.ConstantOp | arith.AddiOp | arith.CmpiOp) -> SSAValue:
    return writer.add(op).results[0]


def _same(body: Body, x: SSAValue) -> SSAValue:
    return x


def _maximum(body: Body, x: SSAValue, held: SSAValue) -> SSAValue:
    # Which zero is the largest of zeros plays no part in the powers of differences.
    return body.add(arith.MaximumfOp(held, x, FastMathFlagsAttr([FastMathFlag.NO_SIGNED_ZEROS])))


def _product(body: Body, x: SSAValue, y: SSAValue) -> SSAValue:
    return body.add(arith.MulfOp(x, y))


def _sum(body: Body, x: SSAValue, held: SSAValue) -> SSAValue:
    return body.add(arith.AddfOp(held, x))


def _multiply_add(body: Body, a: SSAValue, b: SSAValue, held: SSAValue) -> SSAValue:
    return body.add(arith.AddfOp(held, body.add(arith.MulfOp(a, b))))

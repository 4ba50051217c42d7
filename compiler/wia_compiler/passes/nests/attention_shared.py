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
-inf. A part of the keys (``tiles.part``) leaves sums, largest scores and sums of weights instead of
a result (``attention_parts``). Where the target multiplies tiles of the dtype (tensor cores), tiles
keep it and weights are rounded to it; elsewhere tiles are widened, and weights go through shared
memory, since a sum over keys needs those of other threads.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from wia_compiler.passes.nests.attention_heads import Heads
from wia_compiler.passes.nests.attention_scores import Scores, maximum, product, same, total
from wia_compiler.passes.nests.attention_tiles import BlockTiles
from wia_compiler.passes.nests.body import Body
from wia_compiler.passes.nests.leaf_writer import LeafWriter, Tile

SHARED = "shared"
Condition = tuple[str, str, str]


class SharedBlock:
    """A block of ``tiles.queries`` rows of a head from ``first`` on, in loops' variables.

    Its keys begin with ``first_key``; the loop over keys adds to that.
    """

    def __init__(
        self, heads: Heads, writer: LeafWriter, tiles: BlockTiles, first: str, first_key: str = "0"
    ):
        self.heads, self.writer, self.tiles, self.first = heads, writer, tiles, first
        self.first_key = first_key
        self.compute = Scores(heads, tiles)
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

    def write(self) -> None:
        """Walk the keys, and write the result's rows."""
        self._walk()
        heads, writer, tiles = self.heads, self.writer, self.tiles
        axes = {"i": tiles.queries, "v": tiles.values}
        bounds = [(f"{self.first} + i", heads.rows_of_head), ("v", heads.values)]
        place = heads.tile_place("result", f"{self.first} + i", "v")
        target = Tile(heads.memory["result"], place)
        writer.leaf("map", axes, [self.sums, self.total], self.sums, self.compute.quotient)
        writer.leaf("map", axes, [self.sums], target, self.compute.rounded, bounds=bounds)

    def write_part(self, sums: Tile, largest: Tile, totals: Tile) -> None:
        """Walk the part's keys, and write what is known of each row ``i`` then.

        That is its sums, the largest score they are relative to, and its sum of weights.
        """
        self._walk()
        heads, writer, tiles = self.heads, self.writer, self.tiles
        rows = {"i": tiles.queries}
        bounds = [(f"{self.first} + i", heads.rows_of_head)]
        wide = [*bounds, ("v", heads.values)]
        writer.leaf("map", {**rows, "v": tiles.values}, [self.sums], sums, same, bounds=wide)
        writer.leaf("map", rows, [self.largest], largest, same, bounds=bounds)
        writer.leaf("map", rows, [self.total], totals, same, bounds=bounds)

    def _walk(self) -> None:
        """Fetch the queries and go past all keys of the block."""
        heads, writer, tiles, wide = self.heads, self.writer, self.tiles, self.heads.wide
        self._fetch("query", self.query, self.first)
        if self.held is not None:
            axes = {"i": tiles.queries, "e": tiles.width}
            read, held = Tile(self.query, ("i", "e")), Tile(self.held, ("i", "e"))
            writer.leaf("map", axes, [read], held, same)
        if tiles.stages > 1:
            self._fetch("key", self.key, self.first_key)
        writer.fill(self.largest.memory, -math.inf, wide)
        for each in (self.total, self.sums):
            writer.fill(each.memory, 0, wide)
        if tiles.part is not None:
            first = f"{self.first_key} + j0"
            with writer.loop("j.0", tiles.part, tiles.keys), writer.where(*self._seen(first)):
                self._key_block(first, is_last=False)
            return
        whole = heads.seen_keys - heads.seen_keys % tiles.keys
        if whole:
            with writer.loop("j.0", whole, tiles.keys), writer.where(*self._seen("j0")):
                self._key_block("j0", is_last=False)
        if whole < heads.seen_keys:
            with writer.where(*self._seen(str(whole))):
                self._key_block(str(whole), is_last=True)

    def _seen(self, first_key: str) -> Sequence[Condition]:
        """When any row of the block sees a block of keys; empty where that is always so."""
        if self.tiles.part is not None and self.heads.seen_keys % self.tiles.part:
            return [(first_key, "slt", str(self.heads.seen_keys))]
        if not self.heads.causal or self.heads.joined > 1 or first_key == "0":
            return []
        return [(first_key, "sle", f"{self.first} + {self.tiles.queries - 1}")]

    def _is_more(self, first: str) -> Sequence[Condition]:
        """When the block walks the next keys too; empty where a fetch of them does no harm.

        Past the end of an array a copy reads nothing.
        """
        after = f"{first} + {self.tiles.keys}"
        if self.tiles.part is not None:
            return [(f"j0 + {self.tiles.keys}", "slt", str(self.tiles.part))]
        return self._seen(after)

    def _fetch(self, name: str, tile: SSAValue, first: str) -> None:
        """Copy a block of an operand, from row ``first`` on, to its tile; 0 past its ends."""
        heads, tiles = self.heads, self.tiles
        rows = tiles.queries if name == "query" else tiles.keys
        column = "v" if name == "value" else "e"
        axes = {"i" if name == "query" else "j": rows}
        (row,) = axes
        axes[column] = tiles.values if name == "value" else tiles.width
        place = heads.tile_place(name, f"{first} + {row}", column)
        source = Tile(heads.memory[name], place, padded=True)
        plain = heads.dtype == tiles.dtype
        compute = same if plain else self.compute.widened
        self.writer.leaf(
            "copy" if plain else "map", axes, [source], Tile(tile, (row, column)), compute
        )

    def _key_block(self, first: str, *, is_last: bool) -> None:
        """The leaves of one block of keys; the last one may end before its tile does."""
        heads, writer, tiles, compute = self.heads, self.writer, self.tiles, self.compute
        rows, block = {"i": tiles.queries}, {"i": tiles.queries, "j": tiles.keys}
        largest, larger, shrink, weights_sum = self.largest, self.larger, self.shrink, self.total
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
            compute.multiply_add,
            reduce=("e",),
        )
        if not is_ahead:
            self._fetch("value", self.value, first)
        elif not is_last:
            with writer.where(*self._is_more(first)):
                self._fetch("key", self.key, f"{first} + {tiles.keys}")
        self._mask(first, is_last=is_last)
        writer.leaf("map", rows, [largest], larger, same)
        writer.leaf("reduce", block, [scores], larger, maximum, reduce=("j",))
        writer.leaf("map", rows, [largest, larger], shrink, compute.power)
        writer.leaf("map", block, [scores, larger], scores, compute.power)
        writer.leaf("map", rows, [weights_sum, shrink], weights_sum, product)
        writer.leaf("reduce", block, [scores], weights_sum, total, reduce=("j",))
        writer.leaf("map", block, [scores], weights, compute.narrowed)
        axes = {"i": tiles.queries, "v": tiles.values}
        writer.leaf("map", axes, [sums, shrink], sums, product)
        writer.leaf(
            "contract",
            {**axes, "j": tiles.keys},
            [weights, Tile(self.value, ("j", "v"))],
            sums,
            compute.multiply_add,
            reduce=("j",),
        )
        writer.leaf("map", rows, [larger], largest, same)

    def _mask(self, first: str, *, is_last: bool) -> None:
        """Scores scaled where that is not done later, masked, and -inf past the last key.

        Where nothing but the diagonal or the end of the keys masks scores, only in the blocks that
        it goes through.
        """
        heads, tiles, writer = self.heads, self.tiles, self.writer
        ends = is_last or (tiles.part is not None and heads.seen_keys % tiles.keys > 0)
        last_key = heads.seen_keys if ends else None
        always = self.compute.scales_first or heads.mask_dtype is not None or is_last
        always = always or (heads.causal and heads.joined > 1)
        where: list[Condition] = []
        if ends and not always:
            where.append((f"{first} + {tiles.keys}", "sgt", str(heads.seen_keys)))
        if heads.causal and not always:
            where.append((f"{first} + {tiles.keys - 1}", "sgt", self.first))
        if not always and not where:
            return
        row, column = f"{self.first} + i", f"{first} + j"
        reads = [self.scores]
        if heads.mask_dtype is not None:
            reads.append(Tile(heads.memory["mask"], heads.place("mask", row, column), padded=True))
        mask_count = len(reads) - 1
        if ends or heads.causal:
            position = heads.memory["position"]
            query = row if heads.joined == 1 else f"({row}) % {heads.queries}"
            reads += [Tile(position, (query,)), Tile(position, (column,))]

        def masked(body: Body, score: SSAValue, *others: SSAValue) -> SSAValue:
            given, place = others[:mask_count], others[mask_count:]
            return self.compute.masked(body, score, given, place, last_key, heads.causal)

        axes = {"i": tiles.queries, "j": tiles.keys}
        with writer.where(*where):
            writer.leaf("map", axes, reads, self.scores, masked)

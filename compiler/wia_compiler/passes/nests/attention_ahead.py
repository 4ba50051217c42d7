"""An attention block whose products run beside the arithmetic of its weights.

Products that are started and waited for later (those of warpgroups) need something to do meanwhile:
the scores of a block of keys are made before the weighted values of the block before it are added
up, so that weights are worked out of the one while the other goes on. This is the order of
FlashAttention-3 (Shah et al. 2024)::

    scores = query_tile key_tile[0];  weights of scores
    for j.0 in S - 64 step 64
      contract scores = query_tile key_tile[j + 1]           both started;
      contract sums += weights value_tile[j]                 this one runs on
      masks, larger, shrink, total;  scores = 2 ** (…)       while these are made
      map sums *= shrink;  weights = scores, rounded
    contract sums += weights value_tile[last]
"""

from __future__ import annotations

import math
from dataclasses import replace

from wia_compiler.passes.nests.attention_heads import Heads
from wia_compiler.passes.nests.attention_scores import maximum, product, same, total
from wia_compiler.passes.nests.attention_shared import SharedBlock
from wia_compiler.passes.nests.attention_tiles import BlockTiles
from wia_compiler.passes.nests.leaf_writer import LeafWriter, Tile


class AheadBlock(SharedBlock):
    """A block of queries from ``first`` that goes past all keys; copies stand where tiles are used.

    The last keys are masked in the same code as others: there is one loop.
    """

    def __init__(self, heads: Heads, writer: LeafWriter, tiles: BlockTiles, first: str):
        super().__init__(heads, writer, replace(tiles, stages=1, part=heads.seen_keys), first)

    def _walk(self) -> None:
        heads, writer, tiles, wide = self.heads, self.writer, self.tiles, self.heads.wide
        keys = tiles.keys
        last = (heads.seen_keys - 1) // keys * keys
        self._fetch("query", self.query, self.first)
        writer.fill(self.largest.memory, -math.inf, wide)
        for each in (self.total, self.sums):
            writer.fill(each.memory, 0, wide)
        self._make_scores("0")
        self._make_weights("0")
        if last:
            after = f"j0 + {keys}"
            with writer.loop("j.0", last, keys), writer.where(*self._seen(after)):
                self._make_scores(after)
                self._add_values("j0")
                self._make_weights(after)
        self._add_last_values(last)

    def _make_scores(self, first: str) -> None:
        """Start the scores of the keys from ``first`` on."""
        tiles, writer = self.tiles, self.writer
        self._fetch("key", self.key, first)
        writer.fill(self.scores.memory, 0, self.heads.wide)
        writer.leaf(
            "contract",
            {"i": tiles.queries, "j": tiles.keys, "e": tiles.width},
            [Tile(self.query, ("i", "e")), Tile(self.key, ("j", "e"))],
            self.scores,
            self.compute.multiply_add,
            reduce=("e",),
        )

    def _make_weights(self, first: str) -> None:
        """Weights of scores; sums so far are scaled down to what is the largest one now."""
        tiles, writer, compute = self.tiles, self.writer, self.compute
        rows, block = {"i": tiles.queries}, {"i": tiles.queries, "j": tiles.keys}
        largest, larger, shrink, weights_sum = self.largest, self.larger, self.shrink, self.total
        scores, sums = self.scores, self.sums
        self._mask(first, is_last=False)
        writer.leaf("map", rows, [largest], larger, same)
        writer.leaf("reduce", block, [scores], larger, maximum, reduce=("j",))
        writer.leaf("map", rows, [largest, larger], shrink, compute.power)
        writer.leaf("map", block, [scores, larger], scores, compute.power)
        writer.leaf("map", rows, [weights_sum, shrink], weights_sum, product)
        writer.leaf("reduce", block, [scores], weights_sum, total, reduce=("j",))
        if first != "0":
            writer.leaf("map", {**rows, "v": tiles.values}, [sums, shrink], sums, product)
        writer.leaf("map", block, [scores], self.weights, compute.narrowed)
        writer.leaf("map", rows, [larger], largest, same)

    def _add_values(self, first: str) -> None:
        """Start adding the weighted values of the keys from ``first`` on."""
        tiles = self.tiles
        self._fetch("value", self.value, first)
        self.writer.leaf(
            "contract",
            {"i": tiles.queries, "v": tiles.values, "j": tiles.keys},
            [self.weights, Tile(self.value, ("j", "v"))],
            self.sums,
            self.compute.multiply_add,
            reduce=("j",),
        )

    def _add_last_values(self, last: int) -> None:
        """The values of the last keys that the block sees: with causal, those of its diagonal."""
        heads, tiles, writer = self.heads, self.tiles, self.writer
        if not heads.causal or not last:
            self._add_values(str(last))
            return
        seen = f"{self.first} + {tiles.queries - 1}"
        diagonal = f"({seen}) // {tiles.keys} * {tiles.keys}"
        rounded = -(-heads.queries // tiles.queries) * tiles.queries
        if rounded <= last + tiles.keys:
            self._add_values(diagonal)
            return
        with writer.where((seen, "slt", str(last))):
            self._add_values(diagonal)
        with writer.where((seen, "sge", str(last))):
            self._add_values(str(last))

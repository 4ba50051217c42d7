"""Attention as one nest: blocks of queries past blocks of keys, with a running softmax.

For each block of query rows the keys and values are walked once, in blocks. A row keeps the
largest score so far, the sum of its weights relative to that, and the sum of weighted values; a
block with a larger score scales both down (online softmax, Milakov and Gimelshein 2018; the blocks
are those of FlashAttention, Dao et al. 2022). No matrix of scores exists in memory: queries, keys
and values are read once for each block of rows, and the result is written once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, StringAttr, UnitAttr
from xdsl.ir import Attribute, Block, Region, SSAValue

from wia_compiler.base.schedule import Schedule
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.decomposing.kept import is_kept_whole
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.nests.attention_ahead import AheadBlock
from wia_compiler.passes.nests.attention_block import QueryBlock
from wia_compiler.passes.nests.attention_heads import Heads
from wia_compiler.passes.nests.attention_parts import Allocate, JoinNest, PartNest, plan_parts
from wia_compiler.passes.nests.attention_shared import SharedBlock
from wia_compiler.passes.nests.attention_tiles import BlockTiles, block_tiles, few_query_tiles
from wia_compiler.passes.nests.attention_warpgroups import (
    WARPGROUPS,
    NoWarpgroups,
    WarpgroupTiles,
    warpgroup_tiles,
)
from wia_compiler.passes.nests.leaf_writer import LeafWriter
from wia_compiler.passes.nests.plan import Group
from wia_compiler.passes.nests.views import View
from wia_compiler.passes.nests.writer import NEST, SCHEDULED
from wia_compiler.passes.nests.written_tiles import STAGES, asked_tiles, note_tiles

TILES: Mapping[str, int] = {"query": 64, "key": 64}
"""Queries and keys of a block. Each key and value is fetched once for so many queries; with heads
64 wide, the tiles of queries, scores and sums take 48 KiB in f32, at home in a second cache."""


@dataclass(frozen=True)
class AttentionNest:
    """One call of ``attention`` as a nest over ``arrays`` (query, key, value, mask; result).

    ``schedules`` may name other ``tile query N, key M``.
    """

    op: TensorOp
    arrays: Sequence[View]
    facts: TargetFacts
    schedules: Sequence[Schedule] = ()

    def function(self, name: str) -> func.FuncOp:
        """The nest as ``func.func @name``."""
        block = Block(arg_types=[array.type for array in self.arrays])
        for argument, array in zip(block.args, self.arrays, strict=True):
            argument.name_hint = array.value.name_hint
        location = merge_locations([self.op])
        asked = asked_tiles(self.schedules, name, TILES)
        warpgroups: Attribute | None = None
        if self.facts.keeps_tiles:
            tiles, stages = {**TILES, **asked}, {}
            self._write(block, tiles)
        else:
            stages = asked_tiles(self.schedules, name, ("key",), "pipeline")
            shared, warpgroups = self._shared_tiles(block, asked, stages.get("key"))
            tiles = {"query": shared.queries, "key": shared.keys}
            stages = {"key": shared.stages}
            self._write_shared(block, shared)
        last = func.ReturnOp()
        last.location = location
        block.add_op(last)
        type = FunctionType.from_lists([array.type for array in self.arrays], [])
        made = func.FuncOp(name, type, Region(block))
        made.attributes[NEST] = UnitAttr()
        made.attributes[SCHEDULED] = UnitAttr()
        if warpgroups is not None:
            made.attributes[WARPGROUPS] = warpgroups
        note_tiles(made, tiles)
        if stages:
            note_tiles(made, stages, STAGES)
        made.location = location
        return made

    def _shared_tiles(
        self, block: Block, asked: Mapping[str, int], stages: int | None
    ) -> tuple[BlockTiles, Attribute | None]:
        """Tiles for warpgroups where the target has products of them, else for warps or threads.

        The second is what the nest notes of it (``WARPGROUPS``).
        """
        note: Attribute | None = None
        if self.facts.warpgroup_products:
            arrays = dict(zip([*self.op.given, "result"], block.args, strict=True))
            try:
                tiles = warpgroup_tiles(self.op, arrays, self.facts, asked, stages)
            except NoWarpgroups as why:
                note = StringAttr(str(why))
            else:
                return tiles, UnitAttr()
        tiles = block_tiles(self.op, self.facts, asked)
        return replace(tiles, stages=stages or tiles.stages), note

    def _write(self, block: Block, tiles: Mapping[str, int]) -> None:
        """Loops over heads, then over blocks of queries: whole ones, and what is left."""
        writer = LeafWriter(block, merge_locations([self.op]))
        heads = self._heads(block, tiles["key"])
        rows = tiles["query"]
        if heads.causal:
            self._add_positions(writer, heads, max(heads.queries, heads.keys))
        with ExitStack() as loops:
            for axis, size in heads.loops():
                loops.enter_context(writer.loop(axis, size))
            whole = heads.queries - heads.queries % rows
            if whole:
                with writer.loop("i.0", whole, rows):
                    QueryBlock(heads, writer, rows, "i0").write()
            if whole < heads.queries:
                QueryBlock(heads, writer, heads.queries - whole, str(whole)).write()

    def _write_shared(self, block: Block, tiles: BlockTiles) -> None:
        """Loops over heads and blocks of queries, all of one size: threads share its tiles."""
        writer = LeafWriter(block, merge_locations([self.op]))
        heads = self._heads(block, tiles.keys)
        if heads.causal or heads.keys % tiles.keys:
            last = _round_up(heads.queries, tiles.queries), _round_up(heads.keys, tiles.keys)
            self._add_positions(writer, heads, max(last))
        with ExitStack() as loops:
            for axis, size in heads.loops():
                loops.enter_context(writer.loop(axis, size))
            loops.enter_context(writer.loop("i.0", heads.queries, tiles.queries))
            first = "i0"
            if isinstance(tiles, WarpgroupTiles):
                AheadBlock(heads, writer, tiles, first).write()
                return
            if heads.causal and heads.queries > tiles.queries:
                # Late queries see most keys: their blocks come first, short ones fill the end.
                first = f"{_round_up(heads.queries, tiles.queries) - tiles.queries} - i0"
            SharedBlock(heads, writer, tiles, first).write()

    def _heads(self, block: Block, key_rows: int) -> Heads:
        names = [*self.op.given, "result"]
        memory: dict[str, SSAValue] = dict(zip(names, block.args, strict=True))
        shapes = {name: array.shape for name, array in zip(names, self.arrays, strict=True)}
        return Heads(self.op, memory, shapes, self.facts, key_rows)

    def _add_positions(self, writer: LeafWriter, heads: Heads, size: int) -> None:
        positions = PositionsOp(size)
        positions.memref.name_hint = "position"
        writer.add(positions)
        heads.memory["position"] = positions.memref


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step


def plan_attention(
    group: Group,
    facts: TargetFacts,
    schedules: Sequence[Schedule] = (),
    allocate: Allocate | None = None,
) -> Sequence[AttentionNest | PartNest | JoinNest]:
    """The nests of a group that is one ``attention`` of arrays; none for another group.

    ``schedules`` are the user's: one of them may say how large its tiles are. ``allocate`` makes
    what lies between nests; without it there is one.
    """
    ops = [op for op in group.ops if isinstance(op, TensorOp)]
    if len(ops) != 1 or not is_kept_whole(ops[0], facts):
        return ()
    (op,), (result,) = ops, group.results
    arrays = [group.arrays.get(value) for value in op.arguments]
    known = [array for array in arrays if array is not None]
    if len(known) < len(arrays):
        return ()
    if allocate is not None and not facts.keeps_tiles:
        joined, tiles = few_query_tiles(op, facts, schedules, group.name)
        if tiles is not None:
            return plan_parts(op, known, result.target, facts, tiles, joined, allocate)
    return [AttentionNest(op, [*known, result.target], facts, schedules)]

"""Attention of few queries and many keys: parts of the keys for all processors, then one result.

A block walks a part of a head's keys for all queries that share them, and leaves of each row its
weighted sum, its largest score and its sum of weights. A second nest joins the parts, always in the
same order (flash-decoding, Dao, Haziza, Massa and Sizov 2023)::

    for h.0 in heads of keys, s.0 in parts, i.0 in rows step 16       for h.0, i.0 in rows, v.0
      … the keys of part s.0, as one block walks them all         →     m = max over s of largest
      sums[h, s, i, v], largest[h, s, i], totals[h, s, i]               w = 2 ** (largest[s] - m)
                                                                       Σ w * sums / Σ w * totals

Rows are the queries of all heads that share a head of keys and values (``Heads.joined``), so that
keys are read once for them. One part needs no second nest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, LocationAttr, UnitAttr
from xdsl.ir import Block, Region, SSAValue

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.nests.attention_heads import Heads
from wia_compiler.passes.nests.attention_scores import Scores, maximum
from wia_compiler.passes.nests.attention_shared import SharedBlock
from wia_compiler.passes.nests.attention_tiles import BlockTiles
from wia_compiler.passes.nests.body import Body
from wia_compiler.passes.nests.leaf_writer import LeafWriter, Place, Tile
from wia_compiler.passes.nests.views import View
from wia_compiler.passes.nests.writer import NEST, SCHEDULED
from wia_compiler.passes.nests.written_tiles import PARTS, STAGES, note_tiles

Allocate = Callable[[str, Sequence[int], DType, LocationAttr], View]
"""Makes an array of a name, sizes and dtype that one nest leaves to another, for ops somewhere."""


@dataclass(frozen=True)
class _Attention:
    """One ``attention`` of ``given`` arrays (query, key, value, mask) whose heads are joined."""

    op: TensorOp
    given: Sequence[View]
    result: View
    facts: TargetFacts
    tiles: BlockTiles
    joined: int
    between: tuple[View, ...]
    """Sums, largest scores and sums of weights of each part; nothing where there is one."""

    def heads(self, memory: dict[str, SSAValue]) -> Heads:
        """The operands, of which ``memory`` has those that a nest touches."""
        names = [*self.op.given, "result"]
        arrays = dict(zip(names, [*self.given, self.result], strict=True))
        shapes = {name: array.shape for name, array in arrays.items()}
        return Heads(self.op, memory, shapes, self.facts, self.tiles.keys, self.joined)

    def parts(self, heads: Heads) -> int:
        """How many parts the keys are walked in."""
        return 1 if self.tiles.part is None else -(-heads.seen_keys // self.tiles.part)


@dataclass(frozen=True)
class PartNest(_Attention):
    """The nest that walks the keys."""

    @property
    def arrays(self) -> Sequence[View]:
        """What it reads, then what it writes."""
        return [*self.given, *(self.between or (self.result,))]

    def function(self, name: str) -> func.FuncOp:
        """The nest as ``func.func @name``."""
        block = _block(self.arrays)
        memory = dict(zip(self.op.given, block.args, strict=False))
        heads = self.heads({**memory, "result": block.args[-1]})
        tiles = self.tiles
        writer = LeafWriter(block, merge_locations([self.op]))
        if heads.causal or heads.seen_keys % (tiles.part or tiles.keys):
            last = _round_up(heads.seen_keys, tiles.part or tiles.keys)
            positions = PositionsOp(max(last, _round_up(heads.rows_of_head, tiles.queries)))
            positions.memref.name_hint = "position"
            heads.memory["position"] = writer.add(positions).results[0]
        with ExitStack() as loops:
            for axis, size in heads.loops():
                loops.enter_context(writer.loop(axis, size))
            parts = self.parts(heads)
            first_key = "0"
            if parts > 1:
                loops.enter_context(writer.loop("s.0", parts))
                first_key = f"s0 * {tiles.part}"
            loops.enter_context(writer.loop("i.0", heads.rows_of_head, tiles.queries))
            walked = SharedBlock(heads, writer, tiles, "i0", first_key)
            if parts > 1:
                walked.write_part(*_part_tiles(heads, block.args[-3:], "s0", "i0 + i", "v"))
            else:
                walked.write()
        made = _function(name, block, self.op)
        note_tiles(made, {"query": tiles.queries, "key": tiles.keys})
        note_tiles(made, {"key": tiles.stages}, STAGES)
        if tiles.part is not None:
            note_tiles(made, {"key": tiles.part}, PARTS)
        return made


@dataclass(frozen=True)
class JoinNest(_Attention):
    """The nest that makes a result of parts: a thread for each element of it."""

    @property
    def arrays(self) -> Sequence[View]:
        """What it reads, then what it writes."""
        return [*self.between, self.result]

    def function(self, name: str) -> func.FuncOp:
        """The nest as a function beside ``@name``."""
        block = _block(self.arrays)
        heads = self.heads({"result": block.args[-1]})
        writer = LeafWriter(block, merge_locations([self.op]))
        with ExitStack() as loops:
            for axis, size in (*heads.loops(), ("i.0", heads.rows_of_head), ("v.0", heads.values)):
                if size > 1:
                    loops.enter_context(writer.loop(axis, size))
            self._write(heads, writer, block.args[:3])
        made = _function(f"{name}_join", block, self.op)
        note_tiles(made, {"parts": self.parts(heads)}, PARTS)
        return made

    def _write(self, heads: Heads, writer: LeafWriter, between: Sequence[SSAValue]) -> None:
        compute, wide = Scores(heads, self.tiles), heads.wide
        row = "i0" if "i0" in writer.loops else "0"
        column = "v0" if "v0" in writer.loops else "0"
        sums, largest, totals = _part_tiles(heads, between, "s", row, column)
        most, weights, total = (
            Tile(writer.buffer(each, [1], wide), (0,)) for each in ("most", "weights", "total")
        )
        writer.fill(most.memory, -math.inf, wide)
        for each in (weights, total):
            writer.fill(each.memory, 0, wide)
        parts = {"s": self.parts(heads)}

        def add(body: Body, x: SSAValue, own: SSAValue, all_: SSAValue, held: SSAValue) -> SSAValue:
            return compute.weighted(body, x, compute.power(body, own, all_), held)

        writer.leaf("reduce", parts, [largest], most, maximum, reduce=("s",))
        for each, into in ((totals, weights), (sums, total)):
            writer.leaf("reduce", parts, [each, largest, most], into, add, reduce=("s",))
        target = Tile(heads.memory["result"], heads.tile_place("result", row, column))

        def result(body: Body, x: SSAValue, y: SSAValue) -> SSAValue:
            return compute.rounded(body, compute.quotient(body, x, y))

        writer.leaf("map", {"i": 1}, [total, weights], target, result)


def plan_parts(
    op: TensorOp,
    given: Sequence[View],
    result: View,
    facts: TargetFacts,
    tiles: BlockTiles,
    joined: int,
    allocate: Allocate,
) -> Sequence[PartNest | JoinNest]:
    """The nests of an ``attention``, with what lies between them."""
    plan = _Attention(op, given, result, facts, tiles, joined, ())
    heads = plan.heads({})
    count = plan.parts(heads)
    if count == 1:
        return [PartNest(op, given, result, facts, tiles, joined, ())]
    wide = DTYPES[spec_of(op.arguments[0].type).dtype.accumulator]
    sizes = [*(size for _, size in heads.loops()), count, heads.rows_of_head]
    at = merge_locations([op])
    between = (
        allocate("sums", [*sizes, heads.values], wide, at),
        allocate("largest", sizes, wide, at),
        allocate("totals", sizes, wide, at),
    )
    first = PartNest(op, given, result, facts, tiles, joined, between)
    return [first, JoinNest(op, given, result, facts, tiles, joined, between)]


def _part_tiles(
    heads: Heads, memory: Sequence[SSAValue], part: str, row: str, column: str
) -> tuple[Tile, Tile, Tile]:
    """Sums, largest scores and sums of weights of a part, where a nest has them."""
    place: Place = [*(axis.replace(".", "") for axis, _ in heads.loops()), part, row]
    sums, largest, totals = memory
    return Tile(sums, [*place, column]), Tile(largest, place), Tile(totals, place)


def _block(arrays: Sequence[View]) -> Block:
    block = Block(arg_types=[array.type for array in arrays])
    for argument, array in zip(block.args, arrays, strict=True):
        argument.name_hint = array.value.name_hint
    return block


def _function(name: str, block: Block, op: TensorOp) -> func.FuncOp:
    last = func.ReturnOp()
    last.location = merge_locations([op])
    block.add_op(last)
    type = FunctionType.from_lists([argument.type for argument in block.args], [])
    made = func.FuncOp(name, type, Region(block))
    made.attributes[NEST] = UnitAttr()
    made.attributes[SCHEDULED] = UnitAttr()
    made.location = last.location
    return made


def _round_up(count: int, step: int) -> int:
    return -(-count // step) * step

"""How large the tiles of an attention are where the threads of a block share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.base.schedule import Schedule
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.nests.attention_heads import joined_heads
from wia_compiler.passes.nests.written_tiles import asked_tiles

PART_WARPS: Final = 4
"""Warps of a processor that walk parts: one for each of its schedulers."""
LEAST_TURNS: Final = 2
"""Blocks of keys in a part: some are on their way while others are worked on."""
LEAST_SAVED: Final = 2
"""What parts have to save, in launches: the one that joins them, and as much for a model's sake."""
SUM_BYTES: Final = 4
STEP: Final = 16
"""Rows and columns of tiles are multiples of it: those of the fragments of ``mma.m16n8k16``."""
LARGEST_WIDTH: Final = 256
"""A row of sums that a warp keeps in registers: 16 of them take 128 a thread."""
NARROW: Final = 64
LEAST: Final = 64
"""Queries of a block of 4 warps: with fewer, keys would be read for little work."""
WIDE: Final = 128
WIDEST: Final = 192
"""Sums of longer rows leave a thread no registers for keys on their way, or for many scores."""
_PRODUCTS: Final = ((128, 64), (128, 32), (64, 64), (64, 32), (64, 16), (32, 32), (16, 16))
"""Queries and keys of a block on tensor cores, the best first: 128 × 64 is FlashAttention-2's tile
for heads of 128 on sm_80; larger ones of sm_90 are those of its own instructions."""
_SUMS: Final = ((64, 64), (64, 32), (32, 32), (32, 16), (16, 16))
"""The same without: 256 threads of 4 × 4 scores, fewer where heads are wide."""


@dataclass(frozen=True)
class BlockTiles:
    """Tiles of one block: ``queries`` × ``width``, ``keys`` × ``width``, ``keys`` × ``values``.

    ``dtype`` is that of their elements; ``has_products``: tiles of it are multiplied by
    instructions of their own. With 2 ``stages`` the next keys are on their way while the weights of
    these are worked on, and values while scores are; with 1, both are fetched where they are used.
    ``part``: so many keys are walked by a block, the next ones by another; ``None``: all by one.
    """

    queries: int
    keys: int
    width: int
    values: int
    dtype: DType
    has_products: bool
    stages: int = 2
    part: int | None = None

    @property
    def holds_queries(self) -> bool:
        """Whether registers have room for queries beside sums, so that each turn reads keys alone.

        Narrower heads have two tiles of rows a warp there, wider ones longer rows of sums.
        """
        return self.has_products and NARROW < self.width <= WIDE and self.values <= WIDE

    @property
    def padding(self) -> int:
        """Elements that a row of queries or keys has beside its own in shared memory.

        Without products of tiles, threads read 16 bytes of 8 rows at a time: those then lie in
        32 banks.
        """
        return 0 if self.has_products else 4

    @property
    def weights_padding(self) -> int:
        """The same of a row of weights: of two rows, written at once, the banks are others.

        A thread has a sixteenth of the rows, and half of a warp has the next thread's.
        """
        if self.has_products:
            return 0
        between = self.queries // 16
        return -(between * self.keys - 16) // between % (32 // between)

    @property
    def shared_bytes(self) -> int:
        """What they take of a block's shared memory."""
        elements = (self.queries + self.keys) * (self.width + self.padding)
        elements += self.keys * self.values
        if not self.has_products:
            elements += self.queries * (self.keys + self.weights_padding)
        return elements * self.dtype.size_bytes


def block_tiles(
    op: TensorOp, facts: TargetFacts, asked: Mapping[str, int] | None = None, joined: int = 1
) -> BlockTiles:
    """The tiles of an ``attention``, or those ``asked`` for.

    They are the first of the table that fit, or others of as many keys that share the queries out
    more evenly among processors. The queries of ``joined`` heads are rows of the same tiles.

    ``ValueError`` says why there are none.
    """
    queries, width = spec_of(op.arguments[0].type).shape[-2:]
    queries *= joined
    keys, values = spec_of(op.arguments[2].type).shape[-2:]
    dtype = spec_of(op.arguments[0].type).dtype
    wide = DTYPES[dtype.accumulator]
    if wide.name != "f32":
        raise ValueError(f"{dtype} has few units and takes twice the registers: its steps are run")
    if max(width, values) > LARGEST_WIDTH:
        raise ValueError(
            f"a head is {max(width, values)} wide, registers hold sums of {LARGEST_WIDTH} a row"
        )
    has_products = dtype.name in facts.tile_products
    if has_products:
        sides = (_row_of(width), _row_of(values), dtype, True)
    else:
        sides = (_round_up(width, 2 * STEP), _round_up(values), wide, False)
    if asked:
        default = _PRODUCTS[0] if has_products else _SUMS[0]
        return BlockTiles(asked.get("query", default[0]), asked.get("key", default[1]), *sides)
    seen: list[int] = []
    found: list[BlockTiles] = []
    for rows, columns in _PRODUCTS if has_products else _SUMS:
        most = _most_keys(sides[1], facts)
        if not facts.copies_alone and sides[1] > NARROW and queries < LEAST:
            most = STEP  # a few warps carry all of a tile through registers
        if has_products and columns > most:
            continue
        tiles = BlockTiles(min(rows, _halved(queries)), min(columns, _halved(keys)), *sides)
        if tiles.shared_bytes <= facts.shared_bytes:
            found.append(tiles)
        seen.append(tiles.shared_bytes)
    if found:
        heads = prod(op.result_spec.shape[:-2]) // joined
        alike = [each for each in found if each.keys == found[0].keys and each.queries >= LEAST]
        return min(alike or found[:1], key=lambda each: _busiest(each, heads, queries, facts))
    raise ValueError(
        f"its tiles take at least {min(seen)} bytes of shared memory, a block has "
        f"{facts.shared_bytes}"
    )


def few_query_tiles(
    op: TensorOp, facts: TargetFacts, schedules: Sequence[Schedule], nest: str
) -> tuple[int, BlockTiles | None]:
    """How many heads are joined, and tiles for that, or with parts of the keys.

    No tiles where neither pays: a head's queries fill tiles, and blocks half of the processors, or
    warpgroups multiply them, of which one is worth several of these blocks.
    """
    joined = joined_heads(op, LEAST)
    own = [each for each in schedules if each.nest in (None, nest) and each.directives]
    asked = asked_tiles(own, nest, ("query", "key"))
    tiles = block_tiles(op, facts, asked, joined)
    stages = asked_tiles(own, nest, ("key",), "pipeline").get("key", tiles.stages)
    queries, keys = (spec_of(op.arguments[n].type).shape[-2] for n in (0, 1))
    if op.values["causal"]:
        keys = min(queries, keys)
    part = asked_tiles(own, nest, ("key",), "parallel").get("key")
    if not own:
        blocks = prod(op.result_spec.shape[:-2]) // joined * -(-queries * joined // tiles.queries)
        by_warpgroups = tiles.dtype.name in facts.warpgroup_products and queries >= LEAST
        if 2 * blocks <= facts.parallel_rows and not by_warpgroups:
            part = _part_of(tiles, blocks, keys, queries * joined, facts)
    if part is not None and part >= keys:
        part = None
    if joined == 1 and part is None:
        return 1, None
    return joined, replace(tiles, stages=stages, part=part)


def _part_of(
    tiles: BlockTiles, blocks: int, keys: int, rows: int, facts: TargetFacts
) -> int | None:
    """Keys of a part that are walked in the least time; ``None`` for all of them.

    Time is counted in bytes that all of memory's bandwidth could bring: a block that walks keys
    gets the share of one processor's blocks of it. Parts cost a launch, and what they leave.
    """
    turns = -(-keys // tiles.keys)
    turn_bytes = tiles.keys * (tiles.width + tiles.values) * tiles.dtype.size_bytes
    fitting = min(PART_WARPS * STEP // tiles.queries, facts.shared_bytes // tiles.shared_bytes)
    slots = facts.parallel_rows * max(1, fitting)
    alone = -(-blocks // slots) * turns * turn_bytes * slots
    best, least = None, alone - LEAST_SAVED * facts.launch_cost_bytes
    for part in range(LEAST_TURNS, turns):
        parts = -(-turns // part)
        left = 2 * blocks * parts * min(rows, tiles.queries) * tiles.values * SUM_BYTES
        cost = -(-blocks * parts // slots) * part * turn_bytes * slots + left
        if cost < least:
            best, least = part * tiles.keys, cost
    return best


def _busiest(tiles: BlockTiles, heads: int, queries: int, facts: TargetFacts) -> int:
    """Queries of the processor that has most of them: large blocks may leave others idle."""
    blocks = heads * -(-queries // tiles.queries)
    return -(-blocks // facts.parallel_rows) * tiles.queries


def _most_keys(values: int, facts: TargetFacts) -> int:
    """Keys of a tile whose scores fit beside the sums of rows of ``values``."""
    if values > WIDE and not facts.copies_alone:
        return STEP
    return 2 * STEP if values > WIDEST else 4 * STEP


def _halved(size: int) -> int:
    """The smallest 16 · 2^n that holds ``size``."""
    return STEP << max(-(-size // STEP) - 1, 0).bit_length()


def _row_of(width: int) -> int:
    """Elements of a row of 16-bit elements whose chunks can change places: 2^n or lines of 128."""
    return next((size for size in (16, 32) if width <= size), _round_up(width, 64))


def _round_up(size: int, step: int = STEP) -> int:
    return -(-size // step) * step

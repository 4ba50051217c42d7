"""Tiles of an attention whose products are those of warpgroups: 64 rows each, from shared memory.

Copies bring boxes of an array on their own, 0 past its ends, in rows of 128 bytes (*panels* of a
tile), so that an array has to be dense, and its rows a multiple of 16 bytes apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final, cast

from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import Attribute, SSAValue

from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.nests.attention_tiles import BlockTiles

WARPGROUPS: Final = "wia.warpgroups"
"""Attribute of a nest: its products are those of warpgroups; a text says why they are not."""
GROUP_ROWS: Final = 64
GROUP_TURNS: Final = {1: 1.3, 2: 1.0, 3: 0.97}
"""Time of a row of queries with so many warpgroups, relative to two: one alone cannot multiply
while it makes weights. An estimate."""
PANEL: Final = 64
"""16-bit elements in the 128 bytes of a panel's row."""
STEP: Final = 16
"""Keys that one product folds: tiles have a multiple of it."""
MAX_RANK: Final = 5
ALIGNMENT: Final = 16
KEY_BLOCKS: Final = (128, 96, 64, 32, 16)
"""Sizes to choose from; of blocks of 112 that are masked on both sides ptxas spills registers."""
LARGEST_BOX: Final = 256
"""Rows that one copy brings."""
LEAST_STAGES: Final = 2
MOST_STAGES: Final = 4
RESERVED_BYTES: Final = 1024
"""Of shared memory: barriers, and what aligning tiles to 1024 bytes takes."""
MOST_VALUES: Final = {1: 176, 2: 176, 3: 112}
"""Registers of a thread that sums, scores and weights may take with so many warpgroups: 240 or 160
in all, less addresses and rows' own."""


class NoWarpgroups(Exception):
    """Why an attention has no such tiles; ``str`` of it ends a sentence."""


@dataclass(frozen=True)
class WarpgroupTiles(BlockTiles):
    """``stages`` tiles of keys, and as many of values, are in use or on their way."""

    @property
    def holds_queries(self) -> bool:
        return False

    @property
    def groups(self) -> int:
        """Warpgroups that multiply."""
        return self.queries // GROUP_ROWS

    @property
    def shared_bytes(self) -> int:
        elements = self.queries * self.width
        elements += self.stages * self.keys * (self.width + self.values)
        return elements * self.dtype.size_bytes + RESERVED_BYTES

    @property
    def registers(self) -> int:
        """Of a thread: a row of a warpgroup has two of its elements in each of 64 threads."""
        return (self.values + self.keys + self.keys // 2) // 2

    @property
    def is_known(self) -> bool:
        """Whether warpgroups have these sizes, and registers room for them."""
        if self.queries % GROUP_ROWS or self.groups not in MOST_VALUES:
            return False
        if self.keys % STEP or not STEP <= self.keys <= LARGEST_BOX or self.stages < LEAST_STAGES:
            return False
        return self.registers <= MOST_VALUES[self.groups]


def warpgroup_tiles(
    op: TensorOp,
    arrays: Mapping[str, SSAValue],
    facts: TargetFacts,
    asked: Mapping[str, int],
    stages: int | None = None,
) -> WarpgroupTiles:
    """The tiles of an ``attention`` of ``arrays``, or those ``asked`` for; else ``NoWarpgroups``.

    Of rows of queries the number of least time for the busiest processor; of keys as many as
    registers hold, in whole panels of rows where that costs no more turns.
    """
    query, value = (spec_of(op.arguments[n].type) for n in (0, 2))
    if query.dtype.name not in facts.warpgroup_products:
        raise NoWarpgroups(f"warpgroups do not multiply {query.dtype}")
    (queries, width), (keys, values) = query.shape[-2:], value.shape[-2:]
    _check_sizes(queries, keys, width, values)
    for name in ("query", "key", "value"):
        _check_array(name, cast("MemRefType[Attribute]", arrays[name].type))
    row, column = (-(-size // PANEL) * PANEL for size in (width, values))
    candidates: list[WarpgroupTiles] = []
    for groups in MOST_VALUES:
        rows = asked.get("query", groups * GROUP_ROWS)
        for block in [asked["key"]] if "key" in asked else KEY_BLOCKS:
            made = WarpgroupTiles(
                rows, block, row, column, query.dtype, True, stages or LEAST_STAGES
            )
            if made.is_known and made.shared_bytes <= facts.shared_bytes:
                candidates.append(made)
    if not candidates:
        raise NoWarpgroups("no such tiles fit into registers and shared memory")
    heads = prod(op.result_spec.shape[:-2])
    return min(candidates, key=lambda each: _order(each, heads, queries, keys, facts))


def _order(
    tiles: WarpgroupTiles, heads: int, queries: int, keys: int, facts: TargetFacts
) -> tuple[float, int, int]:
    """The busiest processor's time, turns over keys, then keys that lie past the end."""
    blocks = heads * -(-queries // tiles.queries)
    busiest = -(-blocks // facts.parallel_rows) * tiles.queries
    turns = -(-keys // tiles.keys)
    return (busiest * GROUP_TURNS[tiles.groups], turns, turns * tiles.keys)


def _check_sizes(queries: int, keys: int, width: int, values: int) -> None:
    if queries < GROUP_ROWS:
        raise NoWarpgroups(f"{queries} queries fill no tile of {GROUP_ROWS}")
    if keys < STEP:
        raise NoWarpgroups(f"{keys} keys fill no step of {STEP}")
    if min(width, values) < PANEL:
        raise NoWarpgroups(f"a head of {min(width, values)} fills no row of 128 bytes")


def _check_array(name: str, type: MemRefType[Attribute]) -> None:
    if not isinstance(type.layout, NoneAttr):
        raise NoWarpgroups(f"the {name} is a view, which may begin at any byte")
    shape = type.get_shape()
    if len(shape) > MAX_RANK:
        raise NoWarpgroups(f"the {name} has {len(shape)} axes, a tensor map {MAX_RANK}")
    if shape[-1] * 2 % ALIGNMENT:
        raise NoWarpgroups(
            f"rows of the {name} are {shape[-1] * 2} bytes apart, no multiple of {ALIGNMENT}"
        )

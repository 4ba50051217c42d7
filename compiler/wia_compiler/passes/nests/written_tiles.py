"""Nests that are written in tiles: which sizes a schedule chooses, and which were taken.

Such a nest (attention) is no loop over points that could be cut later: its blocks are part of what
it computes. A schedule's ``tile query 32, key 128`` is read when the nest is written, and noted::

    func.func @attention(…) attributes {wia.scheduled, wia.tiles = {query = 32, key = 128}}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Operation

from wia_compiler.base.schedule import Schedule

_TILES = "wia.tiles"


def asked_tiles(
    schedules: Sequence[Schedule], nest: str, known: Mapping[str, int]
) -> dict[str, int]:
    """The sizes that the user's schedule of a nest has for ``known`` tiles."""
    found: dict[str, int] = {}
    for schedule in schedules:
        if schedule.nest not in (None, nest):
            continue
        for directive in schedule.directives:
            for entry in directive.entries if directive.name == "tile" else ():
                name, number = entry.name or "", entry.number or 0
                if name in known and number > 0:
                    found[name] = number
    return found


def note_tiles(nest: Operation, sizes: Mapping[str, int]) -> None:
    """Note on a nest the sizes it was written with."""
    nest.attributes[_TILES] = DictionaryAttr(
        {name: IntegerAttr(size, i64) for name, size in sizes.items()}
    )


def written_tiles(nest: Operation) -> dict[str, int]:
    """The sizes of the tiles that a nest was written in; none for other nests."""
    noted = nest.attributes.get(_TILES)
    if not isinstance(noted, DictionaryAttr):
        return {}
    return {name: cast("IntegerAttr", size).value.data for name, size in noted.data.items()}

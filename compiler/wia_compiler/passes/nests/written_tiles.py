"""Nests that are written in tiles: which sizes a schedule chooses, and which were taken.

Such a nest (attention) is no loop over points that could be cut later: its blocks are part of what
it computes. A schedule's ``tile query 32, key 128`` is read when the nest is written, and noted::

    func.func @attention(…) attributes {wia.scheduled, wia.tiles = {query = 32, key = 128}}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import cast

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, i64
from xdsl.ir import Operation

from wia_compiler.base.schedule import Schedule

TILES, STAGES, PARTS = "wia.tiles", "wia.stages", "wia.walked_parts"
"""Attributes of a nest: the sizes of its tiles; how many of a kind are in use or on their way; how
many points of an axis a block walks, or how many such parts a nest joins."""


def asked_tiles(
    schedules: Sequence[Schedule], nest: str, known: Collection[str], name: str = "tile"
) -> dict[str, int]:
    """The numbers that the lines ``name`` of the user's schedule of a nest have for ``known`` axes.

    ``tile``: the sizes of its tiles; ``pipeline``: how many of them are on their way; ``parallel``:
    how many points of an axis a block walks.
    """
    found: dict[str, int] = {}
    for schedule in schedules:
        if schedule.nest not in (None, nest):
            continue
        for directive in schedule.directives:
            for entry in directive.entries if directive.name == name else ():
                axis, number = entry.name or "", entry.number or 0
                if axis in known and number > 0:
                    found[axis] = number
    return found


def note_tiles(nest: Operation, sizes: Mapping[str, int], attribute: str = TILES) -> None:
    """Note on a nest the numbers it was written with: the sizes of its tiles, or another kind."""
    nest.attributes[attribute] = DictionaryAttr(
        {name: IntegerAttr(size, i64) for name, size in sizes.items()}
    )


def written_tiles(nest: Operation, attribute: str = TILES) -> dict[str, int]:
    """The sizes of the tiles that a nest was written in, or other such numbers; none elsewhere."""
    noted = nest.attributes.get(attribute)
    if not isinstance(noted, DictionaryAttr):
        return {}
    return {name: cast("IntegerAttr", size).value.data for name, size in noted.data.items()}

"""Compiled entries on disk: machine code and where it finds things, by all that both depend on."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from wia_compiler.base.disk_cache import DiskCache
from wia_compiler.base.settings import Settings
from wia_compiler.simulators.ptx.jit.layout import WarpLayout

_OBJECT, _PLACES = "entry.o", "places.json"


@dataclass(frozen=True)
class EntryCode:
    """An object file with ``blocks``, the layout of a warp's memory, and what it counts.

    ``accesses`` are the places of memory instructions in order (number, space, bytes of a lane),
    ``predicated`` the numbers of instructions with a predicate.
    """

    object: bytes
    layout: WarpLayout
    accesses: tuple[tuple[int, str, int], ...]
    predicated: tuple[int, ...]


def kept_code(key: tuple[str, ...], make: Callable[[], EntryCode | None]) -> EntryCode | None:
    """Code from the cache folder, or made and put there; ``None`` where it cannot be made.

    ``key`` is what the code depends on beside the engine's own sources, which are added.
    """
    settings = Settings.read()
    cache = DiskCache(settings.cache_dir / "ptx", settings.cache_size_bytes // 8)
    digest = hashlib.sha256("\0".join((*key, _sources())).encode()).hexdigest()
    files = cache.read(digest)
    if files is not None:
        return _read(files)
    made = make()
    if made is not None:
        places = {
            "layout": asdict(made.layout),
            "accesses": made.accesses,
            "predicated": made.predicated,
        }
        cache.write(digest, {_OBJECT: made.object, _PLACES: json.dumps(places).encode()})
    return made


def _read(files: dict[str, bytes]) -> EntryCode:
    places: dict[str, Any] = json.loads(files[_PLACES])
    return EntryCode(
        files[_OBJECT],
        WarpLayout(**places["layout"]),
        tuple((number, space, size) for number, space, size in places["accesses"]),
        tuple(places["predicated"]),
    )


@functools.cache
def _sources() -> str:
    """A digest of the simulator's own code: what it writes changes with it."""
    total = hashlib.sha256()
    for path in sorted(Path(__file__).parents[1].rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()

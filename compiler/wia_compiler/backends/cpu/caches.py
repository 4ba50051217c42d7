"""The data caches of this machine, which default schedules size their tiles by."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_FOLDER = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL_SIZES = ((1, 32 << 10), (2, 256 << 10), (3, 8 << 20))
"""(level, bytes) where the system tells nothing: what most cores since 2013 have at least."""


@dataclass(frozen=True)
class Caches:
    """Sizes of data caches in bytes: first and second level of one core, and the last level.

    ``l3`` is the whole of what cores share, 0 where the second level is the last.
    """

    l1: int = 32 << 10
    l2: int = 256 << 10
    l3: int = 8 << 20

    @property
    def kept_elements(self) -> int:
        """Elements of a row that are kept between passes over it: in f64, half of one core's L2."""
        return max(1, self.l2 // 16)

    @property
    def last(self) -> int:
        """The largest cache: what is streamed past it comes from memory."""
        return max(self.l1, self.l2, self.l3)


def these_caches() -> Caches:
    """The caches of the CPU this process runs on."""
    sizes = dict(read_caches(_FOLDER))
    first = sizes.get(1, 32 << 10)
    return Caches(first, sizes.get(2, first), sizes.get(3, 0))


def read_caches(folder: Path = _FOLDER) -> tuple[tuple[int, int], ...]:
    """(level, bytes) of each data cache of one core, smallest level first, from sysfs."""
    found: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            level = int((index / "level").read_text())
            size = _size_bytes((index / "size").read_text().strip())
        except (OSError, ValueError):
            continue
        if kind != "Instruction" and size > 0:
            found[level] = size
    return tuple(sorted(found.items())) or _USUAL_SIZES


def _size_bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)

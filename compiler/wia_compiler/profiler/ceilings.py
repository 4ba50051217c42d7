"""The limits of a machine: measured here and kept on disk, or taken from a data sheet."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from wia_compiler.base.settings import Settings
from wia_compiler.profiler.machine import Machine, this_machine

_FORMAT = 1
"""Changes when what is measured changes, so that files of before are measured anew."""


@dataclass(frozen=True)
class Ceiling:
    """One limit: ``value`` in bytes/s (``memory``) or FLOP/s (``compute``).

    ``source`` says where the number comes from. A memory's ``capacity`` is the most bytes that it
    serves (``None``: it is the last one); ``dtypes`` are those whose arithmetic a compute ceiling
    limits.
    """

    name: str
    kind: Literal["memory", "compute"]
    value: float
    source: str
    capacity: int | None = None
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ceilings:
    """All limits of one machine, to iterate over; memories from the nearest to the farthest.

    ``clock_hz`` is the rate of simulated cycles, where the machine is one that is simulated.
    """

    machine: str
    ceilings: tuple[Ceiling, ...]
    clock_hz: float | None = None

    def __iter__(self) -> Iterator[Ceiling]:
        return iter(self.ceilings)

    def __len__(self) -> int:
        return len(self.ceilings)

    @property
    def memories(self) -> tuple[Ceiling, ...]:
        """Bandwidths, nearest memory first."""
        return tuple(each for each in self.ceilings if each.kind == "memory")

    @property
    def rates(self) -> tuple[Ceiling, ...]:
        """Arithmetic rates."""
        return tuple(each for each in self.ceilings if each.kind == "compute")

    def memory_for(self, size_bytes: int) -> Ceiling | None:
        """The nearest memory that holds so many bytes: where a warm run finds its operands."""
        for each in self.memories:
            if each.capacity is None or size_bytes <= each.capacity:
                return each
        return None

    def rate_for(self, dtype: str) -> Ceiling | None:
        """The arithmetic limit of a dtype; ``None`` where none is known (integers)."""
        return next((each for each in self.rates if dtype in each.dtypes), None)


def measured_ceilings(*, threads: int = 1, refresh: bool = False) -> Ceilings:
    """The limits of this machine for so many threads.

    They are measured once (about 2 s) and kept in the cache folder under the machine's identity;
    ``refresh`` measures anew. A file that cannot be read or written costs a measurement, no error.
    """
    machine = this_machine()
    path = ceilings_path(machine, threads)
    found = None if refresh else _load(path)
    if found is None:
        from wia_compiler.profiler.probes import measure_ceilings

        found = measure_ceilings(machine, threads=threads)
        _store(path, found)
    return found


def ceilings_path(machine: Machine, threads: int) -> Path:
    """The file that holds the limits of ``machine`` for so many threads."""
    folder = Settings.read().cache_dir / "ceilings"
    return folder / f"v{_FORMAT}-{machine.key}-{threads}.json"


def to_json(ceilings: Ceilings) -> str:
    """Plain JSON; ``from_json`` reads it back."""
    return json.dumps(dataclasses.asdict(ceilings), indent=1)


def from_json(text: str) -> Ceilings:
    """What ``to_json`` wrote; ``ValueError``, ``KeyError`` or ``TypeError`` for anything else."""
    data: dict[str, Any] = json.loads(text)
    listed: list[dict[str, Any]] = data["ceilings"]
    rows = [_ceiling(**row) for row in listed]
    if not rows or any(not row.value > 0 for row in rows):
        raise ValueError("ceilings are positive")
    return Ceilings(str(data["machine"]), tuple(rows), data["clock_hz"])


def _ceiling(value: Any, dtypes: Any, **rest: Any) -> Ceiling:
    return Ceiling(value=float(value), dtypes=tuple(dtypes), **rest)


def _load(path: Path) -> Ceilings | None:
    try:
        return from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _store(path: Path, ceilings: Ceilings) -> None:
    """Written aside, then renamed, so that a reader never sees half a file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, aside = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(to_json(ceilings))
        os.replace(aside, path)
    except OSError:
        return  # a read-only or full folder: the numbers are good for this process

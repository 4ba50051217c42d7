"""Which machine this is, as far as its speed is concerned."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
# Where the system tells nothing: sizes that most cores since 2013 have at least.
_USUAL_CACHES = ((1, 32 << 10), (2, 256 << 10), (3, 8 << 20))


@dataclass(frozen=True)
class Machine:
    """A CPU: LLVM's name and features of it, its model, cores, and data cache sizes in bytes."""

    cpu: str
    features: str
    model: str
    cores: int
    caches: tuple[tuple[int, int], ...]

    @property
    def key(self) -> str:
        """A short name for files: equal for equal machines."""
        text = json.dumps(dataclasses.astuple(self))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def vector_bytes(self) -> int:
        """The widest vector register."""
        names = self.features.split(",")
        return 64 if "+avx512f" in names else 32 if "+avx" in names else 16


def this_machine() -> Machine:
    """The machine this process runs on."""
    llvm: Any = importlib.import_module("llvmlite.binding")
    return Machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        model=_model(),
        cores=_cores(),
        caches=read_caches(_CACHES),
    )


def read_caches(folder: Path) -> tuple[tuple[int, int], ...]:
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
    return tuple(sorted(found.items())) or _USUAL_CACHES


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _size_bytes(text: str) -> int:
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    return int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text)


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()

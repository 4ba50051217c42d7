"""Which machine this is, as far as its speed is concerned."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wia_compiler.backends.cpu.caches import read_caches
from wia_compiler.backends.cpu.cores import available_cores


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
        cores=available_cores(),
        caches=read_caches(),
    )


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()

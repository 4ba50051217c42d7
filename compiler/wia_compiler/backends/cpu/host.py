"""What CPU this is: the facts that code generation and the cache key depend on."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass

from wia_compiler.backends.cpu.caches import Caches, these_caches
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.llvm.library import llvm_binding

# CPUs that lower their clock for 512-bit vectors: LLVM's TuningPrefer256Bit (X86.td of LLVM 22).
_PREFERS_256_BITS = (
    *("skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client"),
    *("icelake-server", "rocketlake", "tigerlake", "sapphirerapids", "emeraldrapids"),
)
_USUAL_CACHES = Caches()


@dataclass(frozen=True)
class Host:
    """A CPU as LLVM knows it.

    ``name`` is LLVM's (``znver3``), ``features`` its feature string, ``vector_bytes`` the width of
    the vectors that code is generated for, ``vector_registers`` how many registers hold them,
    ``llvm`` LLVM's version. Schedules are chosen by ``caches``; ``cores`` decides nothing about
    code, as the number of threads is that of each call.
    """

    triple: str
    name: str
    features: str
    vector_bytes: int
    vector_registers: int
    llvm: str
    caches: Caches = _USUAL_CACHES
    cores: int = 1

    def has(self, feature: str) -> bool:
        """Whether it has a feature of LLVM's name: ``avx512vnni``, ``fma``."""
        return f"+{feature}" in self.features.split(",")


@functools.cache
def this_host() -> Host:
    """The CPU this process runs on; ``TargetError`` where it is not an x86-64."""
    machine = platform.machine()
    if machine.lower() not in ("x86_64", "amd64"):
        raise TargetError(
            f"the cpu target generates x86-64 code and this machine is {machine}; "
            "build for another target, e.g. kernel.to('gpu:sm_90')"
        )
    llvm = llvm_binding()
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    has_avx512 = bool(features.get("avx512f") and features.get("avx512vl"))
    if has_avx512 and name not in _PREFERS_256_BITS:
        vector_bytes = 64
    else:
        vector_bytes = 32 if features.get("avx2") else 16
    return Host(
        # An ELF object, whatever the system's own format is: the loader and `elf.py` read that.
        "x86_64-unknown-linux-gnu",
        name,
        features.flatten(),
        vector_bytes,
        32 if has_avx512 else 16,
        ".".join(map(str, llvm.llvm_version_info)),
        these_caches(),
        available_cores(),
    )


def available_cores() -> int:
    """Cores that this process may run on at this moment."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1

"""What CPU this is: the facts that code generation and the cache key depend on."""

from __future__ import annotations

import functools
import platform
from dataclasses import dataclass

from wia_compiler.base.errors import TargetError
from wia_compiler.passes.llvm.library import llvm_binding


@dataclass(frozen=True)
class Host:
    """A CPU as LLVM knows it.

    ``name`` is LLVM's (``znver3``), ``features`` its feature string, ``vector_bytes`` the width of
    the vector registers that code is generated for, ``llvm`` LLVM's version.
    """

    triple: str
    name: str
    features: str
    vector_bytes: int
    llvm: str

    @property
    def vector_registers(self) -> int:
        """How many vector registers there are."""
        return 32 if self.vector_bytes == 64 else 16


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
    features = llvm.get_host_cpu_features()
    if features.get("avx512f") and features.get("avx512vl"):
        vector_bytes = 64
    else:
        vector_bytes = 32 if features.get("avx2") else 16
    return Host(
        # An ELF object, whatever the system's own format is: the loader and `elf.py` read that.
        "x86_64-unknown-linux-gnu",
        llvm.get_host_cpu_name(),
        features.flatten(),
        vector_bytes,
        ".".join(map(str, llvm.llvm_version_info)),
    )

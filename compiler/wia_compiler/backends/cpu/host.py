"""What CPU this is: the facts that code generation and the cache key depend on."""

from __future__ import annotations

import functools
import platform
import sys
from dataclasses import dataclass

from wia_compiler.backends.cpu.caches import Caches, these_caches
from wia_compiler.backends.cpu.cores import available_cores
from wia_compiler.backends.cpu.cpus import CPUS, OWN_REGISTER
from wia_compiler.base.errors import TargetError
from wia_compiler.passes.llvm.library import llvm_binding

# CPUs that lower their clock for 512-bit vectors: LLVM's TuningPrefer256Bit (X86.td of LLVM 22).
_PREFERS_256_BITS = (
    *("skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client"),
    *("icelake-server", "rocketlake", "tigerlake", "sapphirerapids", "emeraldrapids"),
)
_USUAL_CACHES = Caches()
_KEEP_REGISTER = ("darwin", "win32")
_MACHINES = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}


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

    @property
    def products_at_once(self) -> int:
        """How many products of 8-bit integers one instruction adds up in 32 bits; 0 for none."""
        if self.has("avx512vnni") and self.has("avx512vl"):
            return 4
        wide = "avx512bw" if self.vector_bytes == 64 else "avx2"
        return 2 if self.has(wide) else 0

    @property
    def machine(self) -> str:
        """The instruction set: ``x86_64`` or ``aarch64``."""
        return self.triple.partition("-")[0]

    @property
    def assembly(self) -> str:
        """The name of its assembly, as of the stage that shows it: ``x86`` or ``aarch64``."""
        return "x86" if self.machine == "x86_64" else self.machine


@functools.cache
def this_host() -> Host:
    """The CPU this process runs on; ``TargetError`` where no code is generated for its kind."""
    machine = _MACHINES.get(platform.machine().lower())
    if machine is None:
        raise TargetError(
            f"the cpu target generates x86-64 and AArch64 code, this machine is "
            f"{platform.machine()}; build for another target, e.g. kernel.to('gpu:sm_90')"
        )
    llvm = llvm_binding()
    name, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features()
    flags: str = features.flatten()
    if machine == "aarch64" and sys.platform in _KEEP_REGISTER:
        flags += f",+{OWN_REGISTER}"
    has_avx512 = bool(features.get("avx512f") and features.get("avx512vl"))
    if has_avx512 and name not in _PREFERS_256_BITS:
        vector_bytes = 64
    else:
        vector_bytes = 32 if features.get("avx2") else 16
    return Host(
        _triple(machine),
        name,
        flags,
        vector_bytes,
        32 if has_avx512 or machine == "aarch64" else 16,
        _llvm_version(),
        these_caches(),
        available_cores(),
    )


def named_host(name: str) -> Host:
    """A CPU of the table (``haswell``, ``neoverse-n1``), wherever this runs."""
    cpu = CPUS[name]
    return Host(
        _triple(cpu.machine),
        cpu.name,
        ",".join(f"+{feature}" for feature in cpu.features),
        cpu.vector_bytes,
        cpu.registers,
        _llvm_version(),
        cpu.caches,
    )


def why_not_here(host: Host) -> str | None:
    """Why code for a CPU does not run on this one; ``None`` where it does."""
    here = this_host()
    if host.machine != here.machine:
        return f"it is {host.machine} code and this machine is {here.machine}"
    if here.has(OWN_REGISTER) and not host.has(OWN_REGISTER):
        return f"{sys.platform} keeps register x18 for itself, which this code uses"
    asked = [each[1:] for each in host.features.split(",") if each.startswith("+")]
    missing = [each for each in asked if not here.has(each) and each != OWN_REGISTER]
    return f"this {here.name} lacks {', '.join(missing)}" if missing else None


def _triple(machine: str) -> str:
    # An ELF object, whatever the system's own format is: the loader and `elf.py` read that.
    return f"{machine}-unknown-linux-gnu"


def _llvm_version() -> str:
    return ".".join(map(str, llvm_binding().llvm_version_info))

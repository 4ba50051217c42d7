"""CPUs that code can be generated for anywhere: what each one's vectors and caches are.

A row a CPU, by LLVM's name. Features are those that code here may use (LLVM knows the rest by the
name); sizes are those of the vendors' manuals and WikiChip, the last cache that of a usual part.
"""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.backends.cpu.caches import Caches

_AVX2 = ("sse4.2", "popcnt", "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe")
_AVX512 = (*_AVX2, "avx512f", "avx512vl", "avx512bw", "avx512dq", "avx512cd")
_ICE_LAKE = (*_AVX512, "avx512vnni", "avx512vbmi", "avx512ifma", "avx512bitalg")
_NEON = ("neon", "fp-armv8", "fullfp16", "dotprod")
_I8MM = (*_NEON, "bf16", "i8mm")
OWN_REGISTER = "reserve-x18"
"""AArch64 as macOS and Windows run it: a register that is the system's, which clears it."""


@dataclass(frozen=True)
class Cpu:
    """``vector_bytes`` is the width of vectors that code is generated for, on ``registers``."""

    name: str
    machine: str
    vector_bytes: int
    registers: int
    features: tuple[str, ...]
    caches: Caches


def _kib(first: int, second: int, last: int) -> Caches:
    return Caches(first << 10, second << 10, last << 10)


CPUS = {
    row.name: row
    for row in (
        Cpu("haswell", "x86_64", 32, 16, _AVX2, _kib(32, 256, 8 << 10)),
        Cpu("znver3", "x86_64", 32, 16, _AVX2, _kib(32, 512, 32 << 10)),
        # Wide vectors lower its clock: 256 bits, of which there are 32 registers all the same.
        Cpu("skylake-avx512", "x86_64", 32, 32, _AVX512, _kib(32, 1024, 24 << 10)),
        Cpu(
            *("sapphirerapids", "x86_64", 32, 32),
            (*_ICE_LAKE, "avx512bf16", "avx512fp16", "avxvnni"),
            _kib(48, 2048, 60 << 10),
        ),
        Cpu(
            *("znver4", "x86_64", 64, 32),
            (*_ICE_LAKE, "avx512bf16"),
            _kib(32, 1024, 32 << 10),
        ),
        Cpu("cortex-a76", "aarch64", 16, 32, _NEON, _kib(64, 512, 2 << 10)),
        Cpu("neoverse-n1", "aarch64", 16, 32, _NEON, _kib(64, 1024, 32 << 10)),
        Cpu("neoverse-v2", "aarch64", 16, 32, _I8MM, _kib(64, 2048, 114 << 10)),
        Cpu(
            *("apple-m1", "aarch64", 16, 32),
            (*_NEON, OWN_REGISTER),
            _kib(128, 12 << 10, 8 << 10),
        ),
    )
}

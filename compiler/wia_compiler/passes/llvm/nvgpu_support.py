"""Which architectures have which matrix and copy instructions.

PTX for an older architecture than an instruction needs ends in an abort of LLVM, or in an error of
ptxas: such a module is refused before either sees it. Numbers are those of the PTX ISA ("Target ISA
Notes" of each instruction).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wia_compiler.base.errors import TargetError


@dataclass(frozen=True)
class Support:
    """Intrinsics of a name need capability ``since`` (80 is 8.0); ``what`` they are."""

    names: re.Pattern[str]
    since: int
    what: str


SUPPORT = (
    Support(re.compile(r"llvm\.nvvm\.cp\.async\.(?!bulk)"), 80, "asynchronous copies"),
    Support(re.compile(r"llvm\.nvvm\.ldmatrix\."), 75, "ldmatrix"),
    Support(re.compile(r"llvm\.nvvm\.mma\.m16n8k8\.row\.col\.f(16|32)\."), 75, "mma of f16"),
    Support(re.compile(r"llvm\.nvvm\.mma\.m16n8k16\.row\.col\.f(16|32)\."), 80, "m16n8k16 of f16"),
    Support(re.compile(r"llvm\.nvvm\.mma\.m16n8k(8|16)\.row\.col\.bf16"), 80, "mma of bf16"),
    Support(re.compile(r"llvm\.nvvm\.f2tf32"), 80, "rounding to tf32"),
    Support(re.compile(r"llvm\.nvvm\.mma\.m16n8k(4|8)\.row\.col\.tf32"), 80, "mma of tf32"),
    Support(re.compile(r"llvm\.nvvm\.mma\.m8n8k16\.row\.col\.[su]8"), 75, "m8n8k16 of s8"),
    Support(re.compile(r"llvm\.nvvm\.mma\.m16n8k(16|32)\.row\.col\.[su]8"), 80, "m16n8k32 of s8"),
)
"""A row for each family of instructions that not every architecture from sm_75 on has."""
_DECLARATION = re.compile(r"^declare [^@]*@([^\s(]+)\(", re.MULTILINE)


def check_architecture(text: str, capability: int) -> None:
    """Refuse a module that calls what an architecture has not, with the architecture it needs."""
    for name in sorted(set(_DECLARATION.findall(text))):
        for row in SUPPORT:
            if row.names.match(name) and capability < row.since:
                raise TargetError(
                    f"{row.what} ({name}) needs sm_{row.since}, this code is for sm_{capability}: "
                    "an op was lowered to an instruction that this target does not have"
                )

"""What NVIDIA's tools make of PTX: cubin, SASS, and what ptxas says of it."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.tools import INSTALL_COMMAND, Assembled, assemble, find_tool


@dataclass(frozen=True)
class MachineCode:
    """``log`` is what ``ptxas -v`` printed; ``missing`` says which tool is not installed."""

    cubin: bytes | None = None
    log: str | None = None
    missing: str | None = None

    @property
    def has_sass(self) -> bool:
        """Whether there is code, and nvdisasm to take it apart."""
        return self.cubin is not None and self.missing is None


@functools.lru_cache(maxsize=8)
def assembled(ptx: str, architecture: str) -> Assembled:
    """What ``assemble`` gives; a kernel whose record is made later comes twice."""
    return assemble(ptx, architecture)


def machine_code(ptx: str, architecture: Architecture) -> MachineCode:
    """As much as the tools that are installed make of a PTX text.

    ``TargetError`` where ptxas refuses it.
    """
    if find_tool("ptxas") is None:
        missing = f"registers, spills, occupancy and SASS need ptxas: {INSTALL_COMMAND}"
        return MachineCode(missing=missing)
    made = assembled(ptx, architecture.name)
    absent = find_tool("nvdisasm") is None
    missing = f"SASS needs nvdisasm: {INSTALL_COMMAND}" if absent else None
    return MachineCode(made.cubin, made.log, missing)

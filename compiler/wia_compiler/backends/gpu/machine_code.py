"""What NVIDIA's tools make of PTX: cubin, SASS, and what ptxas says of it."""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.sass import Sass, parse_sass
from wia_compiler.backends.gpu.tools import INSTALL_COMMAND, assemble, disassemble, find_tool


@dataclass(frozen=True)
class MachineCode:
    """``log`` is what ``ptxas -v`` printed; ``missing`` says which tool is not installed."""

    cubin: bytes | None = None
    log: str | None = None
    sass: Sass | None = None
    missing: str | None = None


def machine_code(ptx: str, architecture: Architecture, *, with_sass: bool = True) -> MachineCode:
    """As much as the tools that are installed make of a PTX text.

    ``TargetError`` where ptxas refuses it. ``with_sass`` off leaves nvdisasm out, which takes a
    third of a second.
    """
    if find_tool("ptxas") is None:
        missing = f"registers, spills, occupancy and SASS need ptxas: {INSTALL_COMMAND}"
        return MachineCode(missing=missing)
    assembled = assemble(ptx, architecture.name)
    if not with_sass:
        return MachineCode(assembled.cubin, assembled.log)
    if find_tool("nvdisasm") is None:
        missing = f"SASS needs nvdisasm: {INSTALL_COMMAND}"
        return MachineCode(assembled.cubin, assembled.log, missing=missing)
    sass = parse_sass(disassemble(assembled.cubin))
    return MachineCode(assembled.cubin, assembled.log, sass)

"""NVIDIA's ptxas and nvdisasm: where they are, and how they are run."""

from __future__ import annotations

import functools
import importlib.util
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wia_compiler.base.errors import TargetError
from wia_compiler.base.settings import Settings

INSTALL_COMMAND = "pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm"
TIMEOUT_S = 60


def find_tool(name: str) -> Path | None:
    """The tool in NVIDIA's Python packages, on ``PATH`` or in ``CUDA_HOME``; ``None`` if absent."""
    return _find(name, Settings.read().cuda_home)


def require_tool(name: str) -> Path:
    """The tool's path; ``TargetError`` with the command that installs it where it is absent."""
    path = find_tool(name)
    if path is None:
        raise TargetError(
            f"{name} was not found in the Python packages, on PATH or in CUDA_HOME; "
            f"install it with: {INSTALL_COMMAND}"
        )
    return path


def tool_stamp(name: str) -> str:
    """What tells one build of a tool from another (for cache keys), without running it."""
    path = find_tool(name)
    if path is None:
        return f"{name}: none"
    status = path.stat()
    return f"{name}: {status.st_size} {status.st_mtime_ns}"


@functools.cache
def _find(name: str, cuda_home: Path | None) -> Path | None:
    for folder in _package_folders():
        if (folder / name).is_file():
            return folder / name
    on_path = shutil.which(name)
    if on_path is not None:
        return Path(on_path)
    if cuda_home is not None and (cuda_home / "bin" / name).is_file():
        return cuda_home / "bin" / name
    return None


def _package_folders() -> list[Path]:
    """``bin`` folders of the ``nvidia`` namespace package, newest CUDA first."""
    found = importlib.util.find_spec("nvidia")
    places = found.submodule_search_locations if found is not None else None
    roots = [Path(place) for place in places or ()]
    return sorted((folder for root in roots for folder in root.glob("*/bin")), reverse=True)


@dataclass(frozen=True)
class Assembled:
    """What ptxas made: the cubin, and what it said (registers, warnings) on stderr."""

    cubin: bytes
    log: str


def assemble(ptx: str, architecture: str, *, timeout_s: float = TIMEOUT_S) -> Assembled:
    """Run ptxas with line information on PTX text.

    A text that it refuses, a crash or a timeout is a ``TargetError`` with its stderr and the
    command that reproduces it; the PTX stays on disk for that command.
    """
    tool = require_tool("ptxas")
    folder = Path(tempfile.mkdtemp(prefix="wia-ptxas-"))
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    command = [tool, f"-arch={architecture}", "-lineinfo", "-v", source, "-o", cubin]
    log = _run(command, timeout_s)[1]
    assembled = Assembled(cubin.read_bytes(), log)
    shutil.rmtree(folder)
    return assembled


def disassemble(cubin: bytes, *, timeout_s: float = TIMEOUT_S) -> str:
    """What ``nvdisasm -c -gp`` says: SASS, each instruction after a note of its line of the PTX."""
    tool = require_tool("nvdisasm")
    folder = Path(tempfile.mkdtemp(prefix="wia-nvdisasm-"))
    image = folder / "kernel.cubin"
    image.write_bytes(cubin)
    text = _run([tool, "-c", "-gp", image], timeout_s)[0]
    shutil.rmtree(folder)
    return text


def _run(command: Sequence[str | Path], timeout_s: float) -> tuple[str, str]:
    line = shlex.join(str(part) for part in command)
    name = Path(command[0]).name
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise TargetError(f"{name} was stopped after {timeout_s:g} s; reproduce: {line}") from None
    except OSError as error:
        raise TargetError(f"{name} could not be started: {error}; command: {line}") from error
    if done.returncode != 0:
        how = f"exit status {done.returncode}" if done.returncode > 0 else "a crash"
        raise TargetError(f"{name} failed with {how}:\n{done.stderr.strip()}\nreproduce: {line}")
    return done.stdout, done.stderr

"""``wia.doctor()``: what of the optional tools this machine has, and what brings the others."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wia_compiler.backends.gpu.tools import find_tool
from wia_compiler.base.errors import WiaError
from wia_compiler.runtime.session import read_settings

State = Literal["found", "missing", "broken"]
MARKS: dict[State, str] = {"found": "✓", "missing": "–", "broken": "✗"}
TOOL_TIMEOUT_S = 20


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for: what it is for, where it is, or the command that brings it."""

    name: str
    purpose: str
    required: bool
    state: State
    version: str = ""
    path: str = ""
    remedy: str = ""

    def __str__(self) -> str:
        where = " ".join(part for part in (self.version, self.path) if part)
        text = where if self.state == "found" else f"{self.state}: {self.remedy}"
        return f"{MARKS[self.state]} {self.name:<20} {self.purpose:<38} {text}".rstrip()


@dataclass(frozen=True)
class Diagnosis:
    """What ``wia.doctor()`` found; prints as a table, ``to_json()`` gives it as JSON."""

    findings: tuple[Finding, ...]

    @property
    def healthy(self) -> bool:
        """Whether everything that is required was found."""
        return all(f.state == "found" for f in self.findings if f.required)

    def __getitem__(self, name: str) -> Finding:
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)

    def to_json(self) -> str:
        """``{"healthy": …, "findings": [{"name": …, "state": …, …}]}``."""
        rows = [dataclasses.asdict(finding) for finding in self.findings]
        return json.dumps({"healthy": self.healthy, "findings": rows}, ensure_ascii=False, indent=2)

    def __repr__(self) -> str:
        required = [str(finding) for finding in self.findings if finding.required]
        optional = [str(finding) for finding in self.findings if not finding.required]
        return "\n".join(["required", *_indented(required), "optional", *_indented(optional)])


@dataclass(frozen=True)
class Package:
    """A Python package and what it is for."""

    name: str
    purpose: str
    required: bool = True
    extra: str = ""

    def look(self) -> Finding:
        """Whether it is installed, without importing it."""
        target = f"wia-notebook[{self.extra}]" if self.extra else self.name
        try:
            version = importlib.metadata.version(self.name)
        except importlib.metadata.PackageNotFoundError:
            remedy = f'pip install "{target}"' if self.extra else f"pip install {target}"
            return Finding(self.name, self.purpose, self.required, "missing", remedy=remedy)
        return Finding(self.name, self.purpose, self.required, "found", version)


@dataclass(frozen=True)
class Command:
    """A command of the system, what it is for and how it is found and asked for its version."""

    name: str
    purpose: str
    find: Callable[[], Path | None]
    remedy: str
    version_option: str = "--version"

    def look(self) -> Finding:
        """Where it is and what version it says it has."""
        try:
            path = self.find()
        except (WiaError, ValueError) as error:  # a setting that cannot be read
            return Finding(self.name, self.purpose, False, "broken", remedy=str(error))
        if path is None:
            return Finding(self.name, self.purpose, False, "missing", remedy=self.remedy)
        version = _version(path, self.version_option)
        if version is None:
            remedy = f"{path} {self.version_option} fails; {self.remedy}"
            return Finding(self.name, self.purpose, False, "broken", path=str(path), remedy=remedy)
        return Finding(self.name, self.purpose, False, "found", version, str(path))


PACKAGES = (
    Package("xdsl", "the IR"),
    Package("llvmlite", "LLVM: x86 and PTX"),
    Package("lark", "the grammar"),
    Package("numpy", "arrays"),
    Package("ml_dtypes", "bfloat16"),
    Package("platformdirs", "the cache folder"),
    Package("ipython", "magics"),
    Package("ipywidgets", "the explorer"),
    Package("anywidget", "the explorer's graph"),
    Package("graphviz", "DOT text of graphs"),
    Package("plotly", "roofline figures"),
    Package("cupy-cuda13x", "runs kernels on a GPU", required=False, extra="gpu"),
    Package("jupyterlab", "opens notebooks", required=False, extra="notebook"),
    Package("graphviz-pure", "draws graphs without dot", required=False, extra="graph"),
    Package("playwright", "browser tests", required=False, extra="test"),
)

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
GPU_DRIVER = "install NVIDIA's driver (needs a GPU): https://www.nvidia.com/drivers"


def doctor() -> Diagnosis:
    """Look for everything that the project can use; takes a second, changes nothing.

    >>> doctor()["numpy"].state
    'found'
    """
    looks: Sequence[Callable[[], Finding]] = [
        _python,
        *(package.look for package in PACKAGES if package.required),
        _cache_folder,
        *(command.look for command in _commands()),
        *(package.look for package in PACKAGES if not package.required),
    ]
    return Diagnosis(tuple(look() for look in looks))


def _commands() -> tuple[Command, ...]:
    gpu_tools = 'pip install "wia-notebook[gpu-tools]"'
    return (
        Command("ptxas", "GPU registers, spills, occupancy", lambda: find_tool("ptxas"), gpu_tools),
        Command("nvdisasm", "SASS", lambda: find_tool("nvdisasm"), gpu_tools),
        Command("nvidia-smi", "NVIDIA's driver and a GPU", _on_path("nvidia-smi"), GPU_DRIVER),
        Command("dot", "draws graphs (Graphviz)", _find_dot, "apt-get install graphviz", "-V"),
        Command("chromium", "browser tests", _on_path(*BROWSERS), "apt-get install chromium"),
    )


def _python() -> Finding:
    version = platform.python_version()
    machine = f"{platform.machine()}, {os.cpu_count()} cores"
    return Finding("python", machine, True, "found", version, sys.executable)


def _cache_folder() -> Finding:
    purpose = "keeps compiled kernels"
    remedy = "set WIA_CACHE_DIR to a folder that can be written"
    try:
        folder = read_settings().cache_dir
    except WiaError as error:
        return Finding("cache folder", purpose, False, "broken", remedy=str(error))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remedy = f"{folder}: {error.strerror}; {remedy}"
        return Finding("cache folder", purpose, False, "broken", path=str(folder), remedy=remedy)
    return Finding("cache folder", purpose, False, "found", path=str(folder))


def _find_dot() -> Path | None:
    named = read_settings().dot or shutil.which("dot")
    return Path(named) if named else None


def _on_path(*names: str) -> Callable[[], Path | None]:
    """Finds the first of these names on ``PATH``."""

    def find() -> Path | None:
        found = (shutil.which(name) for name in names)
        return next((Path(path) for path in found if path is not None), None)

    return find


def _version(path: Path, option: str) -> str | None:
    """The first number with dots that the program says; ``None`` where it does not run."""
    try:
        done = subprocess.run(
            [path, option], capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    said = done.stdout + done.stderr
    found = re.search(r"[Vv]?(\d+\.\d+(?:\.\d+)*)", said)
    return found[1] if found else said.strip().partition("\n")[0]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]

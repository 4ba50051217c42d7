"""The cache key: everything that the code of a kernel depends on, as one visible tuple."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
from pathlib import Path
from typing import NamedTuple

import wia_compiler

# What decides what a kernel compiles to, and how that is written to disk.
CODE = ("base", "dialects", "frontend", "passes", "backends", "runtime/built.py")


class KernelText(NamedTuple):
    """A kernel as written: its text, and where in its source that stands (spans point there)."""

    name: str
    position: str
    text: str


class ArgumentKey(NamedTuple):
    """What one argument contributes: strides are elements, or ``"C"`` for C order."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    layout: str


class CacheKey(NamedTuple):
    """Equal keys mean equal code. ``digest`` is the name of the entry in the cache."""

    kernel: str
    sources: tuple[KernelText, ...]
    arguments: tuple[ArgumentKey, ...]
    target: str
    options: tuple[str, ...]
    flags: tuple[str, ...]
    versions: tuple[str, ...]

    @property
    def canonical_json(self) -> str:
        """The key as JSON, the same bytes for equal keys on every machine and Python version."""
        return json.dumps(self._plain(), ensure_ascii=True, sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of ``canonical_json`` in hexadecimal."""
        return hashlib.sha256(self.canonical_json.encode()).hexdigest()

    def explain(self) -> str:
        """One line for each part of the key, with its text or values."""
        rows = [f"kernel     {self.kernel}"]
        for source in self.sources:
            rows.append(f"source     {source.name} at {source.position}")
            rows.extend(f"           | {line}" for line in source.text.splitlines())
        for argument in self.arguments:
            shape = ",".join(map(str, argument.shape))
            rows.append(f"argument   {argument.name} = {argument.dtype}[{shape}] {argument.layout}")
        rows.append(f"target     {self.target}")
        rows.extend(f"option     {option}" for option in self.options)
        rows.extend(f"flag       {flag}" for flag in self.flags)
        rows.extend(f"version    {version}" for version in self.versions)
        rows.append(f"SHA-256    {self.digest}")
        return "\n".join(rows)

    def _plain(self) -> dict[str, object]:
        data: dict[str, object] = dict(self._asdict())
        data["sources"] = [source._asdict() for source in self.sources]
        data["arguments"] = [argument._asdict() for argument in self.arguments]
        return data


@functools.cache
def versions() -> tuple[str, ...]:
    """Versions of what turns text into code: this compiler, xdsl and llvmlite.

    The compiler's own part holds a fingerprint of its files, so that whoever works on the
    compiler never runs code that an earlier state of it left in the cache.
    """
    installed = tuple(f"{name} {importlib.metadata.version(name)}" for name in ("xdsl", "llvmlite"))
    return (f"wia {wia_compiler.__version__} {_fingerprint()}", *installed)


def _fingerprint() -> str:
    root = Path(wia_compiler.__file__).parent
    state = hashlib.sha256()
    for place in CODE:
        found = (root / place).rglob("*") if (root / place).is_dir() else [root / place]
        for path in sorted(found):
            if path.suffix in (".py", ".lark"):
                status = path.stat()
                name = path.relative_to(root)
                state.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return state.hexdigest()[:16]

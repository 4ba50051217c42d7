"""``wia.cache``: what is kept of compiled kernels, in memory and on disk."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wia_compiler.base.disk_cache import DiskCache, EntryInfo
from wia_compiler.base.errors import ArgumentError
from wia_compiler.runtime.built import COMPILED
from wia_compiler.runtime.cache_key import ArgumentKey, CacheKey, KernelText
from wia_compiler.runtime.session import Session, default_session

MIN_DIGEST_CHARACTERS = 4


@dataclass(frozen=True)
class CacheEntry:
    """One compiled kernel on disk. ``used_at`` is seconds since the epoch."""

    digest: str
    key: CacheKey
    size_bytes: int
    used_at: float
    compile_time_ns: int
    path: Path

    def __str__(self) -> str:
        arguments = ", ".join(
            f"{a.name}={a.dtype}[{','.join(map(str, a.shape))}]{'' if a.layout == 'C' else '*'}"
            for a in self.key.arguments
        )
        used = datetime.datetime.fromtimestamp(self.used_at).strftime("%Y-%m-%d %H:%M")
        return (
            f"{self.digest[:12]}  {self.key.target:<10}  {self.size_bytes / 1024:7.1f} KiB  "
            f"{self.compile_time_ns / 1e6:7.1f} ms  {used}  {self.key.kernel}({arguments})"
        )


class Cache:
    """Compiled kernels on disk; ``print(wia.cache)`` shows them.

    The folder and its size come from ``WIA_CACHE_DIR`` and ``WIA_CACHE_SIZE`` at each use.
    """

    def __init__(self, session: Callable[[], Session]):
        self._find_session = session

    @property
    def _session(self) -> Session:
        return self._find_session()

    @property
    def path(self) -> Path:
        """The folder that holds the entries."""
        return self._disk.root

    @property
    def limit_bytes(self) -> int:
        """How much the folder may hold; the least recently used entries go first."""
        return self._disk.limit_bytes

    @property
    def entries(self) -> list[CacheEntry]:
        """Every entry that is whole, most recently used first."""
        read = (self._entry(info) for info in self._disk.entries())
        return [entry for entry in read if entry is not None]

    @property
    def size_bytes(self) -> int:
        """Bytes of all entries on disk."""
        return sum(info.size_bytes for info in self._disk.entries())

    def clear(self) -> int:
        """Forget every kernel, in memory and on disk; how many lay on disk."""
        self._session.forget()
        return self._disk.clear()

    def explain(self, key: str | CacheKey) -> str:
        """Everything an entry's code depends on, line by line.

        ``key`` is a ``build.cache.key`` or a digest (or its first characters). ``ArgumentError``
        where no entry, or more than one, has it.
        """
        if isinstance(key, CacheKey):
            return key.explain()
        return self.find(key).key.explain()

    def find(self, digest: str) -> CacheEntry:
        """The one entry whose digest starts with ``digest``."""
        if len(digest) < MIN_DIGEST_CHARACTERS:
            raise ArgumentError(
                f"cache: {digest!r} is too short, expected at least {MIN_DIGEST_CHARACTERS} "
                f"characters of an entry's digest\n  help: wia cache show lists them"
            )
        found = [entry for entry in self.entries if entry.digest.startswith(digest)]
        if len(found) != 1:
            what = f"{len(found)} entries start" if found else "no entry starts"
            raise ArgumentError(
                f"cache: {what} with {digest!r} in {self.path}\n  help: wia cache show lists them"
            )
        return found[0]

    @property
    def _disk(self) -> DiskCache:
        return self._session.disk_cache()

    def _entry(self, info: EntryInfo) -> CacheEntry | None:
        try:
            compiled: dict[str, Any] = json.loads((info.path / COMPILED).read_bytes())
            return CacheEntry(
                info.digest,
                key_from_json(compiled["key"]),
                info.size_bytes,
                info.used_at,
                compiled["compile_time_ns"],
                info.path,
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def __repr__(self) -> str:
        entries = self.entries
        head = (
            f"wia cache {self.path}: {len(entries)} kernel{'s' if len(entries) != 1 else ''}, "
            f"{self.size_bytes / 2**20:.1f} of {self.limit_bytes / 2**20:.0f} MiB"
        )
        return "\n".join([head, *(f"  {entry}" for entry in entries)])


def key_from_json(data: dict[str, Any]) -> CacheKey:
    """The key that ``CacheKey.canonical_json`` wrote."""
    arguments: Sequence[dict[str, Any]] = data["arguments"]
    return CacheKey(
        kernel=data["kernel"],
        sources=tuple(KernelText(**source) for source in data["sources"]),
        arguments=tuple(
            ArgumentKey(a["name"], a["dtype"], tuple(a["shape"]), a["layout"]) for a in arguments
        ),
        target=data["target"],
        options=tuple(data["options"]),
        flags=tuple(data["flags"]),
        versions=tuple(data["versions"]),
    )


cache = Cache(default_session)

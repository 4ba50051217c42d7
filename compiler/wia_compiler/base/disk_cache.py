"""The cache on disk: one folder an entry, written aside and renamed, checked on every read.

An entry is ``<root>/entries/<digest>/`` with ``manifest.json``, which names every other file with
its SHA-256. Whatever is missing, truncated or changed makes the whole entry a miss, and the next
store replaces it. Several processes may read, store and evict the same entries at once: a store
becomes visible in one rename, and whoever loses a race uses what the winner left. Nothing is
forced onto the disk, which would take as long as compiling: what a crash of the machine leaves half
written is found out by its checksums.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import shutil
import time
import uuid
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOGGER = logging.getLogger("wia")

FORMAT = 1
MANIFEST = "manifest.json"
# A staging folder older than this was left by a process that died.
STALE_STAGING_SECONDS = 3600.0
READ_ATTEMPTS = 3
# Other processes store too: count what really lies there after so many stores of our own.
STORES_BETWEEN_SCANS = 32


@dataclass(frozen=True)
class EntryInfo:
    """One entry: its digest, bytes on disk and when it was last used (seconds since the epoch)."""

    digest: str
    size_bytes: int
    used_at: float
    path: Path


@dataclass
class DiskCache:
    """Compiled kernels under ``root``: at most ``limit_bytes``, the least recently used go first.

    A folder that cannot be written is reported once through the log ``wia`` and then left alone;
    compiling goes on without it.
    """

    root: Path
    limit_bytes: int
    _size_bytes: int = field(default=0, init=False)
    _stores: int = field(default=0, init=False)
    _warned: set[str] = field(default_factory=set[str], init=False)

    def read(self, digest: str) -> dict[str, bytes] | None:
        """The files of an entry by name, or ``None`` where there is none that is whole."""
        for _ in range(READ_ATTEMPTS):
            try:
                with _opened(self._folder(digest)) as folder:
                    files = _checked_files(digest, folder)
                    if files is not None:
                        # The time of last use; access times proper are often not kept.
                        with contextlib.suppress(OSError):
                            os.utime(MANIFEST, dir_fd=folder)
                        return files
                    if _is_at(folder, self._folder(digest)):
                        LOGGER.warning(
                            "cache entry %s is damaged and will be compiled anew", digest[:16]
                        )
                        return None
            except FileNotFoundError:
                return None
            except OSError as error:
                self._warn("read", error)
                return None
            # Another process replaced or evicted the entry while we read it.
        return None

    def write(self, digest: str, files: Mapping[str, bytes]) -> bool:
        """Store an entry, replacing what is there; whether it lies on disk now."""
        size_bytes = 0
        staging = self.root / "staging" / f"{digest[:16]}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        try:
            size_bytes = _write_entry(staging, digest, files)
            self._publish(staging, self._folder(digest))
        except OSError as error:
            # Another process stored the key at this very moment: that is as good.
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                self._warn("write", error)
                return False
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        self._size_bytes += size_bytes
        self._stores += 1
        if self._size_bytes > self.limit_bytes or self._stores % STORES_BETWEEN_SCANS == 1:
            self.evict()
        return True

    def extend(self, digest: str, name: str, content: bytes) -> bool:
        """Add a file to an entry that lies there; whether it has it now.

        Readers see the entry without the file or with it. When several processes add one, each
        writes a file of its own, and the manifest that comes last names the one that counts.
        """
        checksum = hashlib.sha256(content).hexdigest()
        try:
            with _opened(self._folder(digest)) as folder:
                manifest: dict[str, Any] = json.loads(_read_in(folder, MANIFEST))
                manifest["added"] = {**manifest.get("added", {}), name: checksum}
                _replace_in(folder, _added_name(name, checksum), content)
                _replace_in(folder, MANIFEST, json.dumps(manifest, separators=(",", ":")).encode())
        except (OSError, ValueError, TypeError, AttributeError):
            return False
        self._size_bytes += len(content)
        return True

    def entries(self) -> list[EntryInfo]:
        """Every entry, most recently used first; those that vanish meanwhile are left out."""
        found: list[EntryInfo] = []
        for folder in _children(self.root / "entries"):
            with contextlib.suppress(OSError):
                used_at = (folder / MANIFEST).stat().st_mtime
                found.append(EntryInfo(folder.name, _size_bytes(folder), used_at, folder))
        return sorted(found, key=lambda entry: (-entry.used_at, entry.digest))

    def evict(self) -> int:
        """Remove the least recently used entries beyond the limit; how many went.

        Folders that an interrupted process left aside go too.
        """
        removed, total_bytes = 0, 0
        self._size_bytes = 0
        for entry in self.entries():
            total_bytes += entry.size_bytes
            if total_bytes > self.limit_bytes:
                self.remove(entry.digest)
                removed += 1
            else:
                self._size_bytes = total_bytes
        oldest = time.time() - STALE_STAGING_SECONDS
        for folder in _children(self.root / "staging"):
            with contextlib.suppress(OSError):
                if folder.stat().st_mtime < oldest:
                    shutil.rmtree(folder, ignore_errors=True)
        return removed

    def remove(self, digest: str) -> None:
        """Remove one entry; it disappears in one step, so that no reader sees half of it."""
        trash = self.root / "staging" / f"trash-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        with contextlib.suppress(OSError):
            trash.parent.mkdir(parents=True, exist_ok=True)
            os.rename(self._folder(digest), trash)
        shutil.rmtree(trash, ignore_errors=True)

    def clear(self) -> int:
        """Remove every entry; how many there were."""
        entries = self.entries()
        for entry in entries:
            self.remove(entry.digest)
        self._size_bytes = 0
        return len(entries)

    def _folder(self, digest: str) -> Path:
        return self.root / "entries" / digest

    def _publish(self, staging: Path, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.rename(staging, folder)
        except OSError:
            # Someone else stored this key first, or what lies there is damaged: that is replaced.
            if _is_whole(folder):
                return
            self.remove(folder.name)
            os.rename(staging, folder)

    def _warn(self, what: str, error: OSError) -> None:
        if what not in self._warned:
            self._warned.add(what)
            LOGGER.warning(
                "cannot %s the cache folder %s (%s): kernels are compiled and run, but not kept; "
                "set WIA_CACHE_DIR to a folder that can be written",
                what,
                self.root,
                error.strerror or error,
            )


@contextlib.contextmanager
def _opened(folder: Path) -> Generator[int]:
    """A descriptor of a folder: it means this very folder, whatever takes its name meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether an open folder still lies at ``path``: a removed entry is renamed before it goes."""
    with contextlib.suppress(OSError):
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    return False


def _is_whole(folder: Path) -> bool:
    try:
        with _opened(folder) as descriptor:
            return _checked_files(folder.name, descriptor) is not None
    except OSError:
        return False


def _checked_files(digest: str, folder: int) -> dict[str, bytes] | None:
    """The files of an open folder, or ``None`` where its manifest is not true of them."""
    try:
        manifest: dict[str, Any] = json.loads(_read_in(folder, MANIFEST))
        if manifest["format"] != FORMAT or manifest["digest"] != digest:
            return None
        added: dict[str, str] = manifest.get("added", {})
        checksums: dict[str, str] = {**manifest["files"], **added}
        files = {
            name: _read_in(folder, _added_name(name, checksum) if name in added else name)
            for name, checksum in checksums.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, OSError):
        return None
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != checksums[name]:
            return None
    return files


def _read_in(folder: int, name: str) -> bytes:
    with open(os.open(name, os.O_RDONLY, dir_fd=folder), "rb") as file:
        return file.read()


def _added_name(name: str, checksum: str) -> str:
    return f"{checksum[:16]}-{name}"


def _replace_in(folder: int, name: str, content: bytes) -> None:
    """Write a file of an open folder; whoever reads it meanwhile sees the old one or the new."""
    aside = f"{name}-{uuid.uuid4().hex[:8]}"
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
    with open(descriptor, "wb") as file:
        file.write(content)
    os.rename(aside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _write_entry(staging: Path, digest: str, files: Mapping[str, bytes]) -> int:
    staging.mkdir(parents=True)
    for name, content in files.items():
        (staging / name).write_bytes(content)
    checksums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = json.dumps(
        {"format": FORMAT, "digest": digest, "files": checksums}, separators=(",", ":")
    ).encode()
    (staging / MANIFEST).write_bytes(manifest)
    return len(manifest) + sum(len(content) for content in files.values())


def _children(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())

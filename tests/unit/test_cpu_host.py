"""What the CPU target knows of a machine."""

from __future__ import annotations

from wia_compiler.backends.cpu.caches import Caches, read_caches, these_caches
from wia_compiler.backends.cpu.host import this_host


def test_cache_sizes_come_from_sysfs(tmp_path) -> None:
    for number, (kind, level, size) in enumerate(
        [("Data", 1, "32K"), ("Instruction", 1, "64K"), ("Unified", 2, "1M"), ("Unified", 3, "x")]
    ):
        index = tmp_path / f"index{number}"
        index.mkdir()
        for name, text in (("type", kind), ("level", level), ("size", size)):
            (index / name).write_text(f"{text}\n")
    assert read_caches(tmp_path) == ((1, 32768), (2, 1 << 20))
    assert read_caches(tmp_path / "none") == ((1, 32 << 10), (2, 256 << 10), (3, 8 << 20))


def test_a_host_knows_its_caches_and_features() -> None:
    host = this_host()
    assert host.caches == these_caches()
    assert 8 << 10 <= host.caches.l1 <= host.caches.l2 <= host.caches.last
    assert Caches(1, 3, 0).last == 3
    assert host.cores >= 1
    assert host.has("sse2") and not host.has("sse9") and not host.has("")

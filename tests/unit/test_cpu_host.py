"""What the CPU target knows of a machine."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from wia_compiler.backends.cpu import host as host_module
from wia_compiler.backends.cpu.caches import Caches, read_caches, these_caches
from wia_compiler.backends.cpu.cores import allowed_share, available_cores
from wia_compiler.backends.cpu.host import named_host, this_host, why_not_here


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


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        ({}, math.inf),
        ({"": "max 100000"}, math.inf),
        ({"": "150000 100000"}, 1.5),
        ({"a": "400000 100000", "a/b": "max 100000"}, 4.0),
        ({"a": "200000 100000", "a/b": "300000 100000"}, 2.0),
        ({"a/b": "nonsense"}, math.inf),
    ],
)
def test_containers_limit_the_cores(limits: dict[str, str], share: float, tmp_path: Path) -> None:
    own = tmp_path / "cgroup"
    own.write_text("1:cpuset:/\n0::/a/b\n")
    for folder, text in limits.items():
        (tmp_path / "groups" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / folder / "cpu.max").write_text(text)
    assert allowed_share(tmp_path / "groups", own) == share
    assert allowed_share(tmp_path / "groups", tmp_path / "none") == math.inf
    assert available_cores() >= 1


def test_code_runs_where_every_feature_is(monkeypatch: pytest.MonkeyPatch) -> None:
    graviton, apple = named_host("neoverse-n1"), named_host("apple-m1")
    assert why_not_here(this_host()) is None
    monkeypatch.setattr(host_module, "this_host", lambda: graviton)
    assert why_not_here(apple) is None and why_not_here(named_host("cortex-a76")) is None
    assert why_not_here(named_host("neoverse-v2")) == "this neoverse-n1 lacks bf16, i8mm"
    assert "is x86_64 code" in str(why_not_here(named_host("haswell")))
    monkeypatch.setattr(host_module, "this_host", lambda: apple)
    assert "keeps register x18 for itself" in str(why_not_here(graviton))

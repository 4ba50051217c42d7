"""Settings are read from the environment at each call, and say which one is wrong."""

from pathlib import Path

import pytest
from wia_compiler.base.settings import Settings


def test_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("CACHE_DIR", "CACHE_SIZE", "NUM_THREADS", "DOT", "NOTEBOOK_STATIC", "VERIFY")
    for name in names:
        monkeypatch.delenv(f"WIA_{name}", raising=False)
    settings = Settings.read()
    assert settings.cache_size_bytes == 1 << 30
    assert settings.dot is None
    assert not settings.notebook_static
    assert "wia-notebook" in str(settings.cache_dir)


@pytest.mark.parametrize(("text", "size"), [("0", 0), ("500M", 500 << 20), ("1.5k", 1536)])
def test_sizes_have_units(monkeypatch: pytest.MonkeyPatch, text: str, size: int) -> None:
    monkeypatch.setenv("WIA_CACHE_SIZE", text)
    assert Settings.read().cache_size_bytes == size


@pytest.mark.parametrize(
    ("name", "text"),
    [("WIA_CACHE_SIZE", "much"), ("WIA_NUM_THREADS", "0"), ("WIA_NUM_THREADS", "two")],
)
def test_a_wrong_value_is_named(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(name, text)
    with pytest.raises(ValueError, match=f"{name}='{text}'"):
        Settings.read()


def test_the_cache_folder_expands_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WIA_CACHE_DIR", "~/kernels")
    assert Settings.read().cache_dir == tmp_path / "kernels"

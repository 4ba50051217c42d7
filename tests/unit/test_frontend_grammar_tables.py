"""The tables of the grammar are kept in the cache folder; without them all works the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from wia_compiler.base.errors import CompileError
from wia_compiler.base.source import Source
from wia_compiler.frontend import dsl

TEXT = "kernel k(input A: tensor) { return A // 2; }\nfunc @f(%x: tensor) { return %x }\n"
WRONG = "kernel k(input A: tensor { C = A + ; }"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    return tmp_path / "grammar"


def read_anew(monkeypatch: pytest.MonkeyPatch) -> tuple[object, str]:
    """What a fresh process reads of the two texts."""
    fresh = dsl._parser.__wrapped__()  # pyright: ignore
    monkeypatch.setattr(dsl, "_parser", lambda: fresh)
    with pytest.raises(CompileError) as caught:
        dsl.parse(Source(WRONG))
    return dsl.parse(Source(TEXT)), str(caught.value)


def test_tables_are_kept_and_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = dsl.parse(Source(TEXT))
    first = read_anew(monkeypatch)
    (file,) = folder.iterdir()
    before = file.stat().st_mtime_ns
    monkeypatch.undo()
    monkeypatch.setenv("WIA_CACHE_DIR", str(folder.parent))
    assert read_anew(monkeypatch) == first == (plain, first[1])
    assert file.stat().st_mtime_ns == before


def test_damaged_tables_are_made_anew(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read_anew(monkeypatch)
    (file,) = folder.iterdir()
    whole = file.read_bytes()
    for damage in (b"", b"nonsense", whole[: len(whole) // 2]):
        file.write_bytes(damage)
        monkeypatch.undo()
        monkeypatch.setenv("WIA_CACHE_DIR", str(folder.parent))
        assert read_anew(monkeypatch) == first
        assert len(file.read_bytes()) > len(damage)


def test_a_folder_that_cannot_be_is_no_hindrance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path / "file"))
    assert read_anew(monkeypatch)[0] == dsl.parse(Source(TEXT))

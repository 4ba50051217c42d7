"""The cache in memory and on disk: keys, damage, eviction, folders that cannot be used."""

import errno
import json
import logging
import os
import resource
from pathlib import Path

import numpy as np
import pytest
from runtime_fakes import FakeCompiler, FakeTarget, fake_program, fake_session
from wia_compiler.base import disk_cache
from wia_compiler.base.disk_cache import DiskCache
from wia_compiler.base.errors import ArgumentError, WiaError
from wia_compiler.passes.options import CompileOptions
from wia_compiler.runtime.cache import Cache, key_from_json
from wia_compiler.runtime.session import Session, recording

PROGRAM = "kernel add(input A: tensor, input B: tensor, output C: tensor) { C = A + B; }"
A = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    return tmp_path


def add_in_new_process(compiler: FakeCompiler):
    """The kernel as a process that has nothing in memory sees it."""
    return fake_program(PROGRAM, fake_session(compiler)).add


def entry_files(folder: Path) -> list[Path]:
    return sorted((folder / "kernels" / "entries").glob("*/*"))


def test_miss_then_memory_then_disk(folder):
    compiler = FakeCompiler()
    kernel = add_in_new_process(compiler)
    first = kernel.build(A, A)
    assert first.cache.hit == "miss" and first.cache.compile_time_ns > 0
    assert kernel.build(A, A).cache.hit == "memory"
    later = add_in_new_process(compiler).build(A, A)
    assert later.cache.hit == "disk" and compiler.calls == ["add"]
    assert later.cache.digest == first.cache.digest
    assert later.cache.compile_time_ns == first.cache.compile_time_ns
    assert later.trace == first.trace
    assert later.artifact == first.artifact
    assert (later.inputs, later.outputs) == (first.inputs, first.outputs)
    assert (later.flops, later.size_bytes) == (first.flops, first.size_bytes)
    np.testing.assert_array_equal(later(A, A), A * 2)


def test_the_record_is_kept_once_someone_has_looked(folder):
    compiler = FakeCompiler()
    first = add_in_new_process(compiler).build(A, A)
    assert not any(path.name.endswith("trace.json") for path in entry_files(folder))
    unseen = add_in_new_process(compiler).build(A, A)
    assert unseen.cache.hit == "disk" and compiler.records == [False]
    assert unseen.trace == first.trace and compiler.records == [False, True]
    assert any(path.name.endswith("trace.json") for path in entry_files(folder))
    later = add_in_new_process(compiler).build(A, A)
    assert later.trace == first.trace and compiler.records == [False, True]


def test_who_looks_anyway_has_the_record_made_at_once(folder):
    compiler = FakeCompiler()
    with recording():
        add_in_new_process(compiler).build(A, A)
        with recording(False):
            add_in_new_process(compiler).build(A[:1], A[:1])
    add_in_new_process(compiler).build(A.T, A.T)
    assert compiler.records == [True, False, False]


def test_a_record_whose_kernel_is_gone_is_not_kept(folder):
    build = add_in_new_process(FakeCompiler()).build(A, A)
    Cache(fake_session).clear()
    assert build.trace.kernel == "add" and entry_files(folder) == []


def test_a_cell_run_again_finds_its_kernel_in_memory(folder):
    session = fake_session()
    fake_program(PROGRAM, session).add.build(A, A)
    assert fake_program(PROGRAM, session).add.build(A, A).cache.hit == "memory"


def test_the_record_shows_the_text_of_this_moment(folder):
    session = fake_session()
    fake_program(PROGRAM + "\n// one", session, "In [1]").add.build(A, A)
    later = fake_program(PROGRAM + "\n// two", session, "In [2]").add.build(A, A)
    assert later.cache.hit == "memory"
    assert later.trace.source == PROGRAM + "\n// two" and later.trace.source_name == "In [2]"
    assert later.stage("source").text == PROGRAM


def keys(*programs, arguments=(A, A), session=None):
    session = session or fake_session()
    return [fake_program(p, session).add.build(*arguments).cache.key for p in programs]


def test_the_key_holds_all_that_code_depends_on(folder):
    base, text, moved = keys(PROGRAM, PROGRAM.replace("A + B", "B + A"), "\n" + PROGRAM)
    (shape,) = keys(PROGRAM, arguments=(A[:1], A[:1]))
    (dtype,) = keys(PROGRAM, arguments=(A.astype("f8"), A.astype("f8")))
    (layout,) = keys(PROGRAM, arguments=(A.T, A.T))
    (options,) = keys(
        PROGRAM, session=Session(FakeCompiler(), lambda name: FakeTarget(name, ("option 2",)))
    )
    target = fake_program(PROGRAM).add.build(A, A, target="other").cache.key
    all_keys = [base, text, moved, shape, dtype, layout, options, target]
    assert len({key.digest for key in all_keys}) == len(all_keys)
    assert keys(PROGRAM)[0] == base


def test_the_key_follows_called_kernels_and_no_others(folder):
    text = """kernel half(input A: tensor, output B: tensor) {{ B = A * {}; }}
kernel add(input A: tensor, input B: tensor, output C: tensor) {{ C = half(A) + B; }}
kernel other(input A: tensor, output B: tensor) {{ B = A + {}; }}"""
    base, callee, unrelated = keys(
        text.format("0.5", "1.0"), text.format("0.6", "1.0"), text.format("0.5", "2.0")
    )
    assert base != callee and base == unrelated


def test_the_digest_is_the_sha256_of_canonical_json(folder):
    import hashlib

    (key,) = keys(PROGRAM)
    assert key.digest == hashlib.sha256(key.canonical_json.encode()).hexdigest()
    assert key_from_json(json.loads(key.canonical_json)) == key
    assert [entry.name for entry in (folder / "kernels" / "entries").iterdir()] == [key.digest]


def damaged(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0x20]) + content[position + 1 :]


@pytest.mark.parametrize("name", ["manifest.json", "compiled.json", "trace.json", "kernel.wia"])
def test_flipped_bytes_are_noticed_and_healed(folder, name):
    compiler = FakeCompiler()
    assert add_in_new_process(compiler).build(A, A).trace.kernel == "add"
    (path,) = (p for p in entry_files(folder) if p.name.endswith(name))
    whole = path.read_bytes()
    for position in range(0, len(whole), max(1, len(whole) // 12)):
        path.write_bytes(damaged(whole, position))
        build = add_in_new_process(compiler).build(A, A)
        assert build.cache.hit == "miss", f"byte {position} of {name} was trusted"
        assert build.trace.kernel == "add"
        np.testing.assert_array_equal(build(A, A), A * 2)
        assert add_in_new_process(compiler).build(A, A).cache.hit == "disk", "not healed"


@pytest.mark.parametrize("name", ["manifest.json", "compiled.json", "trace.json", "kernel.wia"])
@pytest.mark.parametrize("keep", [0, 1, -1, None], ids=["empty", "one byte", "one less", "gone"])
def test_truncated_and_missing_files_are_noticed_and_healed(folder, name, keep):
    compiler = FakeCompiler()
    assert add_in_new_process(compiler).build(A, A).trace.kernel == "add"
    (path,) = (p for p in entry_files(folder) if p.name.endswith(name))
    if keep is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:keep])
    assert add_in_new_process(compiler).build(A, A).cache.hit == "miss"
    assert add_in_new_process(compiler).build(A, A).cache.hit == "disk"


def test_damage_is_reported_in_the_log(folder, caplog):
    add_in_new_process(FakeCompiler()).build(A, A)
    path = entry_files(folder)[0]
    path.write_bytes(b"")
    with caplog.at_level(logging.WARNING, "wia"):
        add_in_new_process(FakeCompiler()).build(A, A)
    assert "is damaged and will be compiled anew" in caplog.text


@pytest.mark.parametrize("stored_anew", [True, False])
@pytest.mark.parametrize("reads_before", [0, 1, 2])
def test_an_entry_that_goes_while_it_is_read_is_not_damaged(
    tmp_path, monkeypatch, caplog, stored_anew, reads_before
):
    """Eviction and a store of the same bytes may fall between any two of a reader's steps."""
    cache, other = DiskCache(tmp_path, 10**6), DiskCache(tmp_path, 10**6)
    files = {"a": b"first", "b": b"second"}
    assert cache.write("0" * 64, files)
    read_in, steps = disk_cache._read_in, []

    def read_while_another_process_replaces(descriptor: int, name: str) -> bytes:
        steps.append(name)
        if len(steps) == reads_before + 1:
            other.remove("0" * 64)
            if stored_anew:
                monkeypatch.setattr(disk_cache, "_read_in", read_in)
                other.write("0" * 64, files)
        return read_in(descriptor, name)

    monkeypatch.setattr(disk_cache, "_read_in", read_while_another_process_replaces)
    assert cache.read("0" * 64) == (files if stored_anew else None)
    assert caplog.text == ""


def test_compiling_is_logged_and_nothing_is_printed(folder, caplog, capfd):
    with caplog.at_level(logging.INFO, "wia"):
        kernel = add_in_new_process(FakeCompiler())
        kernel(A, A)
        kernel(A, A)
    (record,) = caplog.records
    assert record.getMessage().startswith("JIT add: ") and record.getMessage().endswith(" ms")
    assert capfd.readouterr() == ("", "")


UNUSABLE = {
    "a file": lambda folder: _file(folder / "file"),
    "below a file": lambda folder: _file(folder / "file") / "deeper",
    "not allowed": lambda folder: Path("/proc/wia-cache"),
}


def _file(path: Path) -> Path:
    path.write_text("not a folder")
    return path


@pytest.mark.parametrize("place", UNUSABLE.values(), ids=UNUSABLE)
def test_an_unusable_folder_is_reported_once_and_kernels_run(tmp_path, monkeypatch, caplog, place):
    where = place(tmp_path)
    monkeypatch.setenv("WIA_CACHE_DIR", str(where))
    kernel = add_in_new_process(FakeCompiler())
    with caplog.at_level(logging.WARNING, "wia"):
        for array in (A, A[:1], A.T):
            np.testing.assert_array_equal(kernel(array, array), array * 2)
    said = [record.getMessage() for record in caplog.records if "write" in record.getMessage()]
    assert len(said) == 1
    assert str(where) in said[0] and "WIA_CACHE_DIR" in said[0]


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_read_only_and_full_folders(folder, monkeypatch, caplog, number):
    def fails(path, content):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(disk_cache.Path, "write_bytes", fails)
    kernel = add_in_new_process(FakeCompiler())
    with caplog.at_level(logging.WARNING, "wia"):
        np.testing.assert_array_equal(kernel(A, A), A * 2)
        kernel(A[:1], A[:1])
    assert len(caplog.records) == 1 and os.strerror(number) in caplog.text
    assert entry_files(folder) == [] and list((folder / "kernels" / "staging").iterdir()) == []


def test_a_file_that_the_system_cuts_short_is_no_entry(folder, caplog):
    """The kernel stops the write in the middle, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    cache = DiskCache(folder / "kernels", 1 << 30)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        stored = cache.write("d" * 64, {"kernel.o": b"x" * 5000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not stored and cache.entries() == [] and cache.read("d" * 64) is None
    assert list((folder / "kernels" / "staging").iterdir()) == []


def test_settings_that_cannot_be_read_name_the_variable(folder, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_SIZE", "plenty")
    with pytest.raises(WiaError, match="WIA_CACHE_SIZE='plenty'"):
        add_in_new_process(FakeCompiler()).build(A, A)


def test_the_least_recently_used_entries_go_first(tmp_path):
    cache = DiskCache(tmp_path, limit_bytes=3500)
    for index, digest in enumerate("abc"):
        assert cache.write(digest, {"kernel.o": bytes(1000)})
        os.utime(tmp_path / "entries" / digest / "manifest.json", (index, index))
    assert cache.read("a") is not None  # now the most recent one
    cache.write("d", {"kernel.o": bytes(1000)})
    assert {entry.digest for entry in cache.entries()} == {"a", "c", "d"}
    assert sum(entry.size_bytes for entry in cache.entries()) <= 3500


def test_an_entry_beyond_the_limit_is_not_kept_and_zero_keeps_nothing(tmp_path):
    cache = DiskCache(tmp_path, limit_bytes=0)
    cache.write("a", {"kernel.o": b"1"})
    assert cache.entries() == []


def test_what_a_dead_process_left_aside_is_cleaned_up(tmp_path):
    stale, fresh = tmp_path / "staging" / "stale", tmp_path / "staging" / "fresh"
    stale.mkdir(parents=True)
    fresh.mkdir()
    os.utime(stale, (0, 0))
    DiskCache(tmp_path, limit_bytes=1 << 20).evict()
    assert not stale.exists() and fresh.exists()


def test_storing_what_someone_else_stored_keeps_theirs(tmp_path):
    first, second = DiskCache(tmp_path, 1 << 20), DiskCache(tmp_path, 1 << 20)
    assert first.write("a", {"kernel.o": b"first"})
    assert second.write("a", {"kernel.o": b"second"})
    assert second.read("a") == {"kernel.o": b"first"}


def test_cache_shows_explains_and_clears(folder):
    session = fake_session()
    cache = Cache(lambda: session)
    assert cache.entries == [] and cache.path == folder / "kernels"
    build = fake_program(PROGRAM, session).add.build(A, A.copy())
    (entry,) = cache.entries
    assert entry.digest == build.cache.digest and entry.key == build.cache.key
    assert (
        cache.size_bytes == entry.size_bytes == sum(p.stat().st_size for p in entry_files(folder))
    )
    assert "add(A=f32[2,3], B=f32[2,3])" in repr(cache) and "1 kernel," in repr(cache)
    explained = cache.explain(entry.digest[:8])
    assert explained == cache.explain(build.cache.key)
    for part in ("C = A + B;", "A = f32[2,3] C", "cpu", "option 1", "xdsl ", entry.digest):
        assert part in explained
    with pytest.raises(ArgumentError, match="too short"):
        cache.explain(entry.digest[:3])
    with pytest.raises(ArgumentError, match="no entry starts with 'zzzz'"):
        cache.explain("zzzz")
    assert cache.clear() == 1 and cache.entries == []
    assert fake_program(PROGRAM, session).add.build(A, A).cache.hit == "miss"


def test_threads_compile_one_key_once(folder):
    from concurrent.futures import ThreadPoolExecutor

    compiler = FakeCompiler(delay_s=0.02)
    kernel = add_in_new_process(compiler)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: kernel(A, A), range(16)))
    assert compiler.calls == ["add"]
    for result in results:
        np.testing.assert_array_equal(result, A * 2)


def test_memory_holds_a_bounded_number_of_kernels(folder, monkeypatch):
    from wia_compiler.runtime import session as session_module

    monkeypatch.setattr(session_module, "MEMORY_ENTRIES", 2)
    kernel = add_in_new_process(FakeCompiler())
    for size in (1, 2, 3):
        kernel.build(A.ravel()[:size], A.ravel()[:size])
    assert kernel.build(A.ravel()[:3], A.ravel()[:3]).cache.hit == "memory"
    assert kernel.build(A.ravel()[:1], A.ravel()[:1]).cache.hit == "disk"


def test_debug_and_verify_reach_the_compiler_and_only_debug_the_key(folder):
    compiler = FakeCompiler()
    session = fake_session(compiler)
    kernel = fake_program(PROGRAM, session).add
    plain = kernel.build(A, A).cache
    debugged = kernel.build(A, A, debug=True).cache
    assert plain.digest != debugged.digest and "debug" in debugged.key.flags
    verified = kernel.build(A, A, verify=True).cache
    again = kernel.to(verify=True).build(A, A).cache
    assert verified.digest == plain.digest and verified.hit == again.hit == "miss"
    assert [(o.debug, o.verify) for o in compiler.options] == [
        (False, False),
        (True, False),
        (False, True),
        (False, True),
    ]
    assert kernel.to(debug=True).build(A, A).cache.hit == "memory"
    assert kernel.to("other", debug=True).to(verify=True).options == CompileOptions(True, True)
    assert kernel.options == CompileOptions()

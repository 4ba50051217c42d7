"""Measured ceilings: real loops on this machine, kept on disk; no speed is asserted."""

import json
from dataclasses import replace

import numpy as np
import pytest
from wia_compiler.profiler import ceilings as ceilings_module
from wia_compiler.profiler.ceilings import (
    Ceiling,
    Ceilings,
    ceilings_path,
    from_json,
    measured_ceilings,
    to_json,
)
from wia_compiler.profiler.machine import Machine, this_machine
from wia_compiler.profiler.micro_kernels import FMA_SUMS, compile_micro_kernels, module_text
from wia_compiler.profiler.probes import Probe

ROWS = Ceilings("m", (Ceiling("L1", "memory", 1e9, "measured", 32768),), None)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A cache folder of its own for each test."""
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module")
def code():
    """The loops, compiled once."""
    return compile_micro_kernels(this_machine())


def aligned(elements: int) -> np.ndarray:
    """f32 elements that begin at a multiple of 64 bytes."""
    raw = np.zeros(elements + 16, np.float32)
    skip = -raw.ctypes.data % 64 // 4
    return raw[skip : skip + elements]


def test_ceilings_of_this_machine_are_complete_and_kept(folder, monkeypatch) -> None:
    found = measured_ceilings()
    machine = this_machine()
    names = [f"L{level}" for level, _ in machine.caches]
    assert [each.name for each in found.memories] == [*names, "DRAM"]
    assert [each.capacity for each in found.memories] == [*(s for _, s in machine.caches), None]
    assert [each.name for each in found.rates] == ["f32 FMA", "f64 FMA"]
    assert all(0 < each.value < 1e15 for each in found.ceilings)
    assert all(each.source == "measured on this machine, 1 thread" for each in found.ceilings)
    assert found.rate_for("bf16") is found.rate_for("f32") is found.rates[0]
    assert found.rate_for("i32") is None
    assert from_json(ceilings_path(machine, 1).read_text(encoding="utf-8")) == found
    assert [path.suffix for path in (folder / "ceilings").iterdir()] == [".json"]

    def again(*_: object, **__: object) -> Ceilings:
        raise AssertionError("measured twice")

    monkeypatch.setattr("wia_compiler.profiler.probes.measure_ceilings", again)
    assert measured_ceilings() == found
    with pytest.raises(AssertionError, match="measured twice"):
        measured_ceilings(refresh=True)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"ceilings": []}', "null", "\x00\xff"])
def test_a_damaged_file_is_measured_anew_and_healed(content, monkeypatch) -> None:
    monkeypatch.setattr("wia_compiler.profiler.probes.measure_ceilings", lambda *_, **__: ROWS)
    path = ceilings_path(this_machine(), 1)
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    assert measured_ceilings() == ROWS
    assert from_json(path.read_text(encoding="utf-8")) == ROWS


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), "fast", None])
def test_nonsense_values_are_not_believed(value) -> None:
    data = json.loads(to_json(ROWS))
    data["ceilings"][0]["value"] = value
    with pytest.raises((ValueError, TypeError)):
        from_json(json.dumps(data))


def test_a_folder_that_cannot_be_written_costs_only_the_keeping(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("wia_compiler.profiler.probes.measure_ceilings", lambda *_, **__: ROWS)
    file = tmp_path / "file"
    file.write_text("not a folder")
    monkeypatch.setenv("WIA_CACHE_DIR", str(file))
    assert measured_ceilings() == ROWS


def test_each_machine_and_number_of_threads_has_a_file_of_its_own() -> None:
    machine = Machine("zen", "+avx", "EPYC", 2, ((1, 32768),))
    others = [replace(machine, cpu="x"), replace(machine, caches=((1, 65536),))]
    paths = {ceilings_path(each, 1) for each in (machine, *others)} | {ceilings_path(machine, 2)}
    assert len(paths) == 4
    assert ceilings_path(machine, 1) == ceilings_path(replace(machine), 1)


@pytest.mark.parametrize(
    ("features", "width"), [("+sse2", 16), ("+avx,+avx2", 32), ("+avx,+avx512f", 64), ("-avx", 16)]
)
def test_vector_width_follows_the_features(features, width) -> None:
    assert Machine("c", features, "m", 1, ()).vector_bytes == width
    assert f"<{width // 4} x float>" in module_text(width)


def test_the_fma_loop_multiplies_and_adds(code) -> None:
    lanes = this_machine().vector_bytes // 4
    buffer = aligned((FMA_SUMS + 2) * lanes)
    buffer[:lanes], buffer[lanes : 2 * lanes] = 0.5, 3.0
    code.kernels["fma_f32"](buffer.ctypes.data, 4, 0)
    expected = 3.0
    for _ in range(4):
        expected = expected * 0.5 + 3.0
    np.testing.assert_array_equal(buffer[2 * lanes :], np.float32(expected))


def test_the_read_loop_reads_every_element(code) -> None:
    lanes = this_machine().vector_bytes // 4
    elements = 16 * lanes
    buffer = aligned(elements).view(np.int32)
    buffer[:] = np.arange(elements)
    expected = np.arange(elements).reshape(-1, lanes).sum(0)
    code.kernels["read"](buffer.ctypes.data, elements, 1)
    np.testing.assert_array_equal(buffer[:lanes], expected)


@pytest.mark.parametrize("name", ["triad", "stream"])
def test_the_triad_loops_write_every_element(code, name) -> None:
    elements = 16 * this_machine().vector_bytes // 4
    buffer = aligned(3 * elements)
    a, b, c = buffer.reshape(3, elements)
    b[:], c[:] = np.arange(elements), 2
    code.kernels[name](buffer.ctypes.data, elements, 2)
    np.testing.assert_array_equal(a, np.arange(elements) + 4)


def test_a_probe_takes_its_best_samples_of_all_cores() -> None:
    probe = Probe("p", 10.0, lambda core: None)
    probe.samples = [[2.0, 1.0, 5.0], [4.0, 2.5]]
    assert probe.rate() == 10 / 1.0 + 10 / 2.5
    calm = Probe("p", 10.0, lambda core: None, quantile=0.5)
    calm.samples = [[2.0, 1.0, 5.0]]
    assert calm.rate() == 10 / 2.0


def test_importing_the_profiler_measures_nothing() -> None:
    assert not hasattr(ceilings_module, "measure_ceilings")

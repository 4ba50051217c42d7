"""Targets by name: found by folder, families, unknown names, simulators."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.runtime import targets as targets_module
from wia_compiler.runtime.targets import families, make_target

TEXT = """
kernel mm(input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor) {
  C = relu(A @ B);
}
"""


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("WIA_CACHE_DIR", str(tmp_path))


def test_every_folder_with_a_target_is_a_family():
    folder = Path(targets_module.__file__).parents[1] / "backends"
    assert set(families()) == {path.parent.name for path in folder.glob("*/target.py")}
    assert {"cpu", "gpu", "tpu"} <= set(families())


def test_every_listed_name_makes_the_target_of_that_name():
    names = wia.targets()
    assert len(names) == len(set(names))
    for name in names:
        assert make_target(name).name == name


def test_a_familys_name_alone_is_its_default():
    assert make_target("cpu").name == "cpu"
    assert make_target("gpu").name == "gpu:sm_90"
    assert make_target("tpu").name == "tpu:spec"


@pytest.mark.parametrize(
    ("name", "near"),
    [("gpu:sm_91", "gpu:sm_90"), ("cpuu", "cpu"), ("GPU", None), ("", None), ("npu", None)],
)
def test_unknown_names_list_what_there_is(name, near):
    with pytest.raises(wia.TargetError) as caught:
        make_target(name)
    message = str(caught.value)
    assert f"no target {name!r}" in message and "gpu:sm_90" in message and "tpu:spec" in message
    if near is not None:
        assert f"did you mean {near!r}" in message


def test_kernels_refuse_unknown_targets_at_once():
    kernel = wia.compile(TEXT).mm
    with pytest.raises(wia.TargetError, match="no target 'gpu:sm_1'"):
        kernel.to("gpu:sm_1")
    with pytest.raises(wia.TargetError, match="no target 'gpu:sm_1'"):
        kernel.build(wia.spec((4, 4)), wia.spec((4, 4)), target="gpu:sm_1")


def test_a_target_without_hardware_runs_on_its_simulator():
    kernel = wia.compile(TEXT).mm.to("tpu")
    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    build = kernel.build(a, a.T)
    assert build.target.name == "tpu:spec" and build.simulated
    # Small whole numbers are exact in bf16.
    np.testing.assert_array_equal(kernel(a, a.T), np.maximum(a @ a.T, 0))
    counters = build.prepare(a, a.T).execute()
    assert counters["cycles"] > 0
    assert "systolic_execute" in build.assembly("tpu")


def test_the_cpu_is_no_simulator():
    a = np.ones((2, 2), np.float32)
    assert not wia.compile(TEXT).mm.build(a, a).simulated


def test_a_gpu_kernel_is_built_without_a_gpu():
    build = wia.compile(TEXT).mm.build(wia.spec((4, 4)), wia.spec((4, 4)), target="gpu:sm_90")
    assert ".target sm_90" in build.assembly("ptx")


def test_the_cpu_family_alone_is_imported_for_the_cpu():
    script = (
        "import sys; from wia_compiler.runtime.targets import make_target; make_target('cpu');"
        "print([n for n in sys.modules if n.startswith(('wia_compiler.backends.gpu',"
        " 'wia_compiler.backends.tpu', 'wia_compiler.simulators'))])"
    )
    environment = {"PYTHONPATH": str(Path(wia.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "[]\n", done.stderr

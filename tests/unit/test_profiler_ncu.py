"""What Nsight Compute prints, read from texts of our own in its documented form."""

import json
import sys

import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.errors import TargetError
from wia_compiler.profiler import ncu
from wia_compiler.profiler.ncu import (
    METRICS,
    MeasuredLaunch,
    ncu_command,
    parse_instructions,
    parse_metrics,
    sums_of,
)
from wia_compiler.runtime import measured, run_artifact

HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"'
)


def row(number, kernel, metric, unit, value):
    return (
        f'"{number}","7","python","here","{kernel}","1","7","(256, 1, 1)","(64, 1, 1)","0","9.0",'
        f'"Command line profiler metrics","{metric}","{unit}","{value}"'
    )


DETAILS = "\n".join(
    [
        "==PROF== Connected to process 7",
        '==PROF== Profiling "mm_kernel" - 0: 0%....50%....100% - 4 passes',
        HEAD,
        row(0, "mm_kernel", "smsp__inst_executed.sum", "inst", "738,816"),
        row(0, "mm_kernel", "gpu__time_duration.sum", "usecond", "11.50"),
        row(0, "mm_kernel", "dram__bytes.sum", "Mbyte", "1.5"),
        row(0, "mm_kernel", "sm__warps_active.avg.pct_of_peak_sustained_active", "%", "43.25"),
        row(0, "mm_kernel", "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum", "sector", "n/a"),
        row(1, "softmax", "smsp__inst_executed.sum", "inst", "1,000"),
        row(1, "softmax", "sm__warps_active.avg.pct_of_peak_sustained_active", "%", "50"),
        "==PROF== Disconnected from process 7",
    ]
)


def test_a_row_for_each_launch_and_metric():
    first, second = parse_metrics(DETAILS)
    assert first.kernel == "mm_kernel" and second.kernel == "softmax"
    assert first.metrics == {
        "smsp__inst_executed.sum": 738816,
        "gpu__time_duration.sum": pytest.approx(11.5e-6),
        "dram__bytes.sum": 1.5e6,
        "sm__warps_active.avg.pct_of_peak_sustained_active": 43.25,
    }


def test_sums_are_added_and_shares_are_not():
    found = sums_of(parse_metrics(DETAILS))
    assert found["smsp__inst_executed.sum"] == 739816
    assert "sm__warps_active.avg.pct_of_peak_sustained_active" not in found
    (only,) = [MeasuredLaunch("k", {"a.avg.pct": 3.0, "b.sum": 2.0})]
    assert sums_of([only]) == only.metrics
    assert sums_of([]) == {}


SOURCE = """==PROF== Connected to process 7
"Kernel Name","mm_kernel"
"#","Address","Source","Warp Stall Sampling (All Samples)","# Samples","Instructions Executed"
"1","0x7f3a00000100","LDC R1, c[0x0][0x28]","0","0","1,024"
"2","0x7f3a00000110","@P0 EXIT","3","3","1,024"
"3","0x7f3a00000120","EXIT","0","0","512"
"Kernel Name","softmax(float*, float*)"
"Address","Source","Instructions Executed"
"0x100","EXIT","7"
"Kernel Name","mm_kernel"
"#","Address","Source","Warp Stall Sampling (All Samples)","# Samples","Instructions Executed"
"1","0x7f3a00000100","LDC R1, c[0x0][0x28]","0","0","6"
"""


def test_executions_of_each_instruction_by_its_offset():
    assert parse_instructions(SOURCE) == {
        ("mm_kernel", 0x00): 1030,
        ("mm_kernel", 0x10): 1024,
        ("mm_kernel", 0x20): 512,
        ("softmax", 0): 7,
    }


@pytest.mark.parametrize("parse", [parse_metrics, parse_instructions])
def test_what_ncu_says_instead_of_a_table_is_told(parse):
    with pytest.raises(TargetError, match="NVreg_RestrictProfilingToAdminUsers=0"):
        parse("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
    with pytest.raises(TargetError, match="No kernels were profiled"):
        parse("==WARNING== No kernels were profiled.")
    with pytest.raises(TargetError, match="it printed nothing"):
        parse("")


def test_a_table_of_instructions_without_their_number():
    with pytest.raises(TargetError, match="no column 'Instructions Executed'"):
        parse_instructions('"Kernel Name","k"\n"Address","Source"\n"0x0","EXIT"\n')


def test_the_command_asks_for_what_is_read():
    command = ncu_command("ncu", ["python", "x.py"], by_instruction=False)
    assert command[command.index("--metrics") + 1].split(",") == list(METRICS)
    assert command[-2:] == ["python", "x.py"] and "--csv" in command
    source = ncu_command("ncu", ["x"], by_instruction=True)
    assert source[source.index("--page") + 1] == "source" and "--metrics" not in source
    assert len(set(METRICS)) == len(METRICS)


def test_without_a_gpu_or_ncu_it_is_said(monkeypatch):
    build = wia.compile("kernel f(input A: tensor, output C: tensor) { C = A + 1.0; }").f.build(
        wia.spec((8,), "f32"), target="gpu:sm_80"
    )
    a = np.ones(8, np.float32)
    monkeypatch.setattr(measured, "gpu_is_here", lambda: False)
    with pytest.raises(TargetError, match="no GPU of this machine"):
        measured.measure_counters(build.artifact, [a], build.outputs)
    monkeypatch.setattr(measured, "gpu_is_here", lambda: True)
    monkeypatch.setattr(ncu.shutil, "which", lambda *names, **options: None)
    with pytest.raises(TargetError, match="ncu, which was not found on PATH or in CUDA_HOME"):
        measured.measure_counters(build.artifact, [a], build.outputs)


VIEWS = {
    "dense": lambda x: x,
    "reversed": lambda x: x[::-1, ::2],
    "turned": lambda x: x.T,
    "one row": lambda x: np.broadcast_to(x[1], x.shape),
    "nothing": lambda x: x[:0],
    "one": lambda x: x[2, 3],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dtype", ["f32", "bf16", "bool"])
def test_a_run_is_written_with_the_strides_of_its_arrays(name, dtype, tmp_path):
    kind = wia.spec((1,), dtype).dtype.numpy
    x = VIEWS[name](np.arange(48).reshape(6, 8).astype(kind))
    build = wia.compile("kernel f(input A: tensor, output C: tensor) { C = A; }").f.build(
        x, target="gpu:sm_80"
    )
    measured.write_run(tmp_path, build.artifact, [x], build.outputs)
    again = measured.read_array(tmp_path / "input0.npz")
    assert again.strides == x.strides and again.dtype == x.dtype
    np.testing.assert_array_equal(again, x)


def test_the_watched_process_runs_the_artifact(tmp_path, monkeypatch):
    build = wia.compile("kernel f(input A: tensor, output C: tensor) { C = A + 1.0; }").f.build(
        wia.spec((8,), "f32"), target="gpu:sm_80"
    )
    a, ran = np.arange(8, dtype=np.float32), []
    measured.write_run(tmp_path, build.artifact, [a], build.outputs)

    def load(artifact):
        assert artifact.files == build.artifact.files
        assert dict(artifact.metadata) == json_like(build.artifact.metadata)
        return lambda inputs, outputs: ran.append((inputs, outputs))

    monkeypatch.setattr(run_artifact, "load_on_gpu", load)
    run_artifact.run_folder(tmp_path)
    ((inputs, outputs),) = ran
    np.testing.assert_array_equal(inputs[0], a)
    assert outputs[0].shape == (8,) and outputs[0].dtype == np.float32


def json_like(data):
    return json.loads(json.dumps(dict(data)))


def test_a_fake_ncu_is_run_and_read(tmp_path, monkeypatch):
    """The whole way, with a program that prints what ncu would."""
    for name, text in (("details", DETAILS), ("source", SOURCE)):
        (tmp_path / name).write_text(text)
    fake = tmp_path / "ncu"
    fake.write_text(
        f"#!{sys.executable}\nimport sys\n"
        "page = sys.argv[sys.argv.index('--page') + 1]\n"
        f"print(open(r'{tmp_path}/' + page).read())\n"
        "folder = sys.argv[-1]\n"
        "assert open(folder + '/run.json').read() and sys.argv[-2].endswith('run_artifact')\n"
    )
    fake.chmod(0o755)
    build = wia.compile("kernel f(input A: tensor, output C: tensor) { C = A; }").f.build(
        wia.spec((8,), "f32"), target="gpu:sm_80"
    )
    monkeypatch.setattr(measured, "gpu_is_here", lambda: True)
    monkeypatch.setattr(measured, "require_ncu", lambda: str(fake))
    found = measured.measure_counters(build.artifact, [np.ones(8, np.float32)], build.outputs)
    assert found.counters["smsp__inst_executed.sum"] == 739816
    assert found.by_offset[("mm_kernel", 0)] == 1030
    fake.write_text(
        f"#!{sys.executable}\nprint('==ERROR== ERR_NVGPUCTRPERM')\nraise SystemExit(1)\n"
    )
    with pytest.raises(TargetError, match="ncu failed: this user may not read") as caught:
        measured.measure_counters(build.artifact, [np.ones(8, np.float32)], build.outputs)
    assert "reproduce: " in str(caught.value)

"""The bench: every workload compiles and agrees, and the harness notices what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The bench's modules, which import each other by their short names."""
    monkeypatch.syspath_prepend(str(BENCH))
    before = set(sys.modules)
    import contenders
    import report
    import worker
    import workloads

    class Bench:
        pass

    bench = Bench()
    bench.__dict__.update(contenders=contenders, report=report, worker=worker, workloads=workloads)
    yield bench
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in {path.stem for path in BENCH.iterdir()}:
            del sys.modules[name]


def small(workloads: Any) -> list[Any]:
    """Every family at a size that takes no time."""
    return [
        workloads.elementwise(17, 1.0),
        workloads.transcendental(17, 1.0),
        workloads.softmax(3, 33, 1.0),
        workloads.layer_norm(3, 33, 1.0),
        workloads.matmul(5, 7, 19, 1.0),
        workloads.matmul_bias_relu(5, 7, 19, 1.0),
        workloads.convolution(3, 8, 4, 3, 2, 1.0),
        workloads.batch_norm_relu(1, 3, 5, 1.0),
        workloads.max_pool(1, 2, 8, 1.0),
        workloads.small_cnn(1, 1.0),
        workloads.attention(2, 9, 8, 1.0),
        workloads.total(17, 1.0),
        workloads.int8_matmul(9, 1.0),
        workloads.f16_weights(2, 1.0, 33),
    ]


@pytest.mark.parametrize("contender", ["wia", "numpy"])
def test_every_family_agrees_with_its_reference(bench: Any, contender: str) -> None:
    library = bench.contenders.contender_module(contender).make(1)
    for workload in small(bench.workloads):
        inputs = workload.make(np.random.default_rng(1))
        call = library.prepare(workload, inputs)
        reference = workload.reference(*inputs.values())
        error = bench.worker.error_of(library.to_numpy(call()), reference)
        assert error <= workload.tolerance, workload.name


def test_small_families_are_all_families(bench: Any) -> None:
    timed = {workload.family for workload in bench.workloads.WORKLOADS}
    assert timed == {workload.family for workload in small(bench.workloads)}


def test_names_lead_to_workloads_of_every_size(bench: Any) -> None:
    for factor in (1, 4, 16):
        for workload in bench.workloads.chosen("", factor):
            assert bench.workloads.named(workload.name).name == workload.name


def test_wrong_shapes_and_numbers_are_noticed(bench: Any) -> None:
    reference = np.ones(4)
    assert bench.worker.error_of(np.ones(4, np.float32), reference) == 0
    assert bench.worker.error_of(np.array([1, 1, 1, 1.5]), reference) == 0.5
    assert bench.worker.error_of(np.ones(3), reference) == float("inf")
    assert bench.worker.error_of(np.array([1, 1, np.nan, 1]), reference) == float("inf")


def test_contenders_are_files_with_what_they_need(bench: Any) -> None:
    names = bench.contenders.contender_names()
    assert names[0] == "wia" and "numpy" in names and "onnxruntime" in names
    for name in names:
        module = bench.contenders.contender_module(name)
        assert callable(module.make) and isinstance(module.REQUIRES, tuple)


ADD = """
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n, .param .u64 s)
{
    .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %rd<5>;
    mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, 32, %r1;
    ld.param.u32 %r2, [n]; setp.ge.u32 %p, %r0, %r2; @%p ret;
    mul.wide.u32 %rd0, %r0, 4;
    ld.param.u64 %rd1, [x]; add.s64 %rd1, %rd1, %rd0; ld.global.f32 %f0, [%rd1];
    ld.param.u64 %rd2, [y]; add.s64 %rd2, %rd2, %rd0; ld.global.f32 %f1, [%rd2];
    add.rn.f32 %f2, %f0, %f1;
    ld.param.u64 %rd3, [out]; add.s64 %rd3, %rd3, %rd0; st.global.f32 [%rd3], %f2;
    ret;
}
"""


@pytest.fixture
def bench_gpu(bench: Any) -> Any:
    import bench_gpu

    return bench_gpu


def test_ptx_of_a_peer_is_checked_counted_and_ranked_beside_ours(bench_gpu: Any) -> None:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    case = bench_gpu._add(x, y)
    sheet = bench_gpu.sheet_for("gpu:sm_80", None)
    variant = {"ptx": ADD, "entry": "add", "threads": 32, "shared_bytes": 0, "meta": {"block": 32}}
    peer = bench_gpu.tritons(case, [variant], sheet)
    own = bench_gpu.ours(case, "gpu:sm_80", sheet)
    assert peer.counters[bench_gpu.SECTORS] == own.counters[bench_gpu.SECTORS] == 39
    assert peer.registers > 0 and peer.time > 0 and own.launches == 1
    assert "block 32" in bench_gpu._row("", peer.note, peer, "")
    wrong = {**variant, "ptx": ADD.replace("add.rn", "sub.rn")}
    with pytest.raises(AssertionError, match=r"add 100, triton \{'block': 32\}: off by"):
        bench_gpu.tritons(case, [wrong], sheet)


def test_the_formulas_of_the_gpu_bench_are_those_of_its_references(bench_gpu: Any) -> None:
    normal = np.random.default_rng(0).standard_normal
    f16 = [normal((1, 2, 64, 64)).astype(np.float16) for _ in range(3)]
    a, b, bias = (normal(shape).astype(np.float32) for shape in ((17, 33), (33, 9), (9,)))
    sheet = bench_gpu.sheet_for("gpu:sm_80", None)
    for case in (
        bench_gpu._softmax(a),
        bench_gpu._layer_norm(a, b[:, 0].copy(), b[:, 1].copy()),
        bench_gpu._transpose(a),
        bench_gpu._matmul(a, b, bias),
        bench_gpu._attention(*f16),
    ):
        assert bench_gpu.ours(case, "gpu:sm_80", sheet).time > 0

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

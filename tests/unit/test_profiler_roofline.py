"""Rooflines, advice and profiles: exact formulas on ceilings of our own."""

import re
from pathlib import Path

import pytest
from wia_compiler.profiler.advice import RULES, Run, advise
from wia_compiler.profiler.ceilings import Ceiling, Ceilings
from wia_compiler.profiler.data_sheets import data_sheet_ceilings
from wia_compiler.profiler.profile import profile
from wia_compiler.profiler.roofline import roofline
from wia_compiler.profiler.timers import summarize

MACHINE = Ceilings(
    "a machine",
    (
        Ceiling("f32 FMA", "compute", 100e9, "measured", None, ("f32", "f16")),
        Ceiling("f64 FMA", "compute", 50e9, "measured", None, ("f64",)),
        Ceiling("L1", "memory", 200e9, "measured", 32 << 10),
        Ceiling("L2", "memory", 80e9, "measured", 1 << 20),
        Ceiling("DRAM", "memory", 10e9, "measured"),
    ),
)


def test_a_memory_bound_run() -> None:
    line = roofline(10**6, 8 * 10**6, 1e-3, MACHINE)
    assert line.intensity == 0.125
    assert line.achieved == pytest.approx(1e9)
    assert line.achieved_bandwidth == pytest.approx(8e9)
    assert line.memory is not None and line.memory.name == "DRAM"
    assert line.bound == "memory" and line.limit is line.memory
    assert line.roof == pytest.approx(1.25e9)
    assert line.percent == pytest.approx(80)
    assert line.ridge == pytest.approx(10)
    assert str(line) == "memory bound, 80 % of the DRAM roof"
    assert [each.name for each in line.ceilings] == ["f32 FMA", "f64 FMA", "L1", "L2", "DRAM"]
    assert len(line.ceilings) == 5


def test_a_compute_bound_run() -> None:
    line = roofline(2 * 512**3, 3 * 4 * 512**2, 4e-3, MACHINE)
    assert line.bound == "compute" and line.roof == 100e9
    assert line.percent == pytest.approx(2 * 512**3 / 4e-3 / 100e9 * 100)
    assert roofline(2 * 512**3, 3 * 8 * 512**2, 4e-3, MACHINE, dtype="f64").roof == 50e9


@pytest.mark.parametrize(
    ("size_bytes", "name"),
    [(1, "L1"), (32 << 10, "L1"), ((32 << 10) + 1, "L2"), (1 << 20, "L2"), (1 << 30, "DRAM")],
)
def test_the_memory_is_the_nearest_that_holds_the_operands(size_bytes, name) -> None:
    memory = roofline(1, size_bytes, 1.0, MACHINE).memory
    assert memory is not None and memory.name == name


def test_at_the_ridge_arithmetic_is_the_limit() -> None:
    assert roofline(10 * 10**8, 10**8, 1.0, MACHINE).bound == "compute"
    assert roofline(10 * 10**8 - 1, 10**8, 1.0, MACHINE).bound == "memory"


def test_kernels_without_flops_are_measured_by_bandwidth() -> None:
    line = roofline(0, 10**8, 0.02, MACHINE)
    assert (line.intensity, line.roof, line.achieved) == (0, 0, 0)
    assert line.bound == "memory"
    assert line.percent == pytest.approx(50)


def test_integers_have_no_arithmetic_ceiling() -> None:
    line = roofline(10**12, 10**8, 0.02, MACHINE, dtype="i8")
    assert line.compute is None and line.ridge is None
    assert line.bound == "memory" and line.percent == pytest.approx(50)


def test_nothing_moves_and_nothing_is_known() -> None:
    line = roofline(0, 0, 1e-6, MACHINE)
    assert (line.intensity, line.bound, line.roof, line.percent) == (None, "none", None, None)
    assert str(line) == "no limit known"
    assert roofline(100, 0, 1e-9, MACHINE).percent == pytest.approx(100)
    assert roofline(100, 10, 1.0, Ceilings("bare", ()), dtype="f32").bound == "none"


@pytest.mark.parametrize("time", [None, 0.0])
def test_without_a_time_there_is_a_roof_but_no_point(time) -> None:
    line = roofline(10**6, 10**6, time, MACHINE)
    assert line.bound == "memory" and line.roof == pytest.approx(80e9)
    assert (line.achieved, line.achieved_bandwidth, line.percent) == (None, None, None)
    assert str(line) == "memory bound"


def test_negative_amounts_are_refused() -> None:
    for amounts in ((-1, 1, 1.0), (1, -1, 1.0), (1, 1, -1.0)):
        with pytest.raises(ValueError, match="expected amounts from 0"):
            roofline(*amounts, MACHINE)


def run_of(flops: int, size_bytes: int, time: float | None, **counters: float) -> Run:
    timing = summarize([time * 1e9] * 5) if time is not None else None
    return Run(roofline(flops, size_bytes, time, MACHINE), timing, time, size_bytes, counters)


def test_advice_speaks_of_this_runs_numbers() -> None:
    (memory,) = advise(run_of(10**8, 8 * 10**8, 0.1))
    assert memory == (
        "bound by DRAM: 0.125 FLOP per byte, arithmetic would be the limit from 10; fuse it with "
        "its producer or consumer so that its 800 MB are not written and read again, or use a "
        "narrower dtype"
    )
    (slow,) = advise(run_of(10**8, 8 * 10**8, 1.0))
    assert slow.startswith("moves 0.8 of 10.0 GB/s (8 %)")
    (weak,) = advise(run_of(10**11, 10**6, 10.0))
    assert weak.startswith("computes 10.0 of 100.0 GFLOP/s (10 %)")
    assert advise(run_of(10**11, 10**6, 1.2)) == ()


def test_advice_without_a_time_or_numbers_is_silent() -> None:
    assert advise(run_of(10**11, 10**6, None)) == ()
    assert advise(run_of(0, 0, None)) == ()


def test_short_and_noisy_runs_are_told() -> None:
    (short,) = advise(run_of(0, 0, 3e-6))
    assert short.startswith("takes 3 µs, mostly the call itself")
    noisy = summarize([1e9, 2e9, 3e9])
    run = Run(roofline(10**11, 10**6, 1.2, MACHINE), noisy, 1.2, 10**6, {})
    assert "other work disturbed the run (median of 3 warm samples" in advise(run)[0]


def test_advice_from_counters_of_a_gpu() -> None:
    sectors = "derived__memory_l2_theoretical_sectors_global"
    counters = {
        "ptx_branches": 100,
        "ptx_branches_divergent": 11,
        "shared_memory_bank_conflicts": 31,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 32,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 30,
        sectors: 1000,
        f"{sectors}_excessive": 201,
    }
    divergence, conflicts, sparse = advise(run_of(10**11, 10**6, 1.2, **counters))
    assert divergence.startswith("11 % of the branches send a warp two ways")
    assert conflicts.startswith("31 of 62 wavefronts of shared memory are bank conflicts")
    assert sparse.startswith("20 % of the sectors of global memory carry nothing")
    fine = counters | {
        "ptx_branches_divergent": 10,
        "shared_memory_bank_conflicts": 0,
        f"{sectors}_excessive": 200,
    }
    assert advise(run_of(10**11, 10**6, 1.2, **fine)) == ()


def test_advice_from_counters_of_the_array() -> None:
    counters = {
        "systolic_executes": 4,
        "mapping_percent": 25.0,
        "rows_streamed": 490,
        "cycles": 1000,
        "total_cycles": 2000,
    }
    empty, weights, memory = advise(run_of(10**11, 10**6, 1.2, **counters))
    assert empty.startswith("weights fill 25 % of the array")
    assert weights.startswith("rows stream in 49 % of the cycles")
    assert memory.startswith("50 % of the time waits for HBM")
    assert len({rule.name for rule in RULES}) == len(RULES)


def test_data_sheets_say_that_they_are() -> None:
    tpu = data_sheet_ceilings("tpu:spec")
    assert data_sheet_ceilings("tpu") == tpu
    assert tpu.clock_hz == 700e6
    (rate,) = tpu.rates
    assert rate.value == 2 * 128 * 128 * 700e6
    assert "700 MHz, the clock of TPU v1 (Jouppi et al. 2017)" in rate.source
    assert tpu.memory_for(1 << 60) is tpu.memories[0]
    gpu = data_sheet_ceilings("gpu:sm_90")
    assert gpu == data_sheet_ceilings("gpu")
    assert all(each.source == "data sheet of H100 SXM" for each in gpu.ceilings)
    assert gpu.clock_hz is None
    with pytest.raises(KeyError, match="no data sheet for target 'cpu'"):
        data_sheet_ceilings("cpu")


def test_a_simulated_run_takes_its_cycles() -> None:
    calls = []

    def run():
        calls.append(1)
        return {"total_cycles": 7000, "cycles": 6999}

    found = profile(run, flops=10**6, size_bytes=10**5, target="tpu:spec", source="simulated")
    assert len(calls) == 1
    assert found.time == pytest.approx(1e-5)
    assert found.label == "7000 cycles at 700 MHz"
    assert found.source == "simulated" and found.timing is None
    assert found.counters["cycles"] == 6999
    assert found.roofline.achieved == pytest.approx(1e11)
    assert "kernel on tpu:spec: 10 µs (7000 cycles at 700 MHz), simulated" in str(found)


def test_a_simulator_without_cycles_gives_no_time() -> None:
    found = profile(
        lambda: {"instructions": 5},
        flops=10,
        size_bytes=10,
        target="gpu:sm_90",
        source="simulated",
    )
    assert found.time is None and found.roofline.percent is None
    assert found.counters == {"instructions": 5}
    assert "no time, simulated" in str(found)


def test_a_measured_run_keeps_its_spread_and_last_counters() -> None:
    count = 0

    def run():
        nonlocal count
        count += 1
        return {"runs": count}

    found = profile(run, flops=0, size_bytes=10**9, budget=0.0, ceilings=MACHINE, kernel="copy")
    assert found.source == "measured" and found.timing is not None
    assert found.time == found.timing.median
    assert found.counters == {"runs": count}
    assert found.label == found.timing.note
    assert found.bytes == 10**9 and found.flops == 0
    assert str(found).startswith("copy on cpu: ")
    assert profile(lambda: None, flops=0, size_bytes=0, budget=0.0, ceilings=MACHINE).counters == {}


def test_the_page_lists_the_rules() -> None:
    page = Path(__file__).parents[2] / "docs" / "profiling.md"
    listed = re.findall(r"^\| ([a-z A-Z]+) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert listed[listed.index("rule") + 1 :] == [rule.name for rule in RULES]

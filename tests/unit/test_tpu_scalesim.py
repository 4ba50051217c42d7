"""Cycles and utilisation against SCALE-Sim 3.0.0, weight stationary, 128×128, no stalls."""

import csv
from pathlib import Path

import numpy as np
import pytest
from unit.tpu_programs import matmul_text
from wia_compiler.simulators.tpu import run

TABLE = Path(__file__).parents[1] / "golden" / "tpu" / "scalesim_ws_128.csv"
ROWS = list(csv.DictReader(TABLE.read_text(encoding="utf-8").splitlines()))


def counters(m: int, n: int, k: int, *, weight_double_buffer: bool = False):
    """The counters of one matmul of zeros: time does not depend on values."""
    arrays = {
        "A": np.zeros((m, k), np.float32),
        "B": np.zeros((k, n), np.float32),
        "C": np.empty((m, n), np.float32),
    }
    text = matmul_text(m, n, k)
    return run(text, arrays, weight_double_buffer=weight_double_buffer).counters


def test_the_table_is_all_there() -> None:
    assert len(ROWS) == 52
    assert {row["dataflow"] for row in ROWS} == {"ws"}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['M']}-{row['N']}-{row['K']}")
def test_cycles_and_utilisation_are_those_of_scale_sim(row: dict[str, str]) -> None:
    m, n, k = (int(row[name]) for name in "MNK")
    found = counters(m, n, k)
    assert found["cycles"] == int(row["compute_cycles"]) + int(row["stall_cycles"])
    assert found["utilization_percent"] == pytest.approx(float(row["overall_util_pct"]), rel=1e-12)
    assert found["mapping_percent"] == pytest.approx(float(row["mapping_eff_pct"]), rel=1e-12)
    assert found["macs_used"] == m * n * k
    assert found["macs_used"] + found["macs_idle"] == 128 * 128 * found["cycles"]
    folds = -(-k // 128) * -(-n // 128)
    assert found["weight_loads"] == found["systolic_executes"] == folds
    assert found["systolic_cycles"] == folds * (m + 254)
    assert found["rows_streamed"] == folds * m
    assert found["hbm_written_bytes"] == 4 * m * n
    assert found["hbm_read_bytes"] == 4 * (k * n + m * k * -(-n // 128))


@pytest.mark.parametrize(("m", "n", "k"), [(1, 300, 300), (64, 256, 128), (129, 256, 300)])
def test_double_buffered_weights_cost_the_longer_of_loading_and_streaming(m, n, k) -> None:
    folds = -(-k // 128) * -(-n // 128)
    found = counters(m, n, k, weight_double_buffer=True)
    # The first tile is loaded before anything streams, the last pass drains after all.
    expected = 128 + max(m, 128) * (folds - 1) + m + 254
    assert found["cycles"] == expected - 1
    assert found["cycles"] <= counters(m, n, k)["cycles"]


def test_one_tile_costs_the_same_with_and_without_double_buffering() -> None:
    assert counters(128, 128, 128)["cycles"] == 509
    assert counters(128, 128, 128, weight_double_buffer=True)["cycles"] == 509


def test_time_with_a_real_memory_counts_what_cannot_hide() -> None:
    found = counters(128, 128, 128)
    tile = 128 * 128 * 4 // 512
    # Weights arrive, then shift in while the inputs arrive, stream; the output leaves last.
    assert found["total_cycles"] == tile + 128 + 382 + tile
    assert found["memory_cycles"] == 3 * tile

"""Occupancy and architecture facts."""

import dataclasses

import pytest
from wia_compiler.backends.gpu.architecture import ARCHITECTURES, Architecture
from wia_compiler.backends.gpu.occupancy import occupancy


@pytest.mark.parametrize(
    ("name", "threads", "registers", "shared", "blocks", "ratio", "limiter"),
    [
        # Registers come in units of 256 a warp: 54 of them cost 1792 a warp, 48 cost 1536.
        ("sm_80", 256, 54, 8192, 4, 0.5, "registers"),
        ("sm_90", 256, 48, 8192, 5, 0.625, "registers"),
        ("sm_80", 256, 16, 0, 8, 1.0, "warps"),
        ("sm_80", 32, 16, 0, 32, 0.5, "blocks"),
        ("sm_89", 128, 32, 49152, 2, 8 / 48, "shared memory"),
        ("sm_90", 1024, 32, 0, 2, 1.0, "warps"),
        ("sm_75", 1024, 64, 0, 1, 1.0, "warps"),
        ("sm_120", 256, 255, 0, 1, 8 / 48, "registers"),
        ("sm_90", 1, 255, 0, 8, 0.125, "registers"),
    ],
)
def test_blocks_that_fit(name, threads, registers, shared, blocks, ratio, limiter):
    found = occupancy(ARCHITECTURES[name], threads, registers=registers, shared_bytes=shared)
    assert (found.ctas_per_sm, found.ratio, found.limiter) == (blocks, ratio, limiter)
    assert found.warps_per_sm == blocks * -(-threads // 32)


def test_reserved_shared_memory_counts():
    """163 KiB fit once beside the 1 KiB that the system takes, twice 82 KiB do not."""
    whole = occupancy(ARCHITECTURES["sm_80"], 32, registers=0, shared_bytes=163 * 1024)
    half = occupancy(ARCHITECTURES["sm_80"], 32, registers=0, shared_bytes=82 * 1024)
    assert (whole.ctas_per_sm, half.ctas_per_sm) == (1, 1)
    assert half.limits["shared memory"] == 1


def test_a_block_has_threads():
    with pytest.raises(ValueError, match="at least one thread"):
        occupancy(ARCHITECTURES["sm_80"], 0, registers=8, shared_bytes=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "sm90"},
        {"name": "sm_90b"},
        {"block_shared_kib": 229},
        {"block_shared_kib": 228},
        {"max_warps": 16},
        {"bandwidth": 1e15},
    ],
)
def test_rows_check_themselves(wrong):
    row = dataclasses.asdict(ARCHITECTURES["sm_90"])
    with pytest.raises(ValueError):
        Architecture(**{**row, **wrong})


def test_every_wanted_architecture_is_there():
    assert {"sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"} <= set(ARCHITECTURES)

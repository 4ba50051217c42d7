"""Limits of machines that are not this one, as their makers publish them."""

from __future__ import annotations

from wia_compiler.backends.gpu.architecture import ARCHITECTURES, DEFAULT_ARCHITECTURE
from wia_compiler.dialects.tpu.machine import SPEC
from wia_compiler.profiler.ceilings import Ceiling, Ceilings


def data_sheet_ceilings(target: str) -> Ceilings:
    """The limits of a target that is simulated or compiled for elsewhere; ``KeyError`` for others.

    GPUs: f32 rate without tensor cores and DRAM bandwidth of the product that stands for the
    architecture (``backends/gpu/architecture.py``). ``tpu:spec``: 2 · 128 · 128 FLOPs a cycle at
    700 MHz, the clock of TPU v1 (Jouppi et al., ISCA 2017), for the chapter gives none, and 512
    bytes a cycle, which is TPU v2's 358 GB/s for each core.
    """
    kind, _, architecture = target.partition(":")
    if kind == "gpu":
        row = ARCHITECTURES[architecture or DEFAULT_ARCHITECTURE]
        source = f"data sheet of {row.product}"
        rows = (
            Ceiling("f32 FMA", "compute", row.flops, source, None, ("f32",)),
            Ceiling("DRAM", "memory", row.bandwidth, source),
        )
        return Ceilings(row.product, rows)
    if target in ("tpu", SPEC.name):
        clock = f"{SPEC.clock_hz / 1e6:.0f} MHz, the clock of TPU v1"
        array = f"{SPEC.size} array at {clock} (Jouppi et al. 2017)"
        memory = "HBM of one TPU v2 core (358 GB/s)"
        dtypes = ("f32", "bf16", "f16")
        rows = (
            Ceiling("systolic array", "compute", SPEC.peak_flops, array, None, dtypes),
            Ceiling("HBM", "memory", SPEC.hbm_bandwidth, memory),
        )
        return Ceilings(SPEC.name, rows, float(SPEC.clock_hz))
    raise KeyError(f"no data sheet for target {target!r}")

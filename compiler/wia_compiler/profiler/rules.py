"""Rules of advice for every target: the call, the roofline, the systolic array, noise."""

from __future__ import annotations

from wia_compiler.profiler.rule import Rule, Run

CALL_SECONDS = 20e-6
"""Below this a run is mostly its call: binding arguments, allocating outputs, Python."""


def _memory_bound(run: Run) -> str:
    line = run.roofline
    memory, ridge, intensity = line.memory, line.ridge, line.intensity or 0.0
    where = memory.name if memory is not None else "memory"
    if ridge is None:
        return f"bound by {where}: fuse it with its producer or consumer, or use a narrower dtype"
    return (
        f"bound by {where}: {intensity:.3g} FLOP per byte, arithmetic would be the limit from "
        f"{ridge:.3g}; fuse it with its producer or consumer so that its {_bytes(run.size_bytes)} "
        f"are not written and read again, or use a narrower dtype"
    )


def _slow_memory(run: Run) -> str:
    line = run.roofline
    assert line.memory is not None and line.achieved_bandwidth is not None
    return (
        f"moves {line.achieved_bandwidth / 1e9:.1f} of {line.memory.value / 1e9:.1f} GB/s "
        f"({run.percent:.0f} %): look at strides, vector loads and passes over the data"
    )


def _slow_compute(run: Run) -> str:
    line = run.roofline
    assert line.compute is not None and line.achieved is not None
    return (
        f"computes {line.achieved / 1e9:.1f} of {line.compute.value / 1e9:.1f} GFLOP/s "
        f"({run.percent:.0f} %): try another tile, vectorize and independent accumulators"
    )


GENERAL: tuple[Rule, ...] = (
    Rule(
        "short run",
        "time in seconds",
        lambda run: run.timing.median if run.timing is not None else 0.0,
        "<",
        CALL_SECONDS,
        lambda run: (
            f"takes {1e6 * (run.time or 0):.2g} µs, mostly the call itself: give one call more work"
        ),
        "measured",
        when=lambda run: run.timing is not None,
    ),
    Rule(
        "memory bound",
        "percent of the memory roof",
        lambda run: run.percent,
        ">=",
        50,
        _memory_bound,
        "measured",
        when=lambda run: run.roofline.bound == "memory",
    ),
    Rule(
        "far below the memory roof",
        "percent of the memory roof",
        lambda run: run.percent,
        "<",
        50,
        _slow_memory,
        "measured",
        when=lambda run: run.roofline.bound == "memory",
    ),
    Rule(
        "far below the compute roof",
        "percent of the compute roof",
        lambda run: run.percent,
        "<",
        50,
        _slow_compute,
        "measured",
        when=lambda run: run.roofline.bound == "compute",
    ),
)

ARRAY: tuple[Rule, ...] = (
    Rule(
        "array partly empty",
        "mapping_percent",
        lambda run: run.count("mapping_percent"),
        "<",
        75,
        lambda run: (
            f"weights fill {run.count('mapping_percent'):.0f} % of the array on average: "
            "multiples of 128 for the summed axis and the columns would fill it"
        ),
        "simulated",
        when=lambda run: run.count("systolic_executes") > 0,
    ),
    Rule(
        "array seldom streams",
        "rows_streamed / cycles",
        lambda run: run.share("rows_streamed", "cycles"),
        "<",
        0.7,
        lambda run: (
            f"rows stream in {100 * run.share('rows_streamed', 'cycles'):.0f} % of the cycles, the "
            "rest loads weights, fills and drains the array: stream more rows past each tile (a "
            "larger batch), or load the next weights meanwhile (weight_double_buffer)"
        ),
        "simulated",
        when=lambda run: run.count("systolic_executes") > 0,
    ),
    Rule(
        "waits for HBM",
        "cycles / total_cycles",
        lambda run: run.share("cycles", "total_cycles"),
        "<",
        0.8,
        lambda run: (
            f"{100 * (1 - run.share('cycles', 'total_cycles')):.0f} % of the time waits "
            "for HBM: pass operands as bf16, which halves what is read of f32"
        ),
        "simulated",
        when=lambda run: run.count("total_cycles") > 0,
    ),
)

NOISE: tuple[Rule, ...] = (
    Rule(
        "noisy",
        "share of the time without a core, or spread of the quartiles over twice the median",
        lambda run: max(run.timing.waiting, run.timing.spread / 2) if run.timing else 0.0,
        ">",
        0.1,
        lambda run: (
            f"other work disturbed the run ({run.timing.note if run.timing else ''}): "
            "repeat it on a quieter machine before you compare"
        ),
        "measured",
    ),
)


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"

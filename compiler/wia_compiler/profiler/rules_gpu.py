"""Rules of advice for GPUs: what counters, ptxas and the model of time say, and what to change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from wia_compiler.backends.gpu.architecture import LAUNCH_SECONDS, MAX_REGISTERS_PER_THREAD
from wia_compiler.backends.gpu.schedule_user import REFUSED
from wia_compiler.base.schedule import Entry, Schedule
from wia_compiler.profiler import schedule_edits as edits
from wia_compiler.profiler.gpu_model import Case, Work
from wia_compiler.profiler.rule import Rule, Run

_SECTORS = "derived__memory_l2_theoretical_sectors_global"
_CONFLICTS = "shared_memory_bank_conflicts"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_"
_TENSOR_DTYPES = {"f16": "f16", "bf16": "f16", "i8": "i8", "u8": "i8", "f32": "tf32"}
"""The rate of the tensor cores that serves a dtype; f32 after rounding to tf32."""

_MANY_SPILLED = 100
"""Bytes a thread from which on fewer points are worth what they cost in loads."""


def _wavefronts(run: Run) -> float:
    return sum(float(count) for name, count in run.counters.items() if name.startswith(_WAVEFRONTS))


def _edit(edit: edits.Edit) -> Callable[[Run], str | None]:
    return lambda run: edits.edited(run.read_schedule(), edit)


def _gain(change: Callable[[Run, Case], Case]) -> Callable[[Run], float | None]:
    """How many times faster the model says that a run with ``change`` is."""

    def gain(run: Run) -> float | None:
        if run.estimate is None:
            return None
        return run.estimate.gain_of(lambda case: change(run, case))

    return gain


def _work(change: Callable[[Run, Work], Work]) -> Callable[[Run], float | None]:
    return _gain(lambda run, case: replace(case, work=change(run, case.work)))


def _without_unit(name: str) -> Callable[[Run], float | None]:
    """The gain if a unit had half of its work."""
    return _work(
        lambda run, work: replace(work, units={**work.units, name: work.units.get(name, 0.0) / 2})
    )


def _diverges(run: Run) -> float:
    return run.share("ptx_branches_divergent", "ptx_branches")


def _together(run: Run, work: Work) -> Work:
    """All 32 threads of a warp at work: fewer instructions of warps for the same threads."""
    threads = run.count("ptx_thread_inst_executed_per_inst_executed") or 32.0
    share = threads / 32
    units = {name: count * share for name, count in work.units.items()}
    return replace(work, issued=work.issued * share, units=units)


def _spilled(run: Run) -> float:
    found = run.resources
    return float(found.get("spill_store_bytes", 0)) + float(found.get("spill_load_bytes", 0))


def _registers(run: Run) -> float:
    return float(run.resources.get("registers", 0))


def _blocks(run: Run) -> tuple[int, int]:
    """Blocks and SMs of the launch that takes longest."""
    if run.estimate is None or not run.estimate.launches:
        return 0, 1
    case = max(run.estimate.launches, key=lambda each: each.time).case
    return case.blocks, case.sheet.sms


def _evenness(run: Run) -> float:
    """Blocks over what the SMs could run in as many turns; 1 where nothing is known."""
    blocks, sms = _blocks(run)
    return blocks / (-(-blocks // sms) * sms) if blocks else 1.0


def _bytes_in_flight(run: Run) -> float:
    """Bytes that an SM's warps have under way, over what the DRAM's bandwidth × latency asks for.

    Each warp is taken to have all loads of its first turn under way, two at most.
    """
    if run.estimate is None or not run.estimate.launches:
        return 1.0
    case = max(run.estimate.launches, key=lambda each: each.time).case
    sheet = case.sheet
    requests = run.count("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum")
    sectors = run.count("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum")
    if not requests:
        return 1.0
    warps = min(case.held.warps_per_sm, -(-case.blocks // sheet.sms) * _warps_of(case))
    each = 32 * sectors / requests
    needed = sheet.bandwidth * sheet.latencies.memory / sheet.clock_hz / sheet.sms
    return warps * min(2.0, requests / max(1, case.blocks * _warps_of(case))) * each / needed


def _warps_of(case: Case) -> int:
    """Warps of a block."""
    return max(1, case.held.warps_per_sm // max(1, case.held.ctas_per_sm))


def _twice_the_blocks(run: Run, case: Case) -> Case:
    """As many warps again on each SM."""
    held = case.held
    return replace(case, held=replace(held, ctas_per_sm=2 * held.ctas_per_sm))


def _in_parts(case: Case, count: int) -> Case:
    """Each block in so many smaller ones, whose threads do the same work."""
    facts = case.sheet.facts
    warps = max(1, _warps_of(case) // count)
    most = min(count * case.held.ctas_per_sm, facts.max_blocks, facts.max_warps // warps)
    held = replace(case.held, ctas_per_sm=max(1, most))
    return replace(case, blocks=case.blocks * count, held=held)


def _best_split(run: Run) -> tuple[int, float]:
    """How often a block is best halved, and what the model says that is worth."""
    if run.estimate is None:
        return 0, 1.0
    worth = {
        times: run.estimate.gain_of(lambda case, n=2**times: _in_parts(case, n)) or 1.0
        for times in range(4)
    }
    best = max(worth, key=lambda times: (round(worth[times], 2), -times))
    return best, worth[best]


def _split(run: Run) -> str | None:
    def edit(schedule: Schedule) -> Schedule | None:
        made: Schedule | None = schedule
        for _ in range(_best_split(run)[0]):
            made = edits.smaller_tile(made) if made is not None else None
        return made if made is not schedule else None

    return edits.edited(run.read_schedule(), edit)


def _has_products(run: Run) -> bool:
    """Whether the arithmetic is multiply-adds of a dtype that tensor cores take, all on others."""
    estimate = run.estimate
    if run.dtype not in _TENSOR_DTYPES or run.count("flops_tensor") or estimate is None:
        return False
    if run.roofline.bound != "compute" or not estimate.launches:
        return False
    rate = f"{_TENSOR_DTYPES[run.dtype]} tensor"
    return rate in estimate.launches[0].case.sheet.rates


def _on_tensor_cores(run: Run, case: Case) -> Case:
    """The same multiply-adds as operations of ``mma``."""
    rate, work = f"{_TENSOR_DTYPES[run.dtype]} tensor", case.work
    # A warp's multiply-add is 64 operations; loads from shared memory shrink with them.
    products = work.units.get("fp32", 0.0)
    rest = 1 - products / max(work.issued, products, 1.0)
    units = {**work.units, "fp32": 0.0}
    return replace(
        case,
        work=replace(
            work,
            issued=work.issued - products,
            units=units,
            tensor={**work.tensor, rate: work.tensor.get(rate, 0.0) + 64 * products},
            wavefronts=work.wavefronts / 2,
        ),
        warp_cycles=case.warp_cycles * rest,
    )


def _use_tensor_cores(run: Run) -> str | None:
    if "use_tensor_cores" in REFUSED:
        return None
    entries = (Entry("tf32"),) if run.dtype == "f32" else ()

    def edit(schedule: Schedule) -> Schedule | None:
        if "k" not in edits.sizes_of(schedule, "tile"):
            return None
        return edits.by_tensor_cores(schedule, *entries)

    return edits.edited(run.read_schedule(), edit)


def _load_ahead(run: Run) -> str | None:
    if "pipeline" in REFUSED:
        return None

    def edit(schedule: Schedule) -> Schedule | None:
        tile, each = edits.sizes_of(schedule, "tile"), edits.sizes_of(schedule, "thread_tile")
        folded = [name for name in tile if name not in each]
        if not each or len(folded) != 1:
            return None
        return edits.with_line(schedule, "pipeline", Entry(folded[0], 2))

    return edits.edited(run.read_schedule(), edit)


def _wider(run: Run) -> str | None:
    sizes = {"f64": 8, "i64": 8, "f16": 2, "bf16": 2, "i16": 2, "i8": 1, "u8": 1, "bool": 1}
    return edits.edited(run.read_schedule(), edits.wider_access(16 // sizes.get(run.dtype, 4)))


def _fewer_registers(run: Run) -> str | None:
    limiter = run.estimate.occupancy_limiter if run.estimate is not None else ""
    edit = edits.smaller_fold if limiter == "shared memory" else edits.smaller_thread_tile
    return edits.edited(run.read_schedule(), edit)


def _low_occupancy(run: Run) -> bool:
    limiter = run.estimate.occupancy_limiter if run.estimate is not None else ""
    return limiter in ("registers", "shared memory") and run.part("latency") > 0.8


COUNTED: tuple[Rule, ...] = (
    Rule(
        "divergent branches",
        "ptx_branches_divergent / ptx_branches",
        _diverges,
        ">",
        0.1,
        lambda run: (
            f"{100 * _diverges(run):.0f} % of the branches send a warp two ways: make conditions "
            "equal for 32 neighbours, or compute both sides and select"
        ),
        "simulated",
        gain=_work(_together),
    ),
    Rule(
        "bank conflicts",
        _CONFLICTS,
        lambda run: run.count(_CONFLICTS),
        ">",
        0,
        lambda run: (
            f"{run.count(_CONFLICTS):.0f} of {_wavefronts(run):.0f} wavefronts "
            "of shared memory are bank conflicts: pad the rows of the tile by one element, or "
            "swizzle it"
        ),
        "simulated",
        gain=_work(
            lambda run, work: replace(
                work,
                wavefronts=work.wavefronts
                * (1 - run.count(_CONFLICTS) / max(_wavefronts(run), 1.0)),
            )
        ),
    ),
    Rule(
        "accesses not coalesced",
        f"{_SECTORS}_excessive / {_SECTORS}",
        lambda run: run.share(f"{_SECTORS}_excessive", _SECTORS),
        ">",
        0.2,
        lambda run: (
            f"{100 * run.share(f'{_SECTORS}_excessive', _SECTORS):.0f} % of the sectors of global "
            "memory carry nothing that is asked for: let neighbouring threads access neighbouring "
            "elements, or go through shared memory"
        ),
        "simulated",
        schedule=_edit(edits.along_the_last_axis),
        gain=_work(
            lambda run, work: replace(
                work,
                sectors=work.sectors * (1 - run.share(f"{_SECTORS}_excessive", _SECTORS)),
            )
        ),
    ),
)

ASSEMBLED: tuple[Rule, ...] = (
    Rule(
        "spills",
        "spill_store_bytes + spill_load_bytes",
        _spilled,
        ">",
        0,
        lambda run: (
            f"{_spilled(run):.0f} bytes a thread are spilled from registers to memory: let a "
            "thread compute fewer points at a time"
        ),
        "ptxas",
        schedule=lambda run: (
            _edit(edits.smaller_thread_tile)(run) if _spilled(run) >= _MANY_SPILLED else None
        ),
    ),
    Rule(
        "register pressure",
        "registers",
        _registers,
        ">",
        0.85 * MAX_REGISTERS_PER_THREAD,
        lambda run: (
            f"{_registers(run):.0f} of {MAX_REGISTERS_PER_THREAD} registers of a thread are used: "
            "a little more would be spilled to memory; let a thread compute fewer points"
        ),
        "ptxas",
        when=lambda run: _spilled(run) == 0,
    ),
    Rule(
        "assembler warns",
        "warnings",
        lambda run: float(len(run.resources.get("warnings", ()))),
        ">",
        0,
        lambda run: f"ptxas warns: {run.resources['warnings'][0]}",
        "ptxas",
    ),
)

MODELLED: tuple[Rule, ...] = (
    Rule(
        "no tensor cores",
        "flops_tensor / flops",
        lambda run: run.share("flops_tensor", "flops"),
        "<",
        0.5,
        lambda run: (
            f"products of {run.dtype} run without tensor cores: use_tensor_cores"
            + (" tf32 rounds their operands to 10 bits" if run.dtype == "f32" else "")
        ),
        "model",
        when=_has_products,
        schedule=_use_tensor_cores,
        gain=_gain(_on_tensor_cores),
    ),
    Rule(
        "launch bound",
        "launch / estimated time",
        lambda run: (
            run.estimate.parts.get("launch", 0.0) / run.estimate.time
            if run.estimate is not None and run.estimate.time
            else 0.0
        ),
        ">",
        0.5,
        lambda run: (
            f"{1e6 * (run.estimate.parts['launch'] if run.estimate else 0):.0f} µs are spent on "
            "launching, more than on running: give a launch more work, or fuse what follows it"
        ),
        "model",
        gain=lambda run: (
            run.estimate.time / (run.estimate.time - run.estimate.parts["launch"] + LAUNCH_SECONDS)
            if run.estimate is not None and len(run.estimate.launches) > 1
            else None
        ),
    ),
    Rule(
        "too few blocks",
        "blocks / SMs",
        lambda run: _blocks(run)[0] / _blocks(run)[1],
        "<",
        1,
        lambda run: (
            f"{_blocks(run)[0]} blocks for {_blocks(run)[1]} SMs: the others have nothing to do; "
            "make tiles smaller"
        ),
        "model",
        when=lambda run: run.limiter != "launch" and _blocks(run)[0] > 0,
        schedule=_split,
        gain=lambda run: _best_split(run)[1],
    ),
    Rule(
        "tail effect",
        "blocks / (turns × SMs)",
        _evenness,
        "<",
        0.75,
        lambda run: (
            f"{_blocks(run)[0]} blocks on {_blocks(run)[1]} SMs leave "
            f"{100 * (1 - _evenness(run)):.0f} % of the last turns empty: make tiles smaller, so "
            "that there are more turns, or of another size"
        ),
        "model",
        when=lambda run: run.limiter != "launch" and _blocks(run)[0] >= _blocks(run)[1],
        schedule=_split,
        gain=lambda run: _best_split(run)[1],
    ),
    Rule(
        "low occupancy",
        "occupancy",
        lambda run: run.estimate.occupancy if run.estimate is not None else 1.0,
        "<",
        0.5,
        lambda run: (
            f"an SM holds {100 * (run.estimate.occupancy if run.estimate else 0):.0f} % of its "
            f"warps, limited by {run.estimate.occupancy_limiter if run.estimate else ''}, which is "
            "too few to hide latency: let a thread or a block take less"
        ),
        "model",
        when=_low_occupancy,
        schedule=_fewer_registers,
        gain=_gain(_twice_the_blocks),
    ),
    Rule(
        "too few bytes in flight",
        "bytes under way / (bandwidth × latency)",
        _bytes_in_flight,
        "<",
        1,
        lambda run: (
            f"loads under way are {100 * _bytes_in_flight(run):.0f} % of what it takes to keep "
            "DRAM busy: let a thread load up to 16 bytes at once, or more than one such piece"
        ),
        "model",
        when=lambda run: run.roofline.bound == "memory" and run.limiter != "launch",
        schedule=_wider,
        gain=_gain(lambda run, case: replace(case, warp_cycles=case.warp_cycles / 2)),
    ),
    Rule(
        "latency bound",
        "latency / longest part",
        lambda run: run.part("latency"),
        ">=",
        1,
        lambda run: (
            "a warp waits for what it reads, and too few others run meanwhile: load ahead "
            "(pipeline), compute several independent results a thread, or have more warps"
        ),
        "model",
        when=lambda run: run.limiter == "latency",
        schedule=_load_ahead,
        gain=_gain(lambda run, case: replace(case, warp_cycles=case.warp_cycles / 2)),
    ),
    Rule(
        "shared memory bound",
        "shared memory / longest part",
        lambda run: run.part("shared memory"),
        ">=",
        1,
        lambda run: (
            "reading shared memory takes longest: let a thread compute more points of a product, "
            "so that it uses what it read oftener"
        ),
        "model",
        when=lambda run: (
            run.limiter == "shared memory" and run.count(_CONFLICTS) < 0.1 * _wavefronts(run)
        ),
        schedule=_edit(edits.larger_thread_tile),
        gain=_work(lambda run, work: replace(work, wavefronts=0.75 * work.wavefronts)),
    ),
    Rule(
        "special functions bound",
        "special / longest part",
        lambda run: run.part("special"),
        ">=",
        1,
        lambda run: (
            "exponentials, divisions, roots and conversions take longest: a quarter as many a "
            "cycle as multiply-adds; divide once and multiply, or convert fewer values"
        ),
        "model",
        when=lambda run: run.limiter == "special",
        gain=_without_unit("special"),
    ),
    Rule(
        "integers bound",
        "integer / longest part",
        lambda run: run.part("integer"),
        ">=",
        1,
        lambda run: (
            "integers, most of them addresses, take longest: let a thread take neighbours, so that "
            "one address serves several elements, and sizes be known when it is built"
        ),
        "model",
        when=lambda run: run.limiter == "integer" and run.count("flops") > 0,
        schedule=_wider,
        gain=_without_unit("integer"),
    ),
)

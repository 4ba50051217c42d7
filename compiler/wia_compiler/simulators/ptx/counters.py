"""Counters of a launch: names as in Nsight Compute, for each line of the text and in total.

What counts instructions counts those of the PTX, which is not what the hardware executes: such
names begin with ``ptx_``. Memory counters keep Nsight Compute's names; they are what the hardware
would count as long as the assembler keeps each access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wia_compiler.simulators.ptx.bulk_copies import TMA
from wia_compiler.simulators.ptx.bulk_plan import is_load
from wia_compiler.simulators.ptx.counted import Counted
from wia_compiler.simulators.ptx.decode import Decoded
from wia_compiler.simulators.ptx.graph import BasicBlock
from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.traffic import Traffic


@dataclass
class LineCounts:
    """What the instructions of one line of the PTX did.

    ``warps`` and ``threads`` count executions, ``predicated_on`` threads whose predicate held.
    Global and local accesses have sectors, those of shared memory wavefronts; the ideal is what
    the same bytes would need at least.
    """

    text: str
    warps: int = 0
    threads: int = 0
    predicated_on: int = 0
    flops: int = 0
    branches: int = 0
    divergent_branches: int = 0
    traffic: dict[str, Traffic] = field(default_factory=dict[str, Traffic])
    location: tuple[int, int, int] | None = None

    def __add__(self, other: LineCounts) -> LineCounts:
        """What two runs of the line did."""
        traffic = dict(self.traffic)
        for space, found in other.traffic.items():
            traffic[space] = traffic[space] + found if space in traffic else found
        return LineCounts(
            self.text,
            self.warps + other.warps,
            self.threads + other.threads,
            self.predicated_on + other.predicated_on,
            self.flops + other.flops,
            self.branches + other.branches,
            self.divergent_branches + other.divergent_branches,
            traffic,
            self.location,
        )


def line_counts(
    blocks: Sequence[BasicBlock],
    code: Sequence[Decoded],
    counted: Counted,
) -> dict[int, LineCounts]:
    """Counts by line of the text (from 1), of lines that hold an instruction."""
    lines: dict[int, LineCounts] = {}
    executed, traffic = counted.executed, counted.traffic
    for number, block in enumerate(blocks):
        warps, threads = int(executed.warps[number]), int(executed.threads[number])
        for at in range(block.start, block.stop):
            decoded = code[at]
            instruction = decoded.instruction
            on = executed.predicated.get(at, threads)
            row = lines.setdefault(
                instruction.span.line,
                LineCounts(instruction.name, location=instruction.location),
            )
            row.warps += warps
            row.threads += threads
            row.predicated_on += on
            row.flops += on * decoded.flops
            row.branches += executed.branches.get(at, 0)
            row.divergent_branches += executed.divergent.get(at, 0)
    for (at, space), found in traffic.items():
        lines[code[at].instruction.span.line].traffic[space] = found
    return lines


def totals_of(
    blocks: Sequence[BasicBlock],
    code: Sequence[Decoded],
    counted: Counted,
) -> dict[str, int]:
    """The sums of a launch by name; those of several launches may be added up."""
    warps = threads = on = 0
    executed, traffic = counted.executed, counted.traffic
    flops: dict[str, int] = {}
    pipes: dict[str, int] = {}
    for number, block in enumerate(blocks):
        size = block.stop - block.start
        warps += int(executed.warps[number]) * size
        threads += int(executed.threads[number]) * size
        for at in range(block.start, block.stop):
            each = executed.predicated.get(at, int(executed.threads[number]))
            on += each
            pipe = code[at].pipe
            pipes[pipe] = pipes.get(pipe, 0) + int(executed.warps[number])
            if code[at].flops:
                name = code[at].precision
                flops[name] = flops.get(name, 0) + each * code[at].flops
    found = {
        "ptx_inst_executed": warps,
        **{f"ptx_inst_pipe_{pipe}": count for pipe, count in sorted(pipes.items()) if count},
        "ptx_thread_inst_executed": threads,
        "ptx_thread_inst_executed_pred_on": on,
        "ptx_branches": sum(executed.branches.values()),
        "ptx_branches_divergent": sum(executed.divergent.values()),
        "flops": sum(flops.values()),
    }
    found |= {f"flops_{name}": count for name, count in sorted(flops.items())}
    return found | _memory_totals(code, traffic)


def with_ratios(totals: Mapping[str, int]) -> dict[str, int | float]:
    """The sums, and the ratios that are made of them."""
    found: dict[str, int | float] = dict(totals)
    warps = totals["ptx_inst_executed"]
    threads = totals["ptx_thread_inst_executed"]
    found["ptx_thread_inst_executed_per_inst_executed"] = threads / warps if warps else 0.0
    branches, divergent = totals["ptx_branches"], totals["ptx_branches_divergent"]
    found["ptx_branch_efficiency_pct"] = 100 * (1 - divergent / branches) if branches else 100.0
    for name in ("ld", "st"):
        requests = totals.get(f"l1tex__t_requests_pipe_lsu_mem_global_op_{name}.sum")
        if requests:
            sectors = totals[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{name}.sum"]
            key = f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{name}.ratio"
            found[key] = sectors / requests
    return found


_OPERATIONS = {
    "ld": "ld",
    "ldu": "ld",
    "st": "st",
    "atom": "atom",
    "red": "red",
    "ldmatrix": "ldsm",
    "stmatrix": "stsm",
    "wmma.load": "ld",
    "wmma.store": "st",
    "cp": "ldgsts",
}
"""What Nsight Compute calls the accesses of an opcode."""


def _memory_totals(
    code: Sequence[Decoded], traffic: Mapping[tuple[int, str], Traffic]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for (at, space), each in sorted(traffic.items()):
        if space == TMA:
            _add_bulk(found, code[at].instruction, each)
            continue
        name = _OPERATIONS[code[at].instruction.opcode]
        _add(found, f"l1tex__t_requests_pipe_lsu_mem_{space}_op_{name}.sum", each.requests)
        if space == "shared":
            lost = each.wavefronts - each.ideal_wavefronts
            unit = "pipe_lsu"
            taken = f"l1tex__data_{unit}_wavefronts_mem_shared_op_{name}.sum"
            _add(found, taken, each.wavefronts)
            _add(found, f"l1tex__data_bank_conflicts_{unit}_mem_shared_op_{name}.sum", lost)
            _add(found, "shared_memory_bank_conflicts", lost)
        else:
            _add(found, f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_{name}.sum", each.sectors)
        if space == "global":
            excess = max(0, each.sectors - each.ideal_sectors)
            _add(found, "derived__memory_l2_theoretical_sectors_global", each.sectors)
            _add(found, "derived__memory_l2_theoretical_sectors_global_ideal", each.ideal_sectors)
            _add(found, "derived__memory_l2_theoretical_sectors_global_excessive", excess)
    return found


def _add_bulk(found: dict[str, int], instruction: Instruction, traffic: Traffic) -> None:
    """Bulk copies, which pass by the unit of loads and stores: copies, sectors from and to L2."""
    if instruction.opcode == "cp" and is_load(instruction):
        _add(found, "smsp__inst_executed_op_tma_ld.sum", traffic.requests)
        _add(found, "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum", traffic.sectors)
        return
    name = "red" if "reduce" in instruction.modifiers else "st"
    _add(found, f"smsp__inst_executed_op_tma_{name}.sum", traffic.requests)
    sectors = f"l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_{name}.sum"
    _add(found, sectors, traffic.sectors)


def _add(found: dict[str, int], name: str, count: int) -> None:
    found[name] = found.get(name, 0) + count

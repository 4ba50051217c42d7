"""What a run counts."""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.dialects.tpu.machine import SystolicMachine


@dataclass
class LineCounts:
    """One line of the text: how often it ran, and for how many cycles of its unit."""

    executions: int = 0
    cycles: int = 0


@dataclass
class Counters:
    """Sums over one run; ``summary`` adds what follows from them.

    ``macs_used`` counts multiply-adds of real operands (M·N·K of each pass, not its padding);
    ``mapping`` sums, over passes, the share of the array that held a weight.
    """

    instructions: int = 0
    weight_loads: int = 0
    weight_cycles: int = 0
    systolic_executes: int = 0
    systolic_cycles: int = 0
    vector_cycles: int = 0
    memory_cycles: int = 0
    hbm_read_bytes: int = 0
    hbm_written_bytes: int = 0
    rows_streamed: int = 0
    macs_used: int = 0
    mapping: float = 0.0

    def summary(self, machine: SystolicMachine, ideal_end: int, end: int) -> dict[str, int | float]:
        """Every counter by name.

        ``cycles`` is the number of the last busy cycle, counted from 0, with transfers that take
        no time: SCALE-Sim's "Total Cycles". ``total_cycles`` is how many cycles pass with HBM at
        its bandwidth. ``macs_idle`` and ``utilization_percent`` are over ``cycles``.
        """
        cycles = max(0, ideal_end - 1)
        slots = machine.rows * machine.columns * cycles
        passes = self.systolic_executes
        return {
            "cycles": cycles,
            "total_cycles": end,
            "systolic_cycles": self.systolic_cycles,
            "weight_cycles": self.weight_cycles,
            "vector_cycles": self.vector_cycles,
            "memory_cycles": self.memory_cycles,
            "instructions": self.instructions,
            "systolic_executes": passes,
            "weight_loads": self.weight_loads,
            "rows_streamed": self.rows_streamed,
            "macs_used": self.macs_used,
            "macs_idle": slots - self.macs_used if passes else 0,
            "utilization_percent": 100.0 * self.macs_used / slots if passes else 0.0,
            "mapping_percent": 100.0 * self.mapping / passes if passes else 0.0,
            "hbm_read_bytes": self.hbm_read_bytes,
            "hbm_written_bytes": self.hbm_written_bytes,
        }

"""The instruction table: what the assembler prints, the parser accepts and the simulator runs.

A row is an instruction: its operands in order, the unit that runs it, what it costs and what it
does. ``docs/tpu_isa.md`` shows the same rows; a test keeps them equal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from wia_compiler.dialects.tpu.machine import SystolicMachine

OperandKind = Literal[
    "array",  # the word array
    "buffer",  # a name declared with .vmem
    "accumulators",  # a name declared with .accumulators
    "value",  # a buffer, accumulators, or a number
    "window",  # A[%i : 128, %k : 128 clip]
    "size",  # 128x128
    "function",  # relu
    "dtype",  # bf16, f16, f32
    "register",  # %i
    "count",  # a whole number
]
Unit = Literal["sequencer", "memory", "weights", "array", "vector"]


@dataclass(frozen=True)
class Parameter:
    """One operand of an instruction."""

    name: str
    kind: OperandKind


@dataclass(frozen=True)
class Work:
    """What one execution of an instruction works on: its tile and its bytes of HBM traffic."""

    rows: int = 0
    columns: int = 1
    hbm_bytes: int = 0


Cycles = Callable[[SystolicMachine, Work], int]


@dataclass(frozen=True)
class InstructionRow:
    """One instruction; ``cycles_text`` is the formula of ``cycles`` for the documentation."""

    mnemonic: str
    parameters: tuple[Parameter, ...]
    unit: Unit
    cycles: Cycles
    cycles_text: str
    doc: str

    @property
    def form(self) -> str:
        """``load_weights array, weights``: how it is written."""
        return " ".join([self.mnemonic, ", ".join(p.name for p in self.parameters)]).strip()


def _free(machine: SystolicMachine, work: Work) -> int:
    return 0


def _hbm(machine: SystolicMachine, work: Work) -> int:
    return -(-work.hbm_bytes // machine.hbm_bytes_per_cycle)


def _shift_in(machine: SystolicMachine, work: Work) -> int:
    return machine.rows


def _pass(machine: SystolicMachine, work: Work) -> int:
    return machine.pass_cycles(work.rows)


def _vector(machine: SystolicMachine, work: Work) -> int:
    return -(-work.rows * -(-work.columns // machine.columns) // machine.vector_rows)


_VECTOR_CYCLES = "⌈rows · ⌈columns / 128⌉ / 8⌉"
_HBM_CYCLES = "⌈HBM bytes / 512⌉"

TABLE: tuple[InstructionRow, ...] = (
    InstructionRow(
        "loop",
        (
            Parameter("register", "register"),
            Parameter("extent", "count"),
            Parameter("step", "count"),
        ),
        "sequencer",
        _free,
        "0",
        "Runs the lines down to its end with the register at 0, step, 2·step … below extent.",
    ),
    InstructionRow("end", (), "sequencer", _free, "0", "Ends the innermost loop."),
    InstructionRow(
        "dma_in",
        (Parameter("destination", "buffer"), Parameter("source", "window")),
        "memory",
        _hbm,
        _HBM_CYCLES,
        "Fills the next slot of a buffer from HBM, rounding each element to the buffer's dtype "
        "(to nearest, ties to even).",
    ),
    InstructionRow(
        "clear",
        (Parameter("destination", "accumulators"), Parameter("shape", "window")),
        "array",
        _free,
        "0",
        "Takes the next slot of the accumulators, of the window's rows and columns, and makes it "
        "read as 0 (valid bits are dropped at once).",
    ),
    InstructionRow(
        "load_weights",
        (Parameter("array", "array"), Parameter("weights", "buffer")),
        "weights",
        _shift_in,
        "R = 128",
        "Shifts a bf16 tile of K × N ≤ 128 × 128 into the array; multipliers outside it hold 0.",
    ),
    InstructionRow(
        "stream_input",
        (Parameter("array", "array"), Parameter("input", "buffer")),
        "array",
        _free,
        "0",
        "Queues the M rows of a bf16 tile of M × K at the array's edge for the next "
        "systolic_execute; K is that of the weights.",
    ),
    InstructionRow(
        "systolic_execute",
        (Parameter("size", "size"), Parameter("accumulators", "accumulators")),
        "array",
        _pass,
        "M + R + C - 2",
        "Streams the queued rows through the array and adds the M × N sums to the accumulators. "
        "Each sum runs down its column: exact bf16 products, added in f32 from k = 0 up, then "
        "once to the accumulator.",
    ),
    InstructionRow(
        "vector_add",
        (
            Parameter("destination", "buffer"),
            Parameter("left", "value"),
            Parameter("right", "value"),
        ),
        "vector",
        _vector,
        _VECTOR_CYCLES,
        "Adds in f32; a tile of one row or one column, or a number, is repeated to fit the other.",
    ),
    InstructionRow(
        "activate",
        (
            Parameter("function", "function"),
            Parameter("destination", "buffer"),
            Parameter("source", "value"),
        ),
        "vector",
        _vector,
        _VECTOR_CYCLES,
        "Applies relu (max of x and 0; NaN stays NaN) to every element in f32.",
    ),
    InstructionRow(
        "vector_round",
        (
            Parameter("destination", "buffer"),
            Parameter("source", "value"),
            Parameter("dtype", "dtype"),
        ),
        "vector",
        _vector,
        _VECTOR_CYCLES,
        "Rounds every f32 element to the nearest value of a dtype (ties to even).",
    ),
    InstructionRow(
        "store_output",
        (Parameter("destination", "window"), Parameter("source", "value")),
        "memory",
        _hbm,
        _HBM_CYCLES,
        "Writes a tile to HBM, rounding each element to the tensor's dtype (to nearest, ties to "
        "even); a tile of one row or one column, or a number, is repeated to fill the window.",
    ),
)

INSTRUCTIONS: dict[str, InstructionRow] = {row.mnemonic: row for row in TABLE}
FUNCTIONS: tuple[str, ...] = ("relu",)
TENSOR_DTYPES: tuple[str, ...] = ("f32", "bf16", "f16")

"""The sizes and rates of the systolic machine that target ``tpu:spec`` stands for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SystolicMachine:
    """A weight-stationary array with its memories.

    ``rows`` × ``columns`` multipliers (bf16 in, f32 sums) hold one tile of weights; ``vmem_bytes``
    is the on-chip memory behind the buffers, ``accumulator_rows`` rows of ``columns`` f32 sums
    stand under the array; the vector unit takes ``vector_rows`` rows of ``columns`` lanes a cycle.
    """

    name: str
    rows: int
    columns: int
    accumulator_rows: int
    vmem_bytes: int
    vector_rows: int
    hbm_bytes_per_cycle: int
    clock_hz: int

    def __post_init__(self) -> None:
        numbers = (value for value in vars(self).values() if isinstance(value, int))
        if min(numbers) < 1:
            raise ValueError(f"a machine's sizes and rates are positive: {self}")

    @property
    def size(self) -> str:
        """The array as ``systolic_execute`` names it: ``128x128``."""
        return f"{self.rows}x{self.columns}"

    @property
    def peak_flops(self) -> float:
        """FLOP/s with every multiplier busy; a multiply-add counts two."""
        return 2.0 * self.rows * self.columns * self.clock_hz

    @property
    def hbm_bandwidth(self) -> float:
        """Bytes a second between HBM and the chip."""
        return float(self.hbm_bytes_per_cycle * self.clock_hz)

    def pass_cycles(self, input_rows: int) -> int:
        """Cycles from the first input row entering to the last sum leaving the array.

        One row enters a cycle and crosses all rows and columns diagonally. With the ``rows``
        cycles that loading weights takes, a pass costs SCALE-Sim's 2R + C + M - 2.
        """
        return input_rows + self.rows + self.columns - 2


SPEC = SystolicMachine(
    name="tpu:spec",
    # WIA-AI-011 chapter 5.8: systolic_execute 128x128; weights are loaded, inputs are streamed.
    rows=128,
    columns=128,
    # Jouppi et al., "In-Datacenter Performance Analysis of a Tensor Processing Unit", ISCA 2017,
    # section 2: 4096 accumulator rows, twice the 2048 that peak rate needs, so that one half is
    # drained while the other fills. The chapter gives no clock: 700 MHz is TPU v1's, and the
    # 23 TFLOP/s of TPU v2's one 128×128 bf16 array imply the same.
    accumulator_rows=4096,
    clock_hz=700_000_000,
    # TPU v2, per core (jax 0.10.2, jax/_src/pallas/mosaic/tpu_info.py): 16 MiB of VMEM,
    # 8 sublanes × 128 lanes, 358 GB/s of HBM, which is 512 bytes a cycle at 700 MHz.
    vmem_bytes=16 * 1024 * 1024,
    vector_rows=8,
    hbm_bytes_per_cycle=512,
)

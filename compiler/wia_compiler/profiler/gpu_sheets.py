"""GPUs as their makers publish them: frozen rows that check themselves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wia_compiler.backends.gpu.architecture import ARCHITECTURES, WARP_SIZE, Architecture
from wia_compiler.base.errors import ArgumentError
from wia_compiler.profiler.ceilings import Ceiling, Ceilings

TOLERANCE = 0.02
"""How far SMs × operations a cycle × clock may lie from the published rate."""


@dataclass(frozen=True)
class Rate:
    """Operations of one SM in a cycle (a multiply-add is two), the clock, and the published rate.

    ``published`` is FLOP/s (integer operations/s) of the whole GPU without sparsity.
    """

    per_cycle: int
    clock_hz: float
    published: float

    @property
    def lanes(self) -> int:
        """Threads that one SM serves in a cycle, each with a multiply-add."""
        return self.per_cycle // 2


@dataclass(frozen=True)
class Latencies:
    """Cycles from the issue of an instruction to its result.

    ``shared``, ``l2`` and ``memory`` are loads served there, ``shuffle`` a value of another lane,
    ``special`` ``ex2`` and its like, ``tensor`` one ``mma``, ``barrier`` a ``bar.sync`` at which
    nobody waits for anybody.
    """

    shared: int
    l2: int
    memory: int
    arithmetic: int = 4
    double: int = 8
    special: int = 18
    shuffle: int = 23
    tensor: int = 33
    barrier: int = 20


@dataclass(frozen=True)
class GpuSheet:
    """One product. Bandwidths are bytes/s, ``l2_bytes`` the size of the last cache.

    ``integer_lanes`` and ``special_lanes`` are threads an SM serves in a cycle; ``rates`` are by
    name: ``f32``, ``f64`` of ordinary instructions, ``f16 tensor`` and other types of ``mma``.
    ``mma_share`` is the part of the tensor rate that ``mma`` reaches (on Hopper only ``wgmma`` has
    all of it). ``l1_bytes`` is what L1 gives an SM in a cycle.
    """

    name: str
    architecture: str
    sms: int
    clock_hz: float
    rates: Mapping[str, Rate]
    bandwidth: float
    l2_bandwidth: float
    l2_bytes: int
    latencies: Latencies
    integer_lanes: int = 64
    special_lanes: int = 16
    l1_bytes: int = 128
    mma_share: float = 1.0

    def __post_init__(self) -> None:
        row = ARCHITECTURES.get(self.architecture)
        if row is None:
            raise ValueError(f"{self.name}: no architecture {self.architecture!r}")
        for name, rate in self.rates.items():
            found = self.peak(name)
            if abs(found - rate.published) > TOLERANCE * rate.published:
                raise ValueError(
                    f"{self.name}: {name} makes {found / 1e12:.2f} TFLOP/s of {self.sms} SMs, "
                    f"{rate.published / 1e12:.2f} are published"
                )
        if not {"f32", "f64"} <= set(self.rates):
            raise ValueError(f"{self.name}: rates of f32 and f64 are needed")
        if not self.bandwidth < self.l2_bandwidth < self.sms * self.l1_bytes * self.clock_hz:
            raise ValueError(f"{self.name}: a nearer memory is a faster one")
        times = self.latencies
        if not times.arithmetic < times.shared < times.l2 < times.memory:
            raise ValueError(f"{self.name}: a nearer memory answers sooner")

    def peak(self, name: str) -> float:
        """FLOP/s that SMs, operations a cycle and clock make."""
        rate = self.rates[name]
        return self.sms * rate.per_cycle * rate.clock_hz

    @property
    def facts(self) -> Architecture:
        """What every GPU of this architecture has: registers, shared memory, warps of an SM."""
        return ARCHITECTURES[self.architecture]

    @property
    def ceilings(self) -> Ceilings:
        """The published limits, to draw a roofline below."""
        source = f"data sheet of {self.name}"
        dtypes = {"f32": ("f32",), "f64": ("f64",), "f16 tensor": ("f16", "bf16")}
        rows = [
            Ceiling(name, "compute", self.rates[name].published, source, None, served)
            for name, served in dtypes.items()
        ]
        rows.append(Ceiling("DRAM", "memory", self.bandwidth, source))
        return Ceilings(self.name, tuple(rows))


def _rates(clock_hz: float, tensor_hz: float, **rows: tuple[int, float]) -> dict[str, Rate]:
    """Rows of operations a cycle and published TFLOP/s; ``f16`` and narrower ones are ``mma``'s."""
    made: dict[str, Rate] = {}
    for name, (per_cycle, published) in rows.items():
        ordinary = name in ("f32", "f64")
        clock = clock_hz if ordinary else tensor_hz
        made[name if ordinary else f"{name} tensor"] = Rate(per_cycle, clock, published * 1e12)
    return made


def _hopper(name: str, bandwidth: float) -> GpuSheet:
    """H100 and H200 differ in their memories only."""
    rates = _rates(
        1.98e9, 1.83e9, f32=(256, 67), f64=(128, 34), f16=(4096, 989.4), tf32=(2048, 494.7),
        i8=(8192, 1979), f8=(8192, 1979),
    )  # fmt: skip
    times = Latencies(29, 263, 479)
    return GpuSheet(
        name, "sm_90", 132, 1.98e9, rates, bandwidth, 5.7e12, 50 << 20, times, mma_share=0.63
    )


SHEETS: dict[str, GpuSheet] = {
    sheet.name: sheet
    for sheet in (
        GpuSheet(
            "T4", "sm_75", 40, 1.59e9,
            _rates(
                1.59e9, 1.59e9, f32=(128, 8.1), f64=(4, 0.2544), f16=(1024, 65), i8=(2048, 130)
            ),
            320e9, 1.27e12, 4 << 20, Latencies(19, 188, 434), l1_bytes=64,
        ),
        GpuSheet(
            "A100", "sm_80", 108, 1.41e9,
            _rates(
                1.41e9, 1.41e9, f32=(128, 19.5), f64=(64, 9.7), f16=(2048, 312), tf32=(1024, 156),
                i8=(4096, 624),
            ),
            2039e9, 5.12e12, 40 << 20, Latencies(29, 262, 466),
        ),
        GpuSheet(
            "RTX 4090", "sm_89", 128, 2.52e9,
            _rates(
                2.52e9, 2.52e9, f32=(256, 82.6), f64=(4, 1.29), f16=(512, 165.2), tf32=(256, 82.6),
                i8=(2048, 660.6), f8=(1024, 330.3),
            ),
            1008e9, 5.0e12, 72 << 20, Latencies(30, 273, 541),
        ),
        _hopper("H100", 3350e9),
        _hopper("H200", 4800e9),
        GpuSheet(
            "B200", "sm_100", 148, 1.965e9,
            _rates(
                1.965e9, 1.855e9, f32=(256, 75), f64=(128, 37), f16=(8192, 2250),
                tf32=(4096, 1125), i8=(16384, 4500), f8=(16384, 4500),
            ),
            8000e9, 1.5e13, 126 << 20, Latencies(29, 295, 590), mma_share=0.31,
        ),
        GpuSheet(
            "RTX 5090", "sm_120", 170, 2.407e9,
            _rates(
                2.407e9, 2.407e9, f32=(256, 104.8), f64=(4, 1.637), f16=(512, 209.5),
                tf32=(256, 104.8), i8=(2048, 838), f8=(1024, 419),
            ),
            1792e9, 7.9e12, 96 << 20, Latencies(30, 313, 620), integer_lanes=128,
        ),
    )
}  # fmt: skip
"""Products by name, those of one architecture in order of their publication.

Clocks, SMs, rates and DRAM bandwidths: NVIDIA's data sheets of T4 (2019), A100 80 GB SXM (2021),
H100 SXM and H200 SXM (2023), and the Ada and Hopper whitepapers; Hopper's tensor rates hold at
1.83 GHz, its others at 1.98 GHz. Not published by NVIDIA, measured by others and rounded: latencies
(T4: Jia et al., arXiv:1903.07486; the others: Luo et al., arXiv:2402.13499, who also measured what
``mma`` reaches on Hopper), L2 bandwidths (T4: Jia et al.; the others differ by some 20 % from
source to source).

Blackwell: NVIDIA's data sheet of HGX B200 (2025; its eight GPUs' rates over 8, those with sparsity
over 2 more) and the RTX Blackwell architecture whitepaper (2025). L2 latencies and RTX 5090's L2
bandwidth: Chips and Cheese's measurements of B200 (150 ns) and of RTX PRO 6000 (130 ns, 8.7 TB/s
for 188 SMs, taken for 170). Nobody measured what else is needed, it is taken from the generation
before and worth less than the rest of the sheet: latencies of DRAM as twice those of L2 (as on
H100 and RTX 4090), B200's L2 bandwidth as L2 ports of 64 bytes a cycle allow at most, 80 % of it,
and its ``mma`` at Hopper's operations a cycle, for only ``tcgen05`` reaches the published rates.
"""


def sheet_for(target: str, device: str | None = None) -> GpuSheet | None:
    """The product to stand for a target: ``device``, or the first that runs the target's code.

    One of the target's own architecture comes first, then the next newer one. ``None`` where no
    sheet runs it. ``ArgumentError`` for a device that is not known or too old.
    """
    wanted = ARCHITECTURES[target.partition(":")[2]]
    fitting = [sheet for sheet in SHEETS.values() if wanted.runs_on(_capability(sheet))]
    if device is None:
        return min(fitting, key=_capability, default=None)
    plain = {_plain(name): sheet for name, sheet in SHEETS.items()}
    found = plain.get(_plain(device))
    if found is None:
        raise ArgumentError(f"device={device!r}: expected one of {', '.join(SHEETS)}")
    if found not in fitting:
        names = ", ".join(sheet.name for sheet in fitting) or "none that is known"
        raise ArgumentError(
            f"device={device!r}: {found.name} is {found.architecture} and cannot run code for "
            f"{target}, expected one of {names}"
        )
    return found


def lanes_cycles(instructions: float, lanes: int) -> float:
    """Cycles that a unit of so many lanes takes for warps' instructions."""
    return instructions * WARP_SIZE / lanes


def _capability(sheet: GpuSheet) -> int:
    return int(sheet.architecture.removeprefix("sm_"))


def _plain(name: str) -> str:
    return name.lower().replace(" ", "").replace("-", "").removeprefix("rtx")

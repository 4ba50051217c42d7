"""When each instruction runs: units work side by side, data and slots make them wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wia_compiler.dialects.tpu.machine import SystolicMachine


@dataclass
class Clock:
    """A timeline of one run.

    Each unit takes its instructions in order; an instruction starts when its unit is free, what it
    reads is there, and what it overwrites was read. Reads and writes of HBM queue apart and share
    one port, where a transfer may use a gap that a waiting one leaves. ``ideal_memory`` makes every
    transfer instant, as SCALE-Sim's stall-free count does.

    With ``double_buffered`` weights the array holds two tiles: the next one shifts in while the
    current one works, and rows of the next pass follow directly. Without, loading waits until the
    last sum has left the array, and a pass until loading is over.
    """

    machine: SystolicMachine
    double_buffered: bool
    ideal_memory: bool
    end: int = 0
    ready: dict[str, int] = field(default_factory=dict[str, int])
    idle: dict[str, int] = field(default_factory=dict[str, int])
    units: dict[str, int] = field(default_factory=dict[str, int])
    gaps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    port: int = 0
    weights_loaded: int = 0
    weights_free: int = 0
    array_free: int = 0

    def transfer(
        self,
        queue: str,
        cycles: int,
        reads: Sequence[str],
        writes: Sequence[str],
        produces: str | None = None,
    ) -> None:
        """HBM traffic of ``queue`` ``read`` or ``write``; ``produces`` is the tensor written."""
        earliest = max(self.units.get(queue, 0), self._available(reads, writes))
        if self.ideal_memory or cycles == 0:
            start, cycles = earliest, 0
        else:
            start = self._port(earliest, cycles)
        self.units[queue] = start + cycles
        self._done(start + cycles, reads, writes)
        if produces is not None:
            self.ready[produces] = max(self.ready.get(produces, 0), start + cycles)

    def vector(self, cycles: int, reads: Sequence[str], writes: Sequence[str]) -> None:
        """One instruction of the vector unit."""
        start = max(self.units.get("vector", 0), self._available(reads, writes))
        self.units["vector"] = start + cycles
        self._done(start + cycles, reads, writes)

    def load_weights(self, cycles: int, weights: str) -> None:
        """Shift a tile into the array."""
        free = self.weights_free if self.double_buffered else self.array_free
        start = max(self.weights_loaded, free, self.ready.get(weights, 0))
        self.weights_loaded = start + cycles
        self._done(start + cycles, (weights,), ())

    def execute(self, rows: int, cycles: int, inputs: str, sums: str) -> None:
        """One pass; sums leave in order, so the next pass into the same slot need not wait."""
        start = max(self.weights_loaded, self.array_free, self.ready.get(inputs, 0))
        start = max(start, self.idle.get(sums, 0))
        # The sums of the first row leave after it has crossed the array.
        self.array_free = start + (rows if self.double_buffered else cycles)
        self.weights_free = start
        self.idle[inputs] = max(self.idle.get(inputs, 0), start + rows)
        self.ready[sums] = start + cycles
        self.end = max(self.end, start + cycles)

    def clear(self, sums: str) -> None:
        """Take a slot of the accumulators: what was in it must have been read."""
        self.ready[sums] = max(self.ready.get(sums, 0), self.idle.get(sums, 0))

    def _available(self, reads: Sequence[str], writes: Sequence[str]) -> int:
        wait = [self.ready.get(key, 0) for key in reads]
        wait += [max(self.ready.get(key, 0), self.idle.get(key, 0)) for key in writes]
        return max(wait, default=0)

    def _done(self, end: int, reads: Sequence[str], writes: Sequence[str]) -> None:
        for key in reads:
            self.idle[key] = max(self.idle.get(key, 0), end)
        for key in writes:
            self.ready[key] = end
        self.end = max(self.end, end)

    def _port(self, earliest: int, cycles: int) -> int:
        """Reserve the port for ``cycles``: in the first gap that holds them, or at the end."""
        passed = min(self.units.get("read", 0), self.units.get("write", 0))
        self.gaps = [gap for gap in self.gaps if gap[1] > passed]
        for number, (start, stop) in enumerate(self.gaps):
            begin = max(start, earliest)
            if begin + cycles <= stop:
                rest = [(start, begin), (begin + cycles, stop)]
                self.gaps[number : number + 1] = [gap for gap in rest if gap[0] < gap[1]]
                return begin
        begin = max(self.port, earliest)
        if begin > self.port:
            self.gaps.append((self.port, begin))
        self.port = begin + cycles
        return begin

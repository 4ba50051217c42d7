"""What a launch counts as it runs: executions of its code, traffic of its memory instructions."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.traffic import Traffic


@dataclass
class Executed:
    """How often things ran: by block of the graph in warps and threads, and by instruction.

    ``predicated`` counts, for instructions with a predicate, the threads whose predicate held;
    ``divergent`` the warps that a branch sent two ways.
    """

    warps: NDArray[np.int64]
    threads: NDArray[np.int64]
    predicated: dict[int, int] = field(default_factory=dict[int, int])
    branches: dict[int, int] = field(default_factory=dict[int, int])
    divergent: dict[int, int] = field(default_factory=dict[int, int])


@dataclass
class Counted:
    """What a launch counted: executions, and memory traffic by (instruction number, space).

    ``seconds`` is the processor time that it took.
    """

    executed: Executed
    traffic: dict[tuple[int, str], Traffic] = field(default_factory=dict[tuple[int, str], Traffic])
    seconds: float = 0.0

    @staticmethod
    def nothing(blocks: int) -> Counted:
        """Of a graph of so many blocks, none ran yet."""
        return Counted(Executed(np.zeros(blocks, np.int64), np.zeros(blocks, np.int64)))

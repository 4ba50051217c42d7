"""What one PTX instruction of a warp takes of each unit, and how long its result is under way."""

from __future__ import annotations

from dataclasses import dataclass

from wia_compiler.profiler.gpu_sheets import Latencies
from wia_compiler.simulators.ptx.flow import Issued

_TENSOR = {
    "f16": "f16 tensor", "bf16": "f16 tensor", "tf32": "tf32 tensor", "s8": "i8 tensor",
    "u8": "i8 tensor", "e4m3": "f8 tensor", "e5m2": "f8 tensor", "f64": "f64",
}  # fmt: skip
BY_WARPGROUP = " by warpgroup"
"""Behind the rate of a product of whole warpgroups, which reaches all of it."""
_SHUFFLES = ("shfl", "match", "redux")


@dataclass(frozen=True)
class Cost:
    """Instructions of a warp for each unit, ``shuffles`` through shared memory's paths.

    ``others`` take only a place of issue. ``tensor`` is the rate that serves a ``mma``, ``flops``
    its operations for the whole warp. ``steps`` are instructions that wait for one another.
    """

    fp32: float = 0
    fp64: float = 0
    integer: float = 0
    special: float = 0
    shuffles: float = 0
    others: float = 0
    tensor: str = ""
    flops: float = 0
    steps: int = 1

    @property
    def issued(self) -> float:
        """Places of issue."""
        units = self.fp32 + self.fp64 + self.integer + self.special + self.shuffles
        return units + self.others


_NOTHING = Cost(steps=0)
_ONE = Cost(others=1)
# What ptxas 13 makes for sm_80, on the way that ordinary numbers take.
_EXACT = {
    "div": Cost(fp32=6, special=2, others=3, steps=7),
    "sqrt": Cost(fp32=4, integer=3, special=1, others=3, steps=6),
    "rcp": Cost(fp32=3, integer=3, special=1, others=3, steps=5),
}
_EXACT_DOUBLE = Cost(fp64=8, integer=6, special=1, others=1, steps=9)
_APPROXIMATE = {"div": Cost(fp32=8, special=1, steps=4)}
_SCALED = Cost(fp32=3, special=1, steps=3)
"""``ex2`` and its like look for subnormal numbers unless they may flush them."""
_DIVISION = {
    True: Cost(integer=22, special=3, steps=16),
    False: Cost(integer=15, special=3, steps=12),
}
"""Of signed and of unsigned 32-bit integers."""
_LONG_DIVISION = Cost(integer=80, special=4, steps=60)


def cost_of(issued: Issued) -> Cost:
    """The cost of an instruction, as far as its PTX tells.

    ptxas makes one instruction of most; exact divisions and roots, and 64-bit integers become
    several; moves, addresses and parameters none, for registers and constants are operands.
    """
    decoded = issued.decoded
    instruction = decoded.instruction
    opcode, words = instruction.opcode, instruction.modifiers
    match decoded.pipe:
        case "tensor":
            types = [word for word in words if word in _TENSOR]
            name = _TENSOR[types[1] if len(types) > 2 else types[-1]]
            name += BY_WARPGROUP if opcode == "wgmma" else ""
            return Cost(others=1, tensor=name, flops=32.0 * decoded.flops)
        case "memory":
            return _NOTHING if "param" in words else Cost(others=1)
        case "move":
            if opcode == "mov":
                return _NOTHING
            return Cost(shuffles=1) if opcode in _SHUFFLES else _ONE
        case "control":
            return _ONE
        case "special":
            return _special(opcode, words)
        case "double":
            return _EXACT_DOUBLE if opcode in _EXACT else Cost(fp64=1)
        case "convert":
            return Cost(special=1) if _crosses(words) else Cost(integer=1)
        case "float":
            return _special(opcode, words) if opcode in _EXACT else Cost(fp32=1)
        case "integer":
            return _integer(opcode, words)


def latency_of(issued: Issued, cost: Cost, far: int, times: Latencies) -> int:
    """Cycles until the result is there; ``far`` are those of a load from global memory."""
    instruction = issued.decoded.instruction
    opcode, words = instruction.opcode, instruction.modifiers
    match issued.decoded.pipe:
        case "memory":
            if opcode in ("st", "red", "stmatrix") or "param" in words:
                return 0
            near = "shared" in words or "local" in words or opcode == "ldmatrix"
            return times.shared if near and opcode != "cp" else far
        case "tensor":
            return times.tensor
        case "special" | "convert" | "float" | "integer" if cost.special:
            return times.special + (cost.steps - 1) * times.arithmetic
        case "double":
            return cost.steps * times.double
        case "move" if cost.shuffles:
            return times.shuffle
        case _:
            return cost.steps * times.arithmetic


def _integer(opcode: str, words: tuple[str, ...]) -> Cost:
    wide = any(word in ("u64", "s64", "b64") for word in words)
    if opcode == "cvta":
        return _NOTHING
    if opcode in ("div", "rem"):
        return _LONG_DIVISION if wide else _DIVISION["s32" in words]
    if not wide:
        return Cost(integer=1)
    return Cost(integer=4, steps=2) if opcode in ("mul", "mad") else Cost(integer=2, steps=2)


def _special(opcode: str, words: tuple[str, ...]) -> Cost:
    flags = set(words)
    if flags & {"f16", "bf16", "f16x2", "bf16x2"} or opcode in ("sin", "cos", "tanh"):
        return Cost(special=1)
    if not flags & {"approx", "full"}:
        return _EXACT.get(opcode, Cost(special=1))
    return _APPROXIMATE.get(opcode, Cost(special=1) if "ftz" in flags else _SCALED)


def _crosses(words: tuple[str, ...]) -> bool:
    """Whether a conversion goes between floats and integers, or to or from f64: a slower unit's."""
    types = [word for word in words if word[:1] in "fbsue" and word[-1:].isdigit()]
    return len({"f" in word or word[:1] == "e" for word in types}) > 1 or "f64" in types

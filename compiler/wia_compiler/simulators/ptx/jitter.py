"""Results that PTX leaves open, moved about within what it allows.

``wia.ptx.run(…, jitter=seed)`` gives every approximate instruction an error of its own, up to the
bound in the PTX ISA, and adds the products of matrices in another order, in f32. A kernel whose
answer changes by more than its users expect depends on what other hardware may do differently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wia_compiler.simulators.ptx.syntax import Instruction
from wia_compiler.simulators.ptx.threads import Array
from wia_compiler.simulators.ptx.values.form import Form

Numbers = NDArray[np.float64]
_SMALLEST = float(np.finfo(np.float32).tiny)
_PARTS = 4
"""Parts that the sum of a product is made of, each rounded to f32."""


def _spacing(exact: Numbers) -> Numbers:
    """The distance of f32 numbers there (an ulp)."""
    return np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)


def _ulps(count: float) -> Callable[..., Numbers]:
    def bound(exact: Numbers, *operands: Numbers) -> Numbers:
        return count * _spacing(exact)

    return bound


def _relative(bits: float) -> Callable[..., Numbers]:
    def bound(exact: Numbers, *operands: Numbers) -> Numbers:
        return np.abs(exact) * 2.0**-bits

    return bound


def _absolute(bits: float) -> Callable[..., Numbers]:
    def bound(exact: Numbers, *operands: Numbers) -> Numbers:
        return np.full(exact.shape, 2.0**-bits)

    return bound


def _inverse_root(x: Numbers) -> Numbers:
    return 1 / np.sqrt(x)


def _logarithm(exact: Numbers, x: Numbers) -> Numbers:
    near_one = (x > 0.5) & (x < 2.0)
    return np.where(near_one, 2.0**-22, np.abs(exact) * 2.0**-22)


@dataclass(frozen=True)
class Approximation:
    """A function in f64, and the error that its ``.approx`` form of f32 may have."""

    function: Callable[..., Numbers]
    bound: Callable[..., Numbers]


APPROXIMATIONS: Mapping[str, Approximation] = {
    "ex2": Approximation(np.exp2, _ulps(2)),
    "lg2": Approximation(np.log2, _logarithm),
    "rcp": Approximation(np.reciprocal, _ulps(1)),
    "sqrt": Approximation(np.sqrt, _relative(23)),
    "rsqrt": Approximation(_inverse_root, _relative(22.9)),
    "sin": Approximation(np.sin, _absolute(20.5)),
    "cos": Approximation(np.cos, _absolute(20.5)),
    "tanh": Approximation(np.tanh, _relative(11)),
    "div": Approximation(np.divide, _ulps(2)),
}
"""By opcode; the errors are those of the PTX ISA, "Floating Point Instructions"."""


def approximation_of(form: Form) -> Approximation | None:
    """What an instruction approximates; ``None`` where its result is one number only."""
    loose = not {"approx", "full"}.isdisjoint(form.flags)
    if not loose or form.type.name != "f32":
        return None
    return APPROXIMATIONS.get(form.instruction.opcode)


@dataclass(frozen=True)
class Jitter:
    """Errors that depend on the seed, the instruction and its operands alone."""

    seed: int

    def moved(
        self, instruction: Instruction, approximation: Approximation, made: Array, *operands: Array
    ) -> Array:
        """A result within the bound; infinities, NaNs, zeros and subnormal numbers stay."""
        wide = [np.asarray(each).astype(np.float64) for each in operands]
        exact = np.asarray(approximation.function(*wide))
        size = np.abs(exact)
        plain = np.isfinite(exact) & np.isfinite(made) & (size > _SMALLEST) & (size < 3e38)
        safe = np.where(plain, exact, 1.0)
        # Rounding to f32 adds half an ulp to the error.
        room = np.maximum(approximation.bound(safe, *wide) - _spacing(safe) / 2, 0.0)
        shift = self._noise(instruction, *operands) * room
        return np.where(plain, (safe + shift).astype(np.float32), made)

    def _noise(self, instruction: Instruction, *operands: Array) -> Numbers:
        """Between -1 and 1, by the operands' bits."""
        mixed = np.uint64((self.seed * 0x9E3779B97F4A7C15 + instruction.span.line) % (1 << 64))
        for each in operands:
            bits = np.ascontiguousarray(each).view(np.uint32).astype(np.uint64)
            mixed = (mixed ^ bits.reshape(np.shape(each))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = mixed ^ (mixed >> np.uint64(29))
        return np.asarray((mixed >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0)

    def summed(
        self,
        instruction: Instruction,
        multiply: Callable[[Numbers, Numbers], Numbers],
        x: Numbers,
        y: Numbers,
        z: Numbers,
    ) -> Numbers:
        """z + x y, the summed axis cut into parts in another order, every sum rounded to f32."""
        depth = x.shape[2]
        order = np.random.default_rng([self.seed, instruction.span.line]).permutation(depth)
        total = z.astype(np.float32)
        for part in np.array_split(order, min(_PARTS, depth)):
            total = total + multiply(x[:, :, part], y[:, part]).astype(np.float32)
        return total.astype(np.float64)

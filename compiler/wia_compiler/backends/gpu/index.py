"""Index arithmetic that knows its ranges: sums of SSA values with constant factors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from xdsl.ir import SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)


@dataclass(frozen=True)
class Atom:
    """An SSA value of type index, or a ``floordiv`` or ``mod`` of a sum by a constant.

    ``low`` and ``high`` are the smallest and largest number it can be. Two atoms are equal where
    they are the same value or the same operation on equal sums.
    """

    low: int
    high: int
    value: SSAValue | None = None
    operation: str = ""
    operand: Index | None = None
    divisor: int = 1

    def __hash__(self) -> int:
        return hash((id(self.value), self.operation, self.operand, self.divisor))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and (
            self.value is other.value
            and (self.operation, self.divisor) == (other.operation, other.divisor)
            and self.operand == other.operand
        )


@dataclass(frozen=True)
class Index:
    """``sum(factor * atom) + constant``."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest value, atoms taken as independent."""
        low = high = self.constant
        for atom, factor in self.terms:
            ends = (atom.low * factor, atom.high * factor)
            low, high = low + min(ends), high + max(ends)
        return low, high

    @property
    def is_constant(self) -> bool:
        """Whether it is a number."""
        return not self.terms

    @property
    def without_constant(self) -> Index:
        """The same sum without its constant."""
        return Index(self.terms)

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.terms, self.constant + other)
        factors = dict(self.terms)
        for atom, factor in other.terms:
            factors[atom] = factors.get(atom, 0) + factor
        terms = tuple((atom, factor) for atom, factor in factors.items() if factor)
        return Index(terms, self.constant + other.constant)

    def __mul__(self, factor: int) -> Index:
        if factor == 0:
            return Index()
        terms = tuple((atom, own * factor) for atom, own in self.terms)
        return Index(terms, self.constant * factor)

    def floor_divide(self, divisor: int) -> Index:
        """``self floordiv divisor``, taken apart as far as factors and ranges allow.

        ``(4 * a + b) floordiv 4`` with ``0 <= b < 4`` is ``a``; ``(4 * a + 3) floordiv 8`` is
        ``a floordiv 2``, as that of ``4 * a`` is: neighbours share an atom.
        """
        whole, rest = self._split(divisor)
        low, high = rest.range
        if low // divisor == high // divisor:
            return whole + low // divisor
        common, rest, _ = _reduced(rest, divisor)
        divisor //= common
        low, high = rest.range
        atom = Atom(low // divisor, high // divisor, None, "floordiv", rest, divisor)
        return whole + Index(((atom, 1),))

    def modulo(self, divisor: int) -> Index:
        """``self mod divisor``, taken apart likewise.

        ``(4 * a + 3) mod 8`` is ``4 * (a mod 2) + 3``.
        """
        _, rest = self._split(divisor)
        low, high = rest.range
        if low // divisor == high // divisor:
            return rest + -(low // divisor) * divisor
        common, rest, left = _reduced(rest, divisor)
        divisor //= common
        return Index(((Atom(0, divisor - 1, None, "mod", rest, divisor), common),), left)

    def _split(self, divisor: int) -> tuple[Index, Index]:
        """``(a, b)`` with ``self == a * divisor + b``, as much as divides in ``a``."""
        whole = tuple((atom, f // divisor) for atom, f in self.terms if f % divisor == 0)
        rest = tuple((atom, f) for atom, f in self.terms if f % divisor)
        quotient, remainder = divmod(self.constant, divisor)
        return Index(whole, quotient), Index(rest, remainder)


def _reduced(index: Index, divisor: int) -> tuple[int, Index, int]:
    """``(g, a, c)`` with ``index == g * a + c``, ``0 <= c < g``; ``g`` divides ``divisor``."""
    common = gcd(divisor, *(factor for _, factor in index.terms))
    quotient, left = divmod(index.constant, common)
    terms = tuple((atom, factor // common) for atom, factor in index.terms)
    return common, Index(terms, quotient), left


def of_value(value: SSAValue, size: int) -> Index:
    """A value that runs from 0 to ``size - 1``; the number 0 where it can be nothing else."""
    return Index(((Atom(0, size - 1, value), 1),)) if size > 1 else Index()


def delinearize(index: Index, sizes: Sequence[int]) -> tuple[Index, ...]:
    """Positions in a box of ``sizes`` of a linear position, the last axis running fastest."""
    positions: list[Index] = []
    for size in reversed(sizes[1:]):
        positions.append(index.modulo(size))
        index = index.floor_divide(size)
    return (index, *reversed(positions)) if sizes else ()


def evaluate(expression: AffineExpr, dims: Sequence[Index], symbols: Sequence[Index]) -> Index:
    """An affine expression at positions of its dimensions and symbols."""
    match expression:
        case AffineConstantExpr():
            return Index((), expression.value)
        case AffineDimExpr():
            return dims[expression.position]
        case AffineSymExpr():
            return symbols[expression.position]
        case AffineBinaryOpExpr():
            left = evaluate(expression.lhs, dims, symbols)
            right = evaluate(expression.rhs, dims, symbols)
            return _binary(expression.kind, left, right)
        case _:
            raise TypeError(f"no index for affine expression {expression}")


def _binary(kind: AffineBinaryOpKind, left: Index, right: Index) -> Index:
    if kind is AffineBinaryOpKind.Add:
        return left + right
    if kind is AffineBinaryOpKind.Mul and left.is_constant:
        return right * left.constant
    if not right.is_constant:
        raise TypeError("an affine product or quotient has a constant on its right")
    match kind:
        case AffineBinaryOpKind.Mul:
            return left * right.constant
        case AffineBinaryOpKind.FloorDiv:
            return left.floor_divide(right.constant)
        case AffineBinaryOpKind.CeilDiv:
            return (left + (right.constant - 1)).floor_divide(right.constant)
        case _:
            return left.modulo(right.constant)

"""Affine index expressions: their linear form, their range, and division by a constant.

xDSL builds affine expressions and simplifies sums; it does not divide. Expressions here are sums of
``coefficient * atom + constant``, where an atom is a dimension, a symbol, or a ``floordiv`` or
``mod`` that could not be taken apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)

Range = tuple[int, int]
"""The smallest and the largest value of an expression."""


@dataclass(frozen=True)
class LinearForm:
    """``sum(coefficient * atom) + constant``, atoms in the order in which the text names them."""

    terms: Mapping[AffineExpr, int]
    constant: int

    @property
    def is_linear(self) -> bool:
        """Whether every atom is a dimension or a symbol."""
        return all(isinstance(atom, AffineDimExpr | AffineSymExpr) for atom in self.terms)

    def expression(self) -> AffineExpr:
        """The expression in its plainest spelling."""
        total: AffineExpr | None = None
        for atom, coefficient in self.terms.items():
            term = atom * coefficient
            total = term if total is None else total + term
        if total is None:
            return AffineExpr.constant(self.constant)
        return total + self.constant if self.constant else total


def linear_form(expression: AffineExpr) -> LinearForm:
    """The linear form of any affine expression."""
    terms: dict[AffineExpr, int] = {}
    constant = _gather(expression, 1, terms)
    constant += _rejoin(terms)
    return LinearForm({atom: c for atom, c in terms.items() if c}, constant)


def _rejoin(terms: dict[AffineExpr, int]) -> int:
    """Join ``(e floordiv m) * m + e mod m`` to ``e``; gives what that adds to the constant."""
    constant = 0
    for atom, factor in list(terms.items()):
        if not isinstance(atom, AffineBinaryOpExpr) or atom.kind is not AffineBinaryOpKind.Mod:
            continue
        assert isinstance(atom.rhs, AffineConstantExpr)
        quotient = AffineBinaryOpExpr(AffineBinaryOpKind.FloorDiv, atom.lhs, atom.rhs)
        if factor and terms.get(quotient) == factor * atom.rhs.value:
            del terms[atom], terms[quotient]
            constant += _gather(atom.lhs, factor, terms)
    return constant


def _gather(expression: AffineExpr, factor: int, terms: dict[AffineExpr, int]) -> int:
    match expression:
        case AffineConstantExpr():
            return factor * expression.value
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            left = _gather(expression.lhs, factor, terms)
            return left + _gather(expression.rhs, factor, terms)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul):
            by = expression.rhs
            if isinstance(by, AffineConstantExpr):
                return _gather(expression.lhs, factor * by.value, terms)
        case _:
            pass
    terms[expression] = terms.get(expression, 0) + factor
    return 0


def simplify(expression: AffineExpr) -> AffineExpr:
    """The same expression with like terms joined."""
    if isinstance(expression, AffineDimExpr | AffineSymExpr | AffineConstantExpr):
        return expression
    return linear_form(expression).expression()


def atoms(expression: AffineExpr) -> set[AffineExpr]:
    """The dimensions and symbols that an expression reads."""
    match expression:
        case AffineDimExpr() | AffineSymExpr():
            return {expression}
        case AffineBinaryOpExpr():
            return atoms(expression.lhs) | atoms(expression.rhs)
        case _:
            return set()


def range_of(
    expression: AffineExpr, dims: Sequence[Range], symbols: Sequence[Range | None] = ()
) -> Range | None:
    """The range of an expression from those of dimensions and symbols; ``None`` if unknown."""
    match expression:
        case AffineConstantExpr():
            return expression.value, expression.value
        case AffineDimExpr():
            return dims[expression.position]
        case AffineSymExpr():
            return symbols[expression.position] if symbols else None
        case AffineBinaryOpExpr():
            left = range_of(expression.lhs, dims, symbols)
            right = range_of(expression.rhs, dims, symbols)
            if left is None or right is None:
                return None
            return _combined_range(expression.kind, left, right)
        case _:
            return None


def _combined_range(kind: AffineBinaryOpKind, left: Range, right: Range) -> Range:
    match kind:
        case AffineBinaryOpKind.Add:
            return left[0] + right[0], left[1] + right[1]
        case AffineBinaryOpKind.Mul:
            products = [a * b for a in left for b in right]
            return min(products), max(products)
        case AffineBinaryOpKind.FloorDiv:
            return left[0] // right[0], left[1] // right[0]
        case AffineBinaryOpKind.CeilDiv:
            return -(-left[0] // right[0]), -(-left[1] // right[0])
        case AffineBinaryOpKind.Mod:
            if left[0] // right[0] == left[1] // right[0]:
                return left[0] % right[0], left[1] % right[0]
            return 0, right[0] - 1


def floor_divide(expression: AffineExpr, divisor: int, sizes: Sequence[int]) -> AffineExpr:
    """``expression floordiv divisor``, taken apart as far as ``sizes`` of the dimensions allow.

    ``(4 * d0 + d1) floordiv 4`` with ``d1 < 4`` is ``d0``.
    """
    quotient, remainder = _split(expression, divisor)
    limits = range_of(remainder, [(0, size - 1) for size in sizes])
    if limits is not None and limits[0] // divisor == limits[1] // divisor:
        return simplify(quotient + limits[0] // divisor)
    return simplify(quotient + remainder // divisor)


def modulo(expression: AffineExpr, divisor: int, sizes: Sequence[int]) -> AffineExpr:
    """``expression mod divisor``, taken apart as far as ``sizes`` of the dimensions allow."""
    _, remainder = _split(expression, divisor)
    limits = range_of(remainder, [(0, size - 1) for size in sizes])
    if limits is not None and limits[0] >= 0 and limits[1] < divisor:
        return simplify(remainder)
    return remainder % divisor


def _split(expression: AffineExpr, divisor: int) -> tuple[AffineExpr, AffineExpr]:
    """``(a, b)`` with ``expression == a * divisor + b``, as much as divides in ``a``."""
    form = linear_form(expression)
    whole = {atom: c // divisor for atom, c in form.terms.items() if c % divisor == 0}
    rest = {atom: c for atom, c in form.terms.items() if c % divisor}
    quotient, remainder = divmod(form.constant, divisor)
    return LinearForm(whole, quotient).expression(), LinearForm(rest, remainder).expression()

"""Index expressions of a leaf as text: ``%i0 + i`` is an induction variable plus an axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)
from xdsl.parser import Parser

_WORDS = {
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.FloorDiv: "floordiv",
    AffineBinaryOpKind.CeilDiv: "ceildiv",
    AffineBinaryOpKind.Mod: "mod",
}


def expression_text(expression: AffineExpr, axes: Sequence[str], ivs: Sequence[str]) -> str:
    """The expression with the names of axes (its dimensions) and induction variables (symbols)."""
    match expression:
        case AffineConstantExpr():
            return str(expression.value)
        case AffineDimExpr():
            return axes[expression.position]
        case AffineSymExpr():
            return f"%{ivs[expression.position]}"
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            left = expression_text(expression.lhs, axes, ivs)
            right = expression_text(expression.rhs, axes, ivs)
            return f"{left} - {right[1:]}" if right.startswith("-") else f"{left} + {right}"
        case AffineBinaryOpExpr():
            left = expression_text(expression.lhs, axes, ivs)
            nested = isinstance(expression.lhs, AffineBinaryOpExpr)
            right = expression_text(expression.rhs, axes, ivs)
            return f"{f'({left})' if nested else left} {_WORDS[expression.kind]} {right}"
        case _:
            raise ValueError(f"no text for {expression}")


def parse_expression(parser: Parser, axes: Sequence[str], ivs: Sequence[str]) -> AffineExpr:
    """Read what ``expression_text`` wrote; names that are no axis or variable are errors."""
    total = _parse_product(parser, axes, ivs)
    while True:
        if parser.parse_optional_punctuation("+"):
            total = total + _parse_product(parser, axes, ivs)
        elif parser.parse_optional_punctuation("-"):
            total = total - _parse_product(parser, axes, ivs)
        else:
            return total


def _parse_product(parser: Parser, axes: Sequence[str], ivs: Sequence[str]) -> AffineExpr:
    value = _parse_factor(parser, axes, ivs)
    while True:
        if parser.parse_optional_punctuation("*"):
            value = value * parser.parse_integer()
        elif parser.parse_optional_keyword("floordiv"):
            value = value // parser.parse_integer()
        elif parser.parse_optional_keyword("ceildiv"):
            value = value.ceil_div(parser.parse_integer())
        elif parser.parse_optional_keyword("mod"):
            value = value % parser.parse_integer()
        else:
            return value


def _parse_factor(parser: Parser, axes: Sequence[str], ivs: Sequence[str]) -> AffineExpr:
    if parser.parse_optional_punctuation("("):
        inner = parse_expression(parser, axes, ivs)
        parser.parse_punctuation(")")
        return inner
    number = parser.parse_optional_integer(allow_boolean=False)
    if number is not None:
        return AffineExpr.constant(number)
    operand = parser.parse_optional_unresolved_operand()
    if operand is not None:
        if operand.operand_name not in ivs:
            parser.raise_error(f"%{operand.operand_name} is not listed in 'at'", operand.span)
        return AffineExpr.symbol(ivs.index(operand.operand_name))
    name = parser.parse_identifier()
    if name not in axes:
        parser.raise_error(f"no axis {name!r}: the leaf has {', '.join(axes) or 'none'}")
    return AffineExpr.dimension(axes.index(name))

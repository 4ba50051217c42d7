"""Windows in IR: the part of an HBM tensor that an op moves, as MLIR text and back.

``%A[%i0 : 1000, %k0 : 128 clip] transposed`` means what ``program.Window`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    BoolAttr,
    IndexType,
    IntegerAttr,
    MemRefType,
    UnitAttr,
    i64,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineExpr,
    AffineMap,
    AffineSymExpr,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

ONE_INDEX = -1
"""The length of an axis of which a window takes one index, and which its tile has not."""


@dataclass
class WindowSpec:
    """Start, length and clipping of each axis; starts are affine in the symbols ``ivs``."""

    ivs: Sequence[SSAValue]
    starts: AffineMap
    lengths: Sequence[int]
    clips: Sequence[bool]
    transposed: bool = False

    @property
    def limits(self) -> tuple[int, int]:
        """The most rows and columns its tile can have."""
        runs = [length for length in self.lengths if length != ONE_INDEX]
        rows = runs[0] if len(runs) > 1 else 1
        columns = runs[-1] if runs else 1
        return (columns, rows) if self.transposed else (rows, columns)

    def properties(self) -> dict[str, Attribute | None]:
        """The properties of an op that holds this window."""
        return {
            "starts": AffineMapAttr(self.starts),
            "lengths": ArrayAttr([IntegerAttr(length, i64) for length in self.lengths]),
            "clips": ArrayAttr([BoolAttr.from_bool(clip) for clip in self.clips]),
            "transposed": UnitAttr() if self.transposed else None,
        }

    def verify(self, tensor: MemRefType[Attribute]) -> None:
        """Raise where the window does not fit the tensor's rank."""
        rank = len(tensor.get_shape())
        if not rank == len(self.lengths) == len(self.clips) == len(self.starts.results):
            raise VerifyException(f"a window of {tensor} has {rank} axes")
        if (self.starts.num_dims, self.starts.num_symbols) != (0, len(self.ivs)):
            raise VerifyException("a window's starts are affine in its induction variables")
        if sum(length != ONE_INDEX for length in self.lengths) > 2:
            raise VerifyException("a window has at most two runs: its rows and its columns")


def index_terms(expression: AffineExpr) -> tuple[int, dict[int, int]]:
    """A sum of symbols times constants as its constant and the factor of each symbol."""
    match expression:
        case AffineConstantExpr():
            return expression.value, {}
        case AffineSymExpr():
            return 0, {expression.position: 1}
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            left, left_terms = index_terms(expression.lhs)
            right, terms = index_terms(expression.rhs)
            merged = {n: left_terms.get(n, 0) + terms.get(n, 0) for n in {**left_terms, **terms}}
            return left + right, merged
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul, rhs=AffineConstantExpr(value=factor)):
            constant, terms = index_terms(expression.lhs)
            return constant * factor, {n: each * factor for n, each in terms.items()}
        case _:
            raise ValueError(f"{expression} is not a sum of symbols times constants")


def print_window(printer: Printer, tensor: SSAValue, window: WindowSpec) -> None:
    """``%A[%i0 : 1000, %k0 : 128 clip] transposed``."""
    printer.print_ssa_value(tensor)
    printer.print_string("[")
    for number, start in enumerate(window.starts.results):
        printer.print_string(", " if number else "")
        constant, terms = index_terms(start)
        for position, (symbol, factor) in enumerate(terms.items()):
            printer.print_string(" + " if position else "")
            printer.print_string("" if factor == 1 else f"{factor} * ")
            printer.print_ssa_value(window.ivs[symbol])
        if constant or not terms:
            printer.print_string(f"{' + ' if terms else ''}{constant}")
        if window.lengths[number] != ONE_INDEX:
            printer.print_string(f" : {window.lengths[number]}")
        printer.print_string(" clip" if window.clips[number] else "")
    printer.print_string("]")
    printer.print_string(" transposed" if window.transposed else "")


@dataclass
class _Indices:
    ivs: list[SSAValue] = field(default_factory=list[SSAValue])

    def term(self, parser: Parser) -> AffineExpr:
        factor = parser.parse_optional_integer(allow_negative=False, allow_boolean=False)
        if factor is not None and parser.parse_optional_punctuation("*") is None:
            return AffineExpr.constant(factor)
        iv = parser.resolve_operand(parser.parse_unresolved_operand(), IndexType())
        if iv not in self.ivs:
            self.ivs.append(iv)
        symbol = AffineExpr.symbol(self.ivs.index(iv))
        return symbol if factor is None else symbol * factor

    def axis(self, parser: Parser) -> tuple[AffineExpr, int, bool]:
        start = self.term(parser)
        while parser.parse_optional_punctuation("+"):
            start = start + self.term(parser)
        length = parser.parse_integer() if parser.parse_optional_punctuation(":") else ONE_INDEX
        return start, length, parser.parse_optional_keyword("clip") is not None


def parse_window(parser: Parser) -> WindowSpec:
    """What follows the tensor's name in ``print_window``'s text."""
    indices = _Indices()
    axes = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: indices.axis(parser))
    starts = AffineMap(0, len(indices.ivs), tuple(start for start, _, _ in axes))
    transposed = parser.parse_optional_keyword("transposed") is not None
    lengths, clips = [length for _, length, _ in axes], [clip for _, _, clip in axes]
    return WindowSpec(indices.ivs, starts, lengths, clips, transposed)

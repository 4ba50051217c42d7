"""How ops of the loop level spell values with their types, and bindings of region arguments.

A value of type ``tensor<i64>`` (an index, once it is typed) is written without its type.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, TensorType
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser
from xdsl.printer import Printer

INDEX = TensorType(IntegerType(64), [])
"""The type of an index: a scalar of i64."""

Binding = tuple[Parser.UnresolvedArgument, Attribute, SSAValue]
"""A region argument as parsed, its type, and the value that it starts from."""


def print_value(printer: Printer, value: SSAValue) -> None:
    """``%x : T``, or ``%x`` for an index."""
    printer.print_ssa_value(value)
    if value.type != INDEX:
        printer.print_string(" : ")
        printer.print_attribute(value.type)


def parse_value(parser: Parser) -> SSAValue:
    """Read what ``print_value`` wrote."""
    unresolved = parser.parse_unresolved_operand()
    typed = parser.parse_optional_punctuation(":") is not None
    return parser.resolve_operand(unresolved, parser.parse_type() if typed else INDEX)


def print_values(printer: Printer, values: Sequence[SSAValue]) -> None:
    """``[%i, %x : T]``."""
    printer.print_string("[")
    printer.print_list(values, lambda value: print_value(printer, value))
    printer.print_string("]")


def parse_values(parser: Parser) -> list[SSAValue]:
    """Read what ``print_values`` wrote."""
    return parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: parse_value(parser))


def print_binding(printer: Printer, inner: SSAValue, outer: SSAValue) -> None:
    """``%s : T = %s0 : T0``: a region argument and what it starts from."""
    printer.print_ssa_value(inner)
    printer.print_string(" : ")
    printer.print_attribute(inner.type)
    printer.print_string(" = ")
    print_value(printer, outer)


def parse_binding(parser: Parser) -> Binding:
    """Read what ``print_binding`` wrote."""
    inner = parser.parse_argument(expect_type=False)
    parser.parse_punctuation(":")
    type_ = parser.parse_type()
    parser.parse_punctuation("=")
    return inner, type_, parse_value(parser)


def print_carried(printer: Printer, inner: Sequence[SSAValue], outer: Sequence[SSAValue]) -> None:
    """`` iter (%s : T = %s0 : T0)``; nothing where nothing is carried."""
    if not inner:
        return
    printer.print_string(" iter (")
    pairs = zip(inner, outer, strict=True)
    printer.print_list(pairs, lambda pair: print_binding(printer, *pair))
    printer.print_string(")")


def parse_carried(parser: Parser) -> list[Binding]:
    """Read what ``print_carried`` wrote."""
    if not parser.parse_optional_keyword("iter"):
        return []
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: parse_binding(parser))


def print_types(printer: Printer, types: Sequence[Attribute]) -> None:
    """`` -> (T, …)``; nothing where there is no type."""
    if types:
        printer.print_string(" -> (")
        printer.print_list(types, printer.print_attribute)
        printer.print_string(")")


def parse_types(parser: Parser) -> list[Attribute]:
    """Read what ``print_types`` wrote."""
    if not parser.parse_optional_punctuation("->"):
        return []
    return parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)

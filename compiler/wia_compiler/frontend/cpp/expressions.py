"""C++ expressions to expressions of the language, with every conversion written out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp import calls, literals
from wia_compiler.frontend.cpp.arithmetic import (
    arithmetic,
    bits,
    comparison,
    inverted,
    negated,
)
from wia_compiler.frontend.cpp.context import Context, Variable
from wia_compiler.frontend.cpp.declared import type_of_descriptor
from wia_compiler.frontend.cpp.reading import field_of, named_children, text_of, unwrapped
from wia_compiler.frontend.cpp.refusals import refuse_construct
from wia_compiler.frontend.cpp.types import common
from wia_compiler.frontend.cpp.values import Typed, combined, constant, converted, with_dtype

if TYPE_CHECKING:
    from tree_sitter import Node

_DEEPEST = 90
"""Levels of nesting an expression may have: the tree of the language allows 100."""


def read(node: Node, context: Context, depth: int = 0) -> Typed:
    """The value of an expression; raises ``Refused`` after reporting what cannot be read."""
    if depth > _DEEPEST:
        raise context.text.refuse(
            node,
            f"the expression is nested deeper than {_DEEPEST} levels",
            "name a part of it first: float part = …;",
        )
    match node.type:
        case "parenthesized_expression" | "condition_clause":
            return _group(node, context, depth)
        case "number_literal":
            return literals.number(node, context.text)
        case "true" | "false":
            return constant(node.type == "true", "bool", context.text.span(node))
        case "identifier":
            return _name(node, context)
        case "subscript_expression":
            return element(node, context, write=False, depth=depth)
        case "pointer_expression":
            return _pointed(node, context)
        case "unary_expression":
            return _unary(node, context, depth)
        case "binary_expression":
            return _binary(node, context, depth)
        case "conditional_expression":
            return _conditional(node, context, depth)
        case "cast_expression":
            type_ = type_of_descriptor(field_of(node, "type"), context.text)
            value = converted(read(field_of(node, "value"), context, depth + 1), type_)
            return replace(value, type=type_)
        case "call_expression":
            return calls.read_call(
                node, context, lambda argument: read(argument, context, depth + 1)
            )
        case _:
            raise refuse_construct(node, context.text)


def condition(node: Node, context: Context) -> Typed:
    """The value of an expression as a bool: numbers are compared with 0."""
    return converted(read(node, context), "bool")


def element(node: Node, context: Context, *, write: bool, depth: int = 0) -> Typed:
    """``A[i][j]``: one element of an array; notes the access."""
    base, places = subscripts_of(node)
    if base.type != "identifier":
        raise context.text.refuse(
            base, "only arrays that have a name can be indexed", "write NAME[i][j]"
        )
    name = text_of(base)
    array = context.find(name) or context.free(base, len(places), context)
    if array is None or array.kind != "array":
        raise context.text.refuse(
            base,
            f"{name!r} is no array",
            f"declare it as a parameter: float {name}{'[N]' * len(places)}",
        )
    if len(places) != array.rank:
        raise context.text.refuse(
            node,
            f"{name!r} has {_counted(array.rank)}, found {len(places)}",
            f"write {name}{''.join(f'[{axis}]' for axis in 'ijklmn'[: array.rank])}",
        )
    if write and array.is_fixed:
        raise context.text.refuse(
            base, f"{name!r} is const and cannot be set", f"declare it without const: float* {name}"
        )
    found = tuple(index(place, context, depth) for place in places)
    span = context.text.span(node)
    context.note(node, array, found, write)
    target = syntax.Index(
        syntax.Name(array.spelling, context.text.span(base)), tuple(e.node for e in found), span
    )
    return Typed(target, array.type)


def index(node: Node, context: Context, depth: int = 0) -> Typed:
    """An expression as an index: a whole number of 64 bits."""
    value = read(node, context, depth + 1)
    if value.type not in ("i8", "u8", "i16", "i32", "i64", "bool"):
        raise context.text.refuse(
            node, f"an index is a whole number, found {value.type}", "cast it: (int)x"
        )
    return converted(value, "i64")


def subscripts_of(node: Node) -> tuple[Node, list[Node]]:
    """``A[i][j]`` as ``A`` and ``i``, ``j``."""
    places: list[Node] = []
    while node.type == "subscript_expression":
        places = [*named_children(field_of(node, "indices")), *places]
        node = unwrapped(field_of(node, "argument"))
    return node, places


def _counted(rank: int) -> str:
    return f"{rank} {'axis' if rank == 1 else 'axes'}"


def _group(node: Node, context: Context, depth: int) -> Typed:
    inner = named_children(node)
    if len(inner) != 1:
        raise refuse_construct(node, context.text)
    value = read(inner[0], context, depth + 1)
    if value.constant is not None or not isinstance(value.node, syntax.Binary | syntax.Conditional):
        return value
    return replace(value, node=syntax.Group(value.node, context.text.span(node)))


def _name(node: Node, context: Context) -> Typed:
    name = text_of(node)
    span = context.text.span(node)
    variable = context.find(name)
    if variable is None and name in context.constants:
        known = context.constants[name]
        if known.constant is not None:
            return constant(known.constant, known.type, span)
    if variable is None:
        number = literals.named_constant(name, span)
        if number is not None:
            return number
        variable = context.free(node, 0, context)
    if variable is None:
        raise context.text.refuse(
            node, f"no value named {name!r}", "declare it, or make it a parameter of the function"
        )
    if variable.value is not None:
        return variable.value
    return _value(variable, node, span, context)


def _value(variable: Variable, node: Node, span: Span, context: Context) -> Typed:
    if variable.kind == "array":
        raise context.text.refuse(
            node,
            f"{variable.name!r} is an array; only its elements are values",
            f"write {variable.name}{'[i]' * variable.rank}",
        )
    name = syntax.Name(variable.spelling, span)
    return Typed(name, variable.type, is_natural=variable.is_natural)


def _pointed(node: Node, context: Context) -> Typed:
    """``*p`` of a pointer to one value."""
    argument = unwrapped(field_of(node, "argument"))
    if text_of(node).startswith("*") and argument.type == "identifier":
        variable = context.find(text_of(argument))
        if variable is not None and variable.kind == "scalar" and not variable.is_local:
            span = context.text.span(node)
            return Typed(syntax.Name(variable.spelling, span), variable.type)
    raise refuse_construct(node, context.text)


def _unary(node: Node, context: Context, depth: int) -> Typed:
    operator = text_of(field_of(node, "operator"))
    operand = field_of(node, "argument")
    if operator == "!" or operator == "not":
        value = converted(read(operand, context, depth + 1), "bool")
        span = context.text.span(node)
        if value.constant is not None:
            return constant(not value.constant, "bool", span)
        inner = syntax.Unary(syntax.Word("!", span), value.node, span)
        return Typed(inner, "bool")
    value = read(operand, context, depth + 1)
    if operator == "+":
        return converted(value, common(value.type, value.type))
    if operator == "-":
        return negated(value, context.text.span(node))
    if operator in ("~", "compl"):
        return inverted(value, node, context.text)
    raise refuse_construct(node, context.text)


def _binary(node: Node, context: Context, depth: int) -> Typed:
    """``a + b + c`` is walked down its left side by a loop: long sums do not nest."""
    chain = [node]
    while (left := field_of(chain[-1], "left")).type == "binary_expression":
        chain.append(left)
    value = read(field_of(chain[-1], "left"), context, depth + 1)
    for link in reversed(chain):
        value = _link(link, value, context, depth)
    return value


def _link(node: Node, left: Typed, context: Context, depth: int) -> Typed:
    operator = text_of(field_of(node, "operator"))
    right_node = field_of(node, "right")
    if operator in ("&&", "||", "and", "or"):
        return _logical(operator, left, right_node, context, depth)
    right = read(right_node, context, depth + 1)
    if operator in ("+", "-", "*", "/", "%"):
        return arithmetic(operator, left, right, node, context.text)
    if operator in ("==", "!=", "<", "<=", ">", ">="):
        return comparison(operator, left, right, node, context.text)
    if operator in ("&", "|", "^", "<<", ">>"):
        return bits(operator, left, right, node, context.text)
    raise refuse_construct(node, context.text)


def _logical(operator: str, left: Typed, right_node: Node, context: Context, depth: int) -> Typed:
    """``a && b``: in loops over elements the language too computes ``b`` only where it must."""
    stops_at = operator in ("||", "or")
    first = converted(left, "bool")
    if first.constant is not None and bool(first.constant) == stops_at:
        return first
    second = converted(read(right_node, context, depth + 1), "bool")
    if first.constant is not None:
        return second
    return combined("||" if stops_at else "&&", first, second, "bool")


def _conditional(node: Node, context: Context, depth: int) -> Typed:
    """``c ? a : b`` in the common type of both; of elements only the chosen side is read."""
    test = converted(read(field_of(node, "condition"), context, depth + 1), "bool")
    first = read(field_of(node, "consequence"), context, depth + 1)
    second = read(field_of(node, "alternative"), context, depth + 1)
    if test.constant is not None:
        return first if test.constant else second
    type_ = first.type if first.type == second.type else common(first.type, second.type)
    first, second = with_dtype(converted(first, type_), converted(second, type_))
    chosen = syntax.Conditional(test.node, first.node, second.node, context.text.span(node))
    return Typed(chosen, type_, is_natural=first.is_natural and second.is_natural)

"""Calls: functions of <cmath> and <algorithm> as ops, casts, and functions of the same text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Context
from wia_compiler.frontend.cpp.declared import type_of_descriptor
from wia_compiler.frontend.cpp.helpers import Read, write_out
from wia_compiler.frontend.cpp.reading import field_of, named_children, text_of
from wia_compiler.frontend.cpp.refusals import THREAD_WORDS, refuse_construct
from wia_compiler.frontend.cpp.types import ANY, NAMES, CppType, common, is_float, is_integer
from wia_compiler.frontend.cpp.values import (
    Typed,
    binary,
    cast_to,
    choice,
    converted,
    operation,
    typed_node,
    with_dtype,
)
from wia_compiler.frontend.suggestions import nearest

if TYPE_CHECKING:
    from tree_sitter import Node

# Functions of one number by the op that computes them; with f they are of floats.
_UNARY = {
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "erf": "erf",
    "floor": "floor",
    "ceil": "ceil",
    "rint": "round",
    "nearbyint": "round",
    "fabs": "abs",
}
_ELSEWHERE = {
    "round": "round() rounds halves away from 0; write rintf(x), which rounds them to even",
    "roundf": "roundf() rounds halves away from 0; write rintf(x), which rounds them to even",
    "printf": "a kernel prints nothing; return what you want to see",
    "malloc": "declare a local array: float acc[8][8]",
    "memset": "write the loop: for (int i = 0; i < N; i++) a[i] = 0;",
    "memcpy": "write the loop: for (int i = 0; i < N; i++) a[i] = b[i];",
}


def read_call(node: Node, context: Context, read: Read) -> Typed:
    """The value of a call; raises ``Refused`` for what is not known."""
    function = field_of(node, "function")
    arguments = named_children(field_of(node, "arguments"))
    if function.type == "template_function" and _template_name(function) == "static_cast":
        descriptor = named_children(field_of(function, "arguments"))
        _expect(node, context, arguments, 1, "static_cast<float>(x)")
        return _as(read(arguments[0]), type_of_descriptor(descriptor[0], context.text))
    if function.type == "primitive_type" or text_of(function) in NAMES:
        _expect(node, context, arguments, 1, "float(x)")
        return _as(read(arguments[0]), NAMES[text_of(function)])
    name = _name_of(function, context)
    if name in THREAD_WORDS:
        raise context.text.refuse(function, *THREAD_WORDS[name])
    if name in context.callees:
        return write_out(node, context.callees[name], arguments, context, read)
    if _is_library(name):
        found = _library(name, node, [read(argument) for argument in arguments], context)
        if found is not None:
            return found
    if name == context.name:
        raise context.text.refuse(
            function, f"{name} calls itself, and kernels do not", "write a loop"
        )
    hint = _ELSEWHERE.get(name)
    if hint is None:
        near = nearest(name, [*context.callees, *_UNARY, *(f"{each}f" for each in _UNARY)])
        hint = (
            f"did you mean {near!r}?" if near else "write the function above the one that uses it"
        )
    raise context.text.refuse(function, f"no function named {name!r}", hint)


_OTHERS = frozenset(
    ("abs", "min", "max", "fmin", "fmax", "fminf", "fmaxf", "pow", "powf", "fmod", "fmodf", "isnan")
)

FUNCTION_NAMES = frozenset((*_UNARY, *_OTHERS))
"""The functions of the standard headers that are known; those of ``_UNARY`` also with ``f``."""


def _is_library(name: str) -> bool:
    return name in FUNCTION_NAMES or name.removesuffix("f") in _UNARY


def _library(name: str, node: Node, values: list[Typed], context: Context) -> Typed | None:
    """A function of the standard headers, or ``None``."""
    span = context.text.span(node)
    base, suffix = (name, "") if name in _UNARY else (name.removesuffix("f"), "f")
    if base in _UNARY and (name == base or name.endswith("f")):
        _expect_values(node, context, values, 1, f"{name}(x)")
        return _unary(_UNARY[base], values[0], suffix, span)
    match name:
        case "abs":
            _expect_values(node, context, values, 1, "abs(x)")
            value = converted(values[0], common(values[0].type, values[0].type))
            inner = operation("abs", [typed_node(value)], span)
            return Typed(inner, value.type)
        case "min" | "max":
            _expect_values(node, context, values, 2, f"{name}(a, b)")
            return _smaller_or_larger(name, values[0], values[1], node, context)
        case "fmin" | "fmax" | "fminf" | "fmaxf":
            _expect_values(node, context, values, 2, f"{name}(a, b)")
            return _ignoring_nan(name, values, span)
        case "pow" | "powf":
            _expect_values(node, context, values, 2, f"{name}(x, y)")
            return _power(values, name == "powf", span)
        case "fmod" | "fmodf":
            _expect_values(node, context, values, 2, f"{name}(x, y)")
            return _float_remainder(values, name == "fmodf", span)
        case "isnan":
            _expect_values(node, context, values, 1, "isnan(x)")
            node_of = typed_node(values[0])
            test = binary("!=", node_of, node_of)
            return Typed(syntax.Group(test, span), "bool")
        case _:
            return None


def _unary(name: str, value: Typed, suffix: str, span: Span) -> Typed:
    type_ = _float_type(value.type, suffix)
    inner = converted(value, type_)
    return Typed(operation(name, [typed_node(inner)], span), type_)


def _float_type(type_: CppType, suffix: str) -> CppType:
    """The overload that C++ chooses: of its own type for floats, of double for whole numbers."""
    if suffix:
        return "f32" if type_ != ANY else ANY
    return type_ if is_float(type_) or type_ == ANY else "f64"


def _smaller_or_larger(
    name: str, first: Typed, second: Typed, node: Node, context: Context
) -> Typed:
    """``std::min(a, b)`` is ``b < a ? b : a``, also for NaN; of whole numbers the op ``min``."""
    type_ = common(first.type, second.type)
    if first.type == second.type:
        type_ = first.type
    a, b = with_dtype(converted(first, type_), converted(second, type_))
    span = context.text.span(node)
    natural = a.is_natural and b.is_natural
    if is_integer(type_):
        return Typed(operation(name, [a.node, b.node], span), type_, is_natural=natural)
    test = binary("<", b.node, a.node) if name == "min" else binary("<", a.node, b.node)
    return Typed(choice(test, b.node, a.node, span), type_)


def _ignoring_nan(name: str, values: list[Typed], span: Span) -> Typed:
    """``fminf`` and ``fmaxf`` give the other number where one is NaN (IEEE 754-2008 minNum)."""
    type_ = "f32" if name.endswith("f") else common(values[0].type, values[1].type)
    type_ = type_ if is_float(type_) or type_ == ANY else "f64"
    a, b = with_dtype(*(converted(value, type_) for value in values))
    both = operation("min" if "min" in name else "max", [a.node, b.node], span)
    chosen: syntax.Expression = both
    for value, other in ((b, a), (a, b)):
        if value.constant is None:
            test = binary("!=", value.node, value.node)
            chosen = choice(test, other.node, chosen, span)
    return Typed(chosen, type_)


def _power(values: list[Typed], single: bool, span: Span) -> Typed:
    type_ = "f32" if single else common(values[0].type, values[1].type)
    mixed = not single and values[0].type != values[1].type and ANY not in (v.type for v in values)
    type_ = "f64" if mixed or not (is_float(type_) or type_ == ANY) else type_
    base, exponent = (converted(value, type_) for value in values)
    nodes = [typed_node(v) for v in (base, exponent)]
    return Typed(operation("pow", nodes, span), type_)


def _float_remainder(values: list[Typed], single: bool, span: Span) -> Typed:
    """``fmodf`` has the sign of ``x``; ``%`` of the language that of ``y``."""
    type_ = "f32" if single else common(values[0].type, values[1].type)
    kept = type_ if is_float(type_) else "f64"
    x, y = with_dtype(*(converted(value, kept) for value in values))
    size = binary("%", operation("abs", [x.node], span), operation("abs", [y.node], span))
    zero = syntax.Number(0.0, "0.0", span)
    opposite = syntax.Unary(syntax.Word("-", span), size, span)
    return Typed(choice(binary("<", x.node, zero), opposite, size, span), x.type)


def _as(value: Typed, type_: CppType) -> Typed:
    found = converted(value, type_)
    if found.type == ANY:
        return Typed(cast_to(found.node, type_), type_)
    return found


def _name_of(function: Node, context: Context) -> str:
    if function.type == "identifier":
        return text_of(function)
    if function.type == "qualified_identifier" and text_of(function).startswith("std::"):
        name = field_of(function, "name")
        if name.type == "template_function":
            return _template_name(name)
        return text_of(name)
    raise refuse_construct(function, context.text)


def _template_name(node: Node) -> str:
    return text_of(field_of(node, "name"))


def _expect(node: Node, context: Context, given: list[Node], count: int, usage: str) -> None:
    if len(given) != count:
        raise context.text.refuse(
            node,
            f"found {len(given)} argument{'s' * (len(given) != 1)}, expected {count}",
            f"write {usage}",
        )


def _expect_values(
    node: Node, context: Context, given: list[Typed], count: int, usage: str
) -> None:
    if len(given) != count:
        raise context.text.refuse(
            node,
            f"found {len(given)} argument{'s' * (len(given) != 1)}, expected {count}",
            f"write {usage}",
        )

"""Local variables: numbers, constants and arrays of a fixed size."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Context, Variable
from wia_compiler.frontend.cpp.declared import Declarator, DeclaredType, declarator_of, type_of
from wia_compiler.frontend.cpp.expressions import read
from wia_compiler.frontend.cpp.reading import field_of, named_children, text_of
from wia_compiler.frontend.cpp.types import ANY, CppType
from wia_compiler.frontend.cpp.values import Typed, cast_to, constant, converted

if TYPE_CHECKING:
    from tree_sitter import Node

# Elements that a list may set one by one; longer tables are arrays of the caller.
_MOST_ELEMENTS = 1024


def declaration(node: Node, context: Context) -> None:
    """``float a = 0, b[8][8] = {0};``: a ``let`` for each name."""
    declared = type_of(node, context.text)
    for each in node.children_by_field_name("declarator"):
        value = None
        written = each
        if each.type == "init_declarator":
            written, value = field_of(each, "declarator"), field_of(each, "value")
        declarator = declarator_of(written, context.text)
        if declarator.pointers or declarator.is_reference:
            kind = "pointer" if declarator.pointers else "reference"
            raise context.text.refuse(
                written,
                f"a {kind} inside a function is outside of the subset",
                "index the array itself, or declare a local array: float acc[8]",
            )
        if declarator.sizes:
            _array(declared, declarator, value, each, context)
        else:
            _scalar(declared, declarator, value, each, context)


def _scalar(
    declared: DeclaredType, declarator: Declarator, value: Node | None, node: Node, context: Context
) -> None:
    name, span = text_of(declarator.name), context.text.span(node)
    if value is None and name in context.counters:
        return  # the loops that count with it each have their own
    if value is None:
        if declared.type is None:
            raise context.text.refuse(
                node, f"{name!r} has no type and no value", f"write float {name} = 0;"
            )
        # Reading it before it is set is undefined in C++; here it begins as 0.
        found = constant(0, declared.type, span)
    else:
        found = _first_value(value, context)
    type_ = found.type if declared.type is None else declared.type
    found = converted(found, type_)
    if declared.is_const and found.constant is not None:
        context.scopes[-1][name] = Variable(
            name, name, "scalar", type_, is_local=True, is_fixed=True, value=found
        )
        return
    variable = Variable(name, name, "scalar", type_, is_local=True, is_fixed=declared.is_const)
    variable = context.declare(variable)
    if name in context.outputs and len(context.path) == 1:
        place = syntax.Name(variable.spelling, context.text.span(declarator.name))
        typed = found.constant is None and found.type != ANY
        right = found.node if typed else cast_to(found.node, type_)
        context.block.append(syntax.Assign((place,), syntax.Word("=", span), (right,), span))
        return
    context.block.append(let(declarator.name, variable.spelling, found, type_, span, context))


def let(
    name: Node, spelling: str, value: Typed, type_: CppType, span: Span, context: Context
) -> syntax.Let:
    """``let x: f32 = value;``; an undeclared type leaves the type away."""
    place = context.text.span(name)
    types = () if type_ == ANY else (syntax.TypeName(syntax.Word(type_, place), None, place),)
    return syntax.Let((syntax.Word(spelling, place),), (value.node,), span, types)


def _first_value(node: Node, context: Context) -> Typed:
    """``= e`` or ``{e}``."""
    if node.type in ("initializer_list", "argument_list"):
        values = named_children(node)
        if len(values) != 1:
            raise context.text.refuse(
                node, f"found {len(values)} values for one variable", "write float x = 0;"
            )
        node = values[0]
    return read(node, context)


def _array(
    declared: DeclaredType, declarator: Declarator, value: Node | None, node: Node, context: Context
) -> None:
    name, span = text_of(declarator.name), context.text.span(node)
    if declared.type is None:
        raise context.text.refuse(node, f"{name!r} has no type", f"write float {name}[8];")
    sizes = [_size(each, value, context, node) for each in declarator.sizes]
    variable = Variable(name, name, "array", declared.type, len(sizes), is_local=True)
    variable = context.declare(variable)
    place = context.text.span(declarator.name)
    entries = tuple(syntax.Word(str(each), place) for each in (*sizes, declared.type))
    type_ = syntax.TypeName(syntax.Word("tensor", place), entries, place)
    # What a list leaves out is 0, and reading what was never set is undefined in C++.
    zero = constant(0, declared.type, span).node
    word = syntax.Word(variable.spelling, place)
    context.block.append(syntax.Let((word,), (zero,), span, (type_,)))
    if value is not None:
        _fill(variable, [int(s) for s in sizes if isinstance(s, int)], value, context)


def _size(node: Node | None, value: Node | None, context: Context, declared: Node) -> int | str:
    if node is None:
        if value is not None and value.type == "initializer_list":
            return len(named_children(value))
        raise context.text.refuse(declared, "the size is missing", "write float acc[8];")
    found = read(node, context)
    if isinstance(found.constant, int) and not isinstance(found.constant, bool):
        if found.constant > 0:
            return found.constant
        raise context.text.refuse(
            node, f"an array has at least 1 element, found {found.constant}", "write float acc[8];"
        )
    variable = context.find(text_of(node)) if node.type == "identifier" else None
    if variable is not None and variable.kind == "size":
        return variable.spelling
    raise context.text.refuse(
        node,
        "the size of a local array is a number, or a size of an array parameter",
        "write #define TILE 32 and float acc[TILE];",
    )


def _fill(variable: Variable, sizes: Sequence[int], value: Node, context: Context) -> None:
    """The elements of ``{1, 2, 3}``, one assignment each; ``{0}`` and ``{}`` need none."""
    if value.type != "initializer_list":
        raise context.text.refuse(
            value, "an array begins with a list of values", "write float w[3] = {1, 2, 3};"
        )
    if len(sizes) != variable.rank:
        raise context.text.refuse(
            value, "a list of values needs sizes that are numbers", "set the elements in a loop"
        )
    for place, node in _elements(value, sizes, context):
        found = converted(read(node, context), variable.type)
        if found.constant == 0:
            continue
        span = context.text.span(node)
        numbers = tuple(syntax.Number(each, str(each), span) for each in place)
        target = syntax.Index(syntax.Name(variable.spelling, span), numbers, span)
        right = found.node if found.constant is None else cast_to(found.node, variable.type)
        context.block.append(syntax.Assign((target,), syntax.Word("=", span), (right,), span))


def _elements(
    value: Node, sizes: Sequence[int], context: Context
) -> list[tuple[tuple[int, ...], Node]]:
    """Which element each value of a list belongs to: nested lists by rows, flat ones in order."""
    values = named_children(value)
    nested = [each for each in values if each.type == "initializer_list"]
    if len(sizes) > 1 and len(nested) == len(values):
        rows = [
            ((row, *place), node)
            for row, inner in enumerate(values)
            for place, node in _elements(inner, sizes[1:], context)
        ]
        if len(values) <= sizes[0]:
            return rows
    elif not nested:
        places = list(itertools.islice(itertools.product(*map(range, sizes)), _MOST_ELEMENTS + 1))
        if len(values) <= min(len(places), _MOST_ELEMENTS):
            return list(zip(places, values, strict=False))
    raise context.text.refuse(
        value,
        f"found {len(values)} values for an array of {' × '.join(map(str, sizes))}",
        "give at most one value for each element, row by row",
    )

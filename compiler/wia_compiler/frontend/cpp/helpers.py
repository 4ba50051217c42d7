"""Functions of numbers, written out where they are called: ``float square(float x)``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Callee, Context, Variable
from wia_compiler.frontend.cpp.declared import declarator_of, type_of
from wia_compiler.frontend.cpp.reading import field_of, named_children, text_of
from wia_compiler.frontend.cpp.types import ANY
from wia_compiler.frontend.cpp.values import Typed, cast_to, converted

if TYPE_CHECKING:
    from tree_sitter import Node

Read = Callable[["Node"], Typed]

_FORM = "such a function is one return, with constants before it: const float y = x * x; return y;"


def write_out(
    node: Node, callee: Callee, arguments: list[Node], context: Context, read: Read
) -> Typed:
    """The value of ``square(a[i])``: the body's value with the arguments in the parameters' places.

    Everything is a value without effects, so writing an argument twice computes what writing it
    once does.
    """
    if callee.result is None or any(role != "scalar" for role in callee.roles):
        raise context.text.refuse(
            node,
            f"{callee.name} works on arrays and cannot be called inside an expression",
            f"call it as a statement of its own: {callee.name}(…);",
        )
    if len(arguments) != len(callee.roles):
        raise context.text.refuse(
            node,
            f"{callee.name} takes {len(callee.roles)} arguments, found {len(arguments)}",
            "give one for each parameter",
        )
    scope: dict[str, Variable] = {}
    parameters = named_children(field_of(field_of(callee.definition, "declarator"), "parameters"))
    for parameter, argument in zip(parameters, arguments, strict=True):
        declared = type_of(parameter, context.text)
        name = text_of(declarator_of(field_of(parameter, "declarator"), context.text).name)
        scope[name] = _short_for(name, converted(read(argument), declared.type or ANY))
    kept, context.scopes = context.scopes, [scope]
    try:
        value = _value_of_body(callee, context, read)
    finally:
        context.scopes = kept
    span = context.text.span(node)
    return Typed(syntax.Group(value.node, span), callee.result, value.constant, value.is_natural)


def _value_of_body(callee: Callee, context: Context, read: Read) -> Typed:
    assert callee.result is not None
    for statement in named_children(field_of(callee.definition, "body")):
        if statement.type == "return_statement" and named_children(statement):
            return _exactly(read(named_children(statement)[0]), callee.result)
        if statement.type != "declaration":
            raise context.text.refuse(
                statement, f"{callee.name} is called inside an expression", _FORM
            )
        declared = type_of(statement, context.text)
        for declarator in statement.children_by_field_name("declarator"):
            if declarator.type != "init_declarator" or not declared.is_const:
                raise context.text.refuse(
                    declarator, f"{callee.name} is called inside an expression", _FORM
                )
            name = text_of(field_of(declarator, "declarator"))
            value = read(field_of(declarator, "value"))
            value = _exactly(value, declared.type) if declared.type is not None else value
            context.scopes[-1][name] = _short_for(name, value)
    raise context.text.refuse(
        field_of(callee.definition, "declarator"), f"{callee.name} returns nothing", _FORM
    )


def _exactly(value: Typed, type_: str) -> Typed:
    """The value in a type that is declared: an undeclared one is converted as well."""
    found = converted(value, type_)
    if found.type == ANY:
        return Typed(cast_to(found.node, type_), type_)
    return found


def _short_for(name: str, value: Typed) -> Variable:
    return Variable(name, name, "scalar", value.type, is_local=True, is_fixed=True, value=value)

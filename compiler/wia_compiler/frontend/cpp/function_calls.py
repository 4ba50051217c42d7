"""Calls of functions that work on arrays, as statements: ``matmul(A, B, C);``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.calls import read_call
from wia_compiler.frontend.cpp.context import Callee, Context
from wia_compiler.frontend.cpp.expressions import read
from wia_compiler.frontend.cpp.reading import field_of, named_children, text_of
from wia_compiler.frontend.cpp.types import ANY
from wia_compiler.frontend.cpp.values import cast_to, converted

if TYPE_CHECKING:
    from tree_sitter import Node


def call_statement(node: Node, context: Context) -> None:
    """``f(A, B, C);`` becomes ``C = f(A, B);``: what the function writes is its result.

    Sizes are not passed on: they are those of the arrays.
    """
    name = text_of(field_of(node, "function"))
    callee = context.callees.get(name)
    if callee is None or not {"output", "inout"} & set(callee.roles):
        read_call(node, context, lambda argument: read(argument, context))
        raise context.text.refuse(
            node, "the value of the call is not used", "give it to a variable: float x = …;"
        )
    if context.loops or context.is_conditional:
        raise context.text.refuse(
            node,
            f"{name} works on whole arrays and cannot be called inside a loop or branch",
            "call it before the loop, or write its loops out",
        )
    arguments = named_children(field_of(node, "arguments"))
    if len(arguments) != len(callee.roles):
        raise context.text.refuse(
            node,
            f"{name} takes {len(callee.roles)} arguments, found {len(arguments)}",
            "give one for each parameter",
        )
    _call(node, callee, arguments, context)


def _call(node: Node, callee: Callee, arguments: list[Node], context: Context) -> None:
    given: list[syntax.Argument] = []
    targets: list[syntax.Expression] = []
    for argument, role, type_ in zip(arguments, callee.roles, callee.types, strict=True):
        span = context.text.span(argument)
        if role == "size":
            continue
        if role == "scalar":
            value = converted(read(argument, context), type_)
            typed = value.constant is None and value.type != ANY
            part = value.node if typed else cast_to(value.node, type_)
            given.append(syntax.Argument(None, part, span))
            continue
        variable = context.find(text_of(argument)) if argument.type == "identifier" else None
        if variable is None or variable.kind != "array":
            raise context.text.refuse(
                argument, f"{callee.name} takes an array here", "write the name of an array"
            )
        name = syntax.Name(variable.spelling, span)
        if role != "output":
            context.note_whole(argument, variable, write=False)
            given.append(syntax.Argument(None, name, span))
        if role != "input":
            context.note_whole(argument, variable, write=True)
            targets.append(name)
    span = context.text.span(node)
    call = syntax.Call(syntax.Name(callee.name, span), tuple(given), span)
    context.block.append(syntax.Assign(tuple(targets), syntax.Word("=", span), (call,), span))

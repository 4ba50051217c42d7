"""C++ statements to statements of the language."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.arithmetic import arithmetic, bits
from wia_compiler.frontend.cpp.context import Context, Variable
from wia_compiler.frontend.cpp.declarations import declaration
from wia_compiler.frontend.cpp.expressions import condition, element, read
from wia_compiler.frontend.cpp.function_calls import call_statement
from wia_compiler.frontend.cpp.loops import for_statement
from wia_compiler.frontend.cpp.reading import (
    Refused,
    field_of,
    named_children,
    text_of,
    unwrapped,
)
from wia_compiler.frontend.cpp.refusals import refuse_construct
from wia_compiler.frontend.cpp.types import ANY
from wia_compiler.frontend.cpp.values import Typed, cast_to, constant, converted

if TYPE_CHECKING:
    from tree_sitter import Node


def read_statements(nodes: Sequence[Node], context: Context) -> None:
    """Read statements into ``context.block``; each fault is reported, and the next one is read."""
    for node in nodes:
        try:
            read_statement(node, context)
        except Refused:
            _declare_anyway(node, context)


def _declare_anyway(node: Node, context: Context) -> None:
    """What a broken declaration would have declared is not reported as missing."""
    if node.type != "declaration":
        return
    with context.silently():
        for each in node.children_by_field_name("declarator"):
            written = each
            while (inner := written.child_by_field_name("declarator")) is not None:
                written = inner
            name, rank = text_of(written), text_of(each).split("=")[0].count("[")
            if context.find(name) is None:
                kind = "array" if rank else "scalar"
                context.scopes[-1][name] = Variable(name, name, kind, ANY, rank, is_local=True)


def read_statement(node: Node, context: Context) -> None:
    """Read one statement; raises ``Refused`` after reporting what cannot be read."""
    match node.type:
        case "declaration":
            declaration(node, context)
        case "expression_statement":
            inner = named_children(node)
            if inner:
                effect(inner[0], context)
        case "compound_statement":
            context.scopes.append({})
            read_statements(named_children(node), context)
            context.scopes.pop()
        case "for_statement":
            for_statement(node, context, read_body, effect)
        case "while_statement":
            _while(node, context)
        case "if_statement":
            _if(node, context)
        case "return_statement":
            _return(node, context)
        case "preproc_call" | "preproc_include" | "using_declaration":
            pass  # #pragma and the headers say nothing about values
        case _:
            raise refuse_construct(node, context.text)


def read_body(node: Node, context: Context) -> None:
    """The statements of a body, with or without braces, into the block that is open."""
    inner = named_children(node) if node.type == "compound_statement" else [node]
    read_statements(inner, context)


def effect(node: Node, context: Context) -> None:
    """An expression that stands as a statement: an assignment, ``++``, a call."""
    node = unwrapped(node)
    match node.type:
        case "assignment_expression":
            _assignment(node, context)
        case "update_expression":
            operator = "+" if text_of(field_of(node, "operator")) == "++" else "-"
            one = constant(1, "i32", context.text.span(node))
            _change(field_of(node, "argument"), operator, one, node, context)
        case "comma_expression":
            effect(field_of(node, "left"), context)
            effect(field_of(node, "right"), context)
        case "call_expression":
            call_statement(node, context)
        case _:
            read(node, context)
            raise context.text.refuse(
                node, "the value is not used", "give it to a variable: float x = …;"
            )


def _assignment(node: Node, context: Context) -> None:
    operator = text_of(field_of(node, "operator")).removesuffix("=")
    right = field_of(node, "right")
    target = unwrapped(field_of(node, "left"))
    if operator:
        _change(target, operator, read(right, context), node, context)
        return
    if right.type == "initializer_list":
        raise refuse_construct(right, context.text)
    value = read(right, context)
    place = _place(target, context)
    context.block.append(
        syntax.Assign(
            (place.node,),
            context.text.word(field_of(node, "operator")),
            (assigned(value, place),),
            context.text.span(node),
        )
    )


def _change(target: Node, operator: str, value: Typed, node: Node, context: Context) -> None:
    """``x += e``: computed in the common type of both, then converted to that of ``x``."""
    target = unwrapped(target)
    current = read(target, context)
    place = _place(target, context)
    compute = arithmetic if operator in ("+", "-", "*", "/", "%") else bits
    result = compute(operator, current, value, node, context.text)
    span = context.text.span(node)
    plain = isinstance(result.node, syntax.Binary) and result.node.left == current.node
    if plain and result.type == place.type and operator != "%":
        assert isinstance(result.node, syntax.Binary)
        if result.node.operator.text == operator:
            context.block.append(
                syntax.Assign(
                    (place.node,), syntax.Word(f"{operator}=", span), (result.node.right,), span
                )
            )
            return
    changed = assigned(result, place)
    context.block.append(syntax.Assign((place.node,), syntax.Word("=", span), (changed,), span))


def _place(target: Node, context: Context) -> Typed:
    """What an assignment sets: a variable or an element."""
    if target.type == "subscript_expression":
        return element(target, context, write=True)
    name_node = target
    if target.type == "pointer_expression" and text_of(target).startswith("*"):
        name_node = unwrapped(field_of(target, "argument"))
    if name_node.type != "identifier":
        raise refuse_construct(target, context.text)
    name = text_of(name_node)
    variable = context.find(name) or context.free(name_node, 0, context)
    if variable is None:
        raise context.text.refuse(
            target, f"no variable named {name!r}", f"declare it: float {name} = …;"
        )
    _check_settable(variable, target, context)
    context.changed.add(variable.spelling)
    return Typed(syntax.Name(variable.spelling, context.text.span(target)), variable.type)


def _check_settable(variable: Variable, target: Node, context: Context) -> None:
    if variable.kind == "array":
        raise context.text.refuse(
            target,
            f"{variable.name!r} is an array and cannot be set as a whole",
            f"set its elements: {variable.name}{'[i]' * variable.rank} = …;",
        )
    if variable.kind == "size":
        raise context.text.refuse(
            target,
            f"{variable.name!r} is the size of an array and cannot be set",
            f"copy it first: int n = {variable.name};",
        )
    if variable.is_fixed:
        what = "the variable of a loop" if variable.kind == "index" else "const"
        raise context.text.refuse(
            target, f"{variable.name!r} is {what} and cannot be set", "use another variable"
        )


def assigned(value: Typed, place: Typed) -> syntax.Expression:
    """A value as the type of the place that it goes to; a variable's number has its dtype."""
    found = converted(value, place.type)
    is_variable = isinstance(place.node, syntax.Name)
    untyped = found.constant is not None or (found.type == ANY and place.type != ANY)
    return cast_to(found.node, place.type) if is_variable and untyped else found.node


def _while(node: Node, context: Context) -> None:
    test = condition(field_of(node, "condition"), context)
    with context.nested(conditional=True) as block:
        read_body(field_of(node, "body"), context)
    span = context.text.span(node)
    context.block.append(syntax.While(test.node, tuple(block), _first_word(node, context), span))


def _if(node: Node, context: Context) -> None:
    test_node = field_of(node, "condition")
    if test_node.child_by_field_name("initializer") is not None:
        raise context.text.refuse(
            test_node, "a declaration inside an if is outside of the subset", "write it before"
        )
    test = condition(test_node, context)
    with context.nested(conditional=True) as first:
        read_body(field_of(node, "consequence"), context)
    second: list[syntax.Statement] = []
    alternative = node.child_by_field_name("alternative")
    if alternative is not None:
        with context.nested(conditional=True) as second:
            for child in named_children(alternative):
                read_body(child, context)
    span = context.text.span(node)
    keyword = _first_word(node, context)
    context.block.append(syntax.If(test.node, tuple(first), tuple(second), keyword, span))


def _return(node: Node, context: Context) -> None:
    values = named_children(node)
    span = context.text.span(node)
    if not values:
        context.block.append(syntax.Return((), span))
        return
    if context.result is None:
        raise context.text.refuse(
            node, "a void function returns no value", "give it a type: float f(…)"
        )
    value = read(values[0], context)
    place = Typed(syntax.Name("", span), context.result)
    context.returns.append(node)
    context.block.append(syntax.Return((assigned(value, place),), span))


def _first_word(node: Node, context: Context) -> Span:
    return context.text.span(node.children[0])

"""Numbers that a text names: ``#define TILE 32``, and ``const int TILE = 32;`` of the text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wia_compiler.base.source import Source
from wia_compiler.frontend.cpp.context import Context
from wia_compiler.frontend.cpp.declared import declarator_of, type_of
from wia_compiler.frontend.cpp.expressions import read
from wia_compiler.frontend.cpp.reading import (
    CppText,
    Refused,
    field_of,
    named_children,
    parse_tree,
    text_of,
)
from wia_compiler.frontend.cpp.values import Typed, converted
from wia_compiler.frontend.problems import Problems

if TYPE_CHECKING:
    from tree_sitter import Node


def read_constants(root: Node, text: CppText) -> dict[str, Typed]:
    """The constants of a text by name; macros that are no numbers are reported."""
    constants: dict[str, Typed] = {}
    for node in named_children(root):
        try:
            if node.type == "preproc_def":
                name = text_of(field_of(node, "name"))
                constants[name] = _macro(node, constants, text)
            elif node.type == "declaration":
                constants |= _declared(node, constants, text)
        except Refused:
            continue
    return constants


def _macro(node: Node, constants: dict[str, Typed], text: CppText) -> Typed:
    value = node.child_by_field_name("value")
    written = "" if value is None else text_of(value).split("//")[0].strip()
    found = _number(written, constants)
    if found is None:
        raise text.refuse(
            node if value is None else value,
            f"the macro {text_of(field_of(node, 'name'))} is no number",
            "write #define TILE 32; for anything else, write a function",
        )
    return found


def _number(written: str, constants: dict[str, Typed]) -> Typed | None:
    """The value of a macro's text, which is an expression on numbers and earlier macros."""
    source = Source(f"auto value = {written};")
    text = CppText(source, Problems(source))
    root = parse_tree(source).root_node
    if root.has_error:
        return None
    declaration = named_children(root)[0]
    declarator = declaration.child_by_field_name("declarator")
    if declarator is None or declarator.type != "init_declarator":
        return None
    context = Context(text, constants, {}, lambda node, rank, context: None)
    try:
        found = read(field_of(declarator, "value"), context)
    except Refused:
        return None
    return found if found.constant is not None else None


def _declared(node: Node, constants: dict[str, Typed], text: CppText) -> dict[str, Typed]:
    """The constants of one declaration; one that has other values is no constant."""
    declared = type_of(node, text)
    found: dict[str, Typed] = {}
    if not declared.is_const:
        return found
    context = Context(text, constants, {}, lambda node, rank, context: None)
    for each in node.children_by_field_name("declarator"):
        if each.type != "init_declarator":
            continue
        declarator = declarator_of(field_of(each, "declarator"), text)
        if declarator.sizes or declarator.pointers:
            continue
        with context.silently():
            try:
                value = read(field_of(each, "value"), context)
            except Refused:
                continue
        if value.constant is not None:
            type_ = value.type if declared.type is None else declared.type
            found[text_of(declarator.name)] = converted(value, type_)
    return found

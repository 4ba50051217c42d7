"""Bare statements as a kernel named ``snippet``: what they use and do not declare is passed in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Callee
from wia_compiler.frontend.cpp.declared import declarator_of, type_of
from wia_compiler.frontend.cpp.literals import named_constant
from wia_compiler.frontend.cpp.loops import counters
from wia_compiler.frontend.cpp.outside import Body, Outside, text_span
from wia_compiler.frontend.cpp.reading import (
    CppText,
    Refused,
    field_of,
    named_children,
    text_of,
    unwrapped,
)
from wia_compiler.frontend.cpp.types import ANY
from wia_compiler.frontend.cpp.values import Typed

if TYPE_CHECKING:
    from tree_sitter import Node

NAME = "snippet"


def read_snippet(
    root: Node,
    nodes: Sequence[Node],
    text: CppText,
    constants: Mapping[str, Typed],
    callees: Mapping[str, Callee],
    bindings: Mapping[str, object],
) -> syntax.Kernel | None:
    """``for (int i = 0; i < N; i++) c[i] = a[i] + b[i];`` as a kernel of ``a`` and ``b``.

    Free names with brackets are arrays, of any dtype; free whole numbers that bound loops and
    indices are sizes of arrays, or i64; other free numbers are f32. Outputs are the arrays that
    are written, and the numbers declared outside of loops whose last value nothing reads.
    """
    if not nodes:
        text.report(
            root,
            "the text has no statement and no function",
            "write one: for (int i = 0; i < N; i++) { c[i] = a[i] + b[i]; }",
        )
        return None
    known = {*constants, *callees}
    arrays, numbers, indices = _free_names(nodes, known)
    outside: list[Outside] = []
    for name, node in sorted([*arrays.items(), *numbers.items()], key=lambda each: _place(each[1])):
        if name in bindings:
            continue
        if name in arrays:
            rank = _rank(arrays[name])
            outside.append(Outside(name, node, "array", ANY, (None,) * rank))
        elif named_constant(name, text.span(node)) is None:
            counts = name in indices
            outside.append(Outside(name, node, "number", "i64" if counts else "f32", counts=counts))
    results = _results(nodes, text)
    body = Body(text, nodes, outside, constants, callees, bindings, outputs=set(results))
    faults = len(text.problems)
    body.read()
    writes = [each for each, role in body.roles.items() if role != "input"]
    if len(text.problems) == faults and not writes and not results:
        text.report(
            nodes[0],
            "the statements leave nothing behind",
            "write to an array, or declare a number outside of the loops: float sum = 0;",
        )
    parameters = [body.parameter(each) for each in outside]
    places = [Outside(name, node, "place", type_) for name, (node, type_) in results.items()]
    parameters += [body.parameter(each) for each in places]
    span = text_span(text, nodes)
    return syntax.Kernel(
        syntax.Word(NAME, text.span(nodes[0])),
        tuple(each for each in parameters if each is not None),
        tuple(body.statements),
        span,
    )


def _place(node: Node) -> int:
    return node.start_byte


def _rank(node: Node) -> int:
    """How many brackets follow a name."""
    rank = 0
    parent = node.parent
    while parent is not None and parent.type in (
        "subscript_expression",
        "parenthesized_expression",
    ):
        rank += parent.type == "subscript_expression"
        node, parent = parent, parent.parent
        if parent is not None and parent.type == "subscript_argument_list":
            break
    return rank


def _free_names(
    nodes: Sequence[Node], known: set[str]
) -> tuple[dict[str, Node], dict[str, Node], set[str]]:
    """Arrays and numbers that no statement declares, and which of the numbers count elements."""
    declared: set[str] = set()
    uses: list[tuple[Node, bool]] = []
    for node, counts in _identifiers(nodes):
        if _is_declared_by(node):
            declared.add(text_of(node))
        else:
            uses.append((node, counts))
    arrays: dict[str, Node] = {}
    numbers: dict[str, Node] = {}
    indices: set[str] = set()
    for node, counts in uses:
        name = text_of(node)
        if name in declared or name in known or _is_callee(node):
            continue
        if _is_indexed(node):
            arrays.setdefault(name, node)
        else:
            numbers.setdefault(name, node)
            indices |= {name} if counts else set[str]()
    return arrays, {n: node for n, node in numbers.items() if n not in arrays}, indices


def _identifiers(nodes: Sequence[Node]) -> Iterator[tuple[Node, bool]]:
    """Every name in text order, and whether it stands where elements are counted."""
    pending = [(node, False) for node in reversed(nodes)]
    while pending:
        node, counts = pending.pop()
        if node.type == "identifier":
            yield node, counts
        for child in reversed(named_children(node)):
            heads = node.type == "for_statement" and child != node.child_by_field_name("body")
            sizes = node.type in ("subscript_argument_list", "array_declarator")
            pending.append((child, counts or heads or sizes))


def _is_declared_by(node: Node) -> bool:
    """Whether a name stands where a declaration introduces it."""
    parent = node.parent
    child = node
    while parent is not None and parent.type in ("array_declarator", "init_declarator"):
        if parent.child_by_field_name("declarator") != child:
            return False
        child, parent = parent, parent.parent
    return parent is not None and parent.type == "declaration"


def _is_callee(node: Node) -> bool:
    parent = node.parent
    if parent is not None and parent.type in ("qualified_identifier", "template_function"):
        return True
    return (
        parent is not None
        and parent.type == "call_expression"
        and parent.child_by_field_name("function") == node
    )


def _is_indexed(node: Node) -> bool:
    child, parent = node, node.parent
    while parent is not None and parent.type == "parenthesized_expression":
        child, parent = parent, parent.parent
    return (
        parent is not None
        and parent.type == "subscript_expression"
        and parent.child_by_field_name("argument") == child
    )


def _results(nodes: Sequence[Node], text: CppText) -> dict[str, tuple[Node, str]]:
    """Numbers declared outside of loops whose last value no later part of the text reads."""
    declared: dict[str, tuple[Node, str]] = {}
    counting = counters(list(nodes))
    for node in nodes:
        if node.type != "declaration":
            continue
        try:
            type_ = type_of(node, text)
            for each in node.children_by_field_name("declarator"):
                written = field_of(each, "declarator") if each.type == "init_declarator" else each
                declarator = declarator_of(written, text)
                name = text_of(declarator.name)
                plain = not declarator.sizes and not declarator.pointers
                if plain and not type_.is_const and type_.type is not None and name not in counting:
                    declared[name] = (declarator.name, type_.type)
        except Refused:
            continue  # reported again, and once, where the statement is read
    last_write: dict[str, int] = {name: node.end_byte for name, (node, _) in declared.items()}
    last_read: dict[str, int] = {}
    for node, _ in _identifiers(nodes):
        name = text_of(node)
        if name not in declared or _is_declared_by(node):
            continue
        if _is_set(node):
            statement = _statement_end(node)
            last_write[name] = max(last_write[name], statement)
        else:
            last_read[name] = max(last_read.get(name, 0), node.start_byte)
    return {
        name: found for name, found in declared.items() if last_read.get(name, 0) < last_write[name]
    }


def _is_set(node: Node) -> bool:
    parent = node.parent
    if parent is None:
        return False
    if parent.type == "update_expression":
        return True
    left = parent.child_by_field_name("left") if parent.type == "assignment_expression" else None
    return left is not None and unwrapped(left) == node


def _statement_end(node: Node) -> int:
    """Where the assignment ends that a name is set by: what it reads itself comes before."""
    parent = node.parent
    return node.end_byte if parent is None else parent.end_byte

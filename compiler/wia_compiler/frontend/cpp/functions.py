"""C++ functions to kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Callee, Context
from wia_compiler.frontend.cpp.declared import declarator_of, type_of
from wia_compiler.frontend.cpp.expressions import read
from wia_compiler.frontend.cpp.outside import Body, Outside
from wia_compiler.frontend.cpp.reading import CppText, Refused, field_of, named_children, text_of
from wia_compiler.frontend.cpp.sizes import Dim
from wia_compiler.frontend.cpp.types import CppType, is_integer
from wia_compiler.frontend.cpp.values import Typed, converted

if TYPE_CHECKING:
    from tree_sitter import Node


def read_function(
    node: Node,
    text: CppText,
    constants: Mapping[str, Typed],
    callees: Mapping[str, Callee],
    bindings: Mapping[str, object],
) -> tuple[syntax.Kernel, Callee]:
    """``void f(const float* a, float* c, int N) {…}`` as a kernel.

    Arrays that are written are outputs, or inouts where they are read before; an int that is the
    size of an array is that array's size and no parameter of the kernel. Raises ``Refused`` after
    reporting what cannot be read.
    """
    declarator = field_of(node, "declarator")
    if declarator.type != "function_declarator":
        raise text.refuse(
            declarator, "a function returns a number or nothing", "write void f(…) or float f(…)"
        )
    name = field_of(declarator, "declarator")
    if name.type != "identifier":
        raise text.refuse(
            name, f"{text_of(name)!r} is no plain name", "write functions outside of classes"
        )
    if text_of(name) in callees:
        raise text.refuse(
            name, f"function {text_of(name)!r} stands twice", "give one of them another name"
        )
    result = type_of(node, text)
    if result.is_auto:
        raise text.refuse(node.children[0], "auto says no type of the result", "write float f(…)")
    nodes = named_children(field_of(node, "body"))
    outside = _parameters(field_of(declarator, "parameters"), nodes, text, constants)
    faults = len(text.problems)
    body = Body(text, nodes, outside, constants, callees, bindings, text_of(name), result.type)
    body.read()
    if len(text.problems) == faults:
        _check_result(name, body, text)
    callee = Callee(
        text_of(name),
        node,
        tuple(_role(each, body) for each in outside),
        tuple(each.type for each in outside),
        result.type,
    )
    parameters = [body.parameter(each) for each in outside]
    kernel = syntax.Kernel(
        text.word(name),
        tuple(each for each in parameters if each is not None),
        tuple(_without_last_empty(body.statements)),
        text.span(node),
    )
    return kernel, callee


def _without_last_empty(statements: list[syntax.Statement]) -> list[syntax.Statement]:
    """Without the ``return;`` that says what is so anyway."""
    last = statements[-1] if statements else None
    return statements[:-1] if isinstance(last, syntax.Return) and not last.values else statements


def _role(outside: Outside, body: Body) -> str:
    if outside.kind == "array":
        return body.roles[outside.name]
    if outside.kind == "place":
        return "output"
    return "size" if outside.name in body.sizes else "scalar"


def _check_result(name: Node, body: Body, text: CppText) -> None:
    writes = [each for each, role in body.roles.items() if role != "input"]
    writes += [each.name for each in body.outside if each.kind == "place"]
    if body.result is None and not writes:
        text.report(
            name,
            f"{text_of(name)} writes no array and returns nothing",
            "write to an array parameter, or return a value: float f(…)",
        )
    if body.result is not None and writes:
        text.report(
            name,
            f"{text_of(name)} returns a value and writes {', '.join(writes)}",
            "do one of them: make the function void and the value a parameter: float& result",
        )
    if body.result is not None and not body.returns:
        text.report(name, f"{text_of(name)} returns no value", "end it with return x;")


def _parameters(
    node: Node, body: list[Node], text: CppText, constants: Mapping[str, Typed]
) -> list[Outside]:
    found: list[Outside] = []
    for child in named_children(node):
        if child.type not in ("parameter_declaration", "optional_parameter_declaration"):
            raise text.refuse(
                child, "this is outside of the subset", "declare each parameter: const float* a"
            )
        if text_of(child) == "void":
            continue
        outside = _parameter(child, body, text, constants)
        if any(each.name == outside.name for each in found):
            raise text.refuse(
                outside.node,
                f"parameter {outside.name!r} stands twice",
                "give one of them another name",
            )
        found.append(outside)
    names = {each.name for each in found}
    for each in found:
        for dim in each.dims:
            if isinstance(dim, str) and dim not in names:
                text.report(
                    each.node,
                    f"{dim!r}, the size of {each.name!r}, is no parameter",
                    f"declare it: int {dim}, or #define {dim} 32",
                )
                raise Refused(dim)
    return found


def _parameter(
    node: Node, body: list[Node], text: CppText, constants: Mapping[str, Typed]
) -> Outside:
    declared = type_of(node, text)
    written = node.child_by_field_name("declarator")
    if written is None:
        raise text.refuse(node, "a parameter needs a name", "write const float* a")
    declarator = declarator_of(written, text)
    name, type_ = text_of(declarator.name), declared.type
    if type_ is None:
        raise text.refuse(node, f"{name!r} needs a type", f"write const float* {name}")
    default = node.child_by_field_name("default_value")
    if declarator.sizes or declarator.pointers:
        if declarator.pointers > 1 or (declarator.pointers and declarator.sizes):
            raise text.refuse(
                node, "a pointer to pointers is outside of the subset", f"write float {name}[M][N]"
            )
        dims = tuple(_dim(each, text, constants) for each in declarator.sizes) or (None,)
        if declarator.pointers and _only_pointed(name, body):
            kind = "number" if declared.is_const else "place"
            return Outside(name, declarator.name, kind, type_)
        return Outside(name, declarator.name, "array", type_, dims, is_const=declared.is_const)
    if declarator.is_reference and not declared.is_const:
        return Outside(name, declarator.name, "place", type_)
    return Outside(
        name,
        declarator.name,
        "number",
        type_,
        counts=is_integer(type_) and default is None,
        is_const=declared.is_const,
        default=None if default is None else _default(default, type_, text, constants),
    )


def _dim(node: Node | None, text: CppText, constants: Mapping[str, Typed]) -> Dim:
    if node is None:
        return None
    context = Context(text, constants, {}, lambda node, rank, context: None)
    if node.type == "identifier" and text_of(node) not in constants:
        return text_of(node)
    with context.silently():
        try:
            found = read(node, context)
        except Refused:
            found = None
    if found is None or not isinstance(found.constant, int) or found.constant < 0:
        raise text.refuse(
            node, "the size of an array is a number or a name", "write float A[M][K], or float a[8]"
        )
    return found.constant


def _default(
    node: Node, type_: CppType, text: CppText, constants: Mapping[str, Typed]
) -> syntax.Number | syntax.Boolean:
    context = Context(text, constants, {}, lambda node, rank, context: None)
    found = converted(read(node, context), type_)
    if not isinstance(found.node, syntax.Number | syntax.Boolean):
        raise text.refuse(node, "a default is a number", "write float alpha = 1.0f")
    return found.node


def _only_pointed(name: str, body: list[Node]) -> bool:
    """Whether a pointer is used as ``*p`` alone: it points to one number."""
    used = False
    pending = list(body)
    while pending:
        node = pending.pop()
        if node.type == "identifier" and text_of(node) == name:
            parent = node.parent
            while parent is not None and parent.type == "parenthesized_expression":
                parent = parent.parent
            if parent is None or parent.type != "pointer_expression":
                return False
            used = True
        pending.extend(node.children)
    return used

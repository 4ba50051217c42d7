"""Declarations of C++: types with their qualifiers, and declarators ``*a``, ``&x``, ``A[M][K]``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from wia_compiler.frontend.cpp.reading import CppText, field_of, named_children, text_of
from wia_compiler.frontend.cpp.types import NAMES, UNSIGNED, CppType
from wia_compiler.frontend.suggestions import nearest

if TYPE_CHECKING:
    from tree_sitter import Node

_IGNORED = frozenset(("const", "constexpr", "static", "inline", "register", "restrict"))


@dataclass(frozen=True)
class Declarator:
    """``name`` with what stands around it; ``sizes`` holds ``None`` for ``[]``."""

    name: Node
    pointers: int = 0
    is_reference: bool = False
    sizes: tuple[Node | None, ...] = ()


@dataclass(frozen=True)
class DeclaredType:
    """``const float``: ``type`` is ``None`` for void and for auto (``is_auto``)."""

    type: CppType | None
    is_const: bool = False
    is_auto: bool = False


def type_of(node: Node, text: CppText) -> DeclaredType:
    """The type of a declaration, parameter or function: its specifiers and ``type`` field."""
    qualifiers = {text_of(c) for c in node.children if c.type == "type_qualifier"}
    for child in node.children:
        is_word = child.type in ("type_qualifier", "storage_class_specifier")
        if is_word and text_of(child) not in _IGNORED:
            raise text.refuse(child, f"{text_of(child)!r} is outside of the subset", "leave it out")
    written = node.child_by_field_name("type")
    if written is None:
        raise text.refuse(node, "this has no type", "write one: void f(…), float x = 0")
    is_const = bool(qualifiers & {"const", "constexpr"})
    if written.type == "placeholder_type_specifier":
        return DeclaredType(None, is_const, is_auto=True)
    if text_of(written) == "void":
        return DeclaredType(None, is_const)
    return DeclaredType(named_type(written, text), is_const)


def named_type(node: Node, text: CppText) -> CppType:
    """The dtype that the name of a type stands for."""
    name = " ".join(text_of(node).replace("std::", "").split())
    if name in NAMES:
        return NAMES[name]
    if name in UNSIGNED:
        raise text.refuse(
            node,
            f"{name} wraps around at 0, which no dtype does",
            "write int, long or int64_t; uint8_t is there for data",
        )
    if "<" in name:
        raise text.refuse(
            node,
            f"{name} is a class of C++'s library; kernels work on plain arrays",
            "write a parameter: const float* a, or float A[M][K]",
        )
    near = nearest(name, NAMES)
    hint = f"did you mean {near!r}?" if near else "types are float, double, half, int, int8_t … "
    raise text.refuse(node, f"no type {name!r}", hint.strip())


def type_of_descriptor(node: Node, text: CppText) -> CppType:
    """The type in ``(float)x`` or ``static_cast<float>(x)``."""
    if node.child_by_field_name("declarator") is not None:
        raise text.refuse(
            node, f"a value cannot become {text_of(node)!r}", "cast to a number: (float)x"
        )
    return named_type(field_of(node, "type"), text)


def declarator_of(node: Node, text: CppText) -> Declarator:
    """``*a``, ``&x``, ``A[M][K]``, ``a``; what binds tighter stands further inside."""
    match node.type:
        case "identifier":
            if not text_of(node).isascii():
                raise text.refuse(
                    node, f"{text_of(node)!r} is no name of the IR", "use letters from a to z"
                )
            return Declarator(node)
        case "pointer_declarator":
            inner = declarator_of(field_of(node, "declarator"), text)
            return Declarator(inner.name, inner.pointers + 1, inner.is_reference, inner.sizes)
        case "reference_declarator" if len(named_children(node)) == 1:
            inner = declarator_of(named_children(node)[0], text)
            return Declarator(inner.name, inner.pointers, True, inner.sizes)
        case "array_declarator":
            inner = declarator_of(field_of(node, "declarator"), text)
            size = node.child_by_field_name("size")
            return Declarator(inner.name, inner.pointers, inner.is_reference, (*inner.sizes, size))
        case "parenthesized_declarator":
            return declarator_of(named_children(node)[0], text)
        case _:
            raise text.refuse(
                node,
                f"{text_of(node)!r} is outside of the subset",
                "declare a value (float x), a pointer (float* a) or an array (float A[M][K])",
            )

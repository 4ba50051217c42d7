"""Declarations of memory: ``.shared .align 16 .b8 tile[4096];`` and parameters."""

from __future__ import annotations

import struct
from math import prod

from wia_compiler.simulators.ptx.cursor import Cursor
from wia_compiler.simulators.ptx.syntax import Space, Variable
from wia_compiler.simulators.ptx.types import TYPES, PtxType

_SPACES: dict[str, Space] = {
    ".global": "global",
    ".const": "const",
    ".shared": "shared",
    ".local": "local",
    ".param": "param",
}
_NOTES = (".ptr", ".managed", ".unified", ".attribute")


def parse_variables(cursor: Cursor, *, end: str = ";", external: bool = False) -> list[Variable]:
    """The variables of one declaration; ``end`` closes it (nothing does in a parameter list)."""
    space = _SPACES[cursor.take().text]
    align, vector, type = 0, 1, None
    while cursor.token.kind == "directive":
        token = cursor.take()
        word = token.text[1:]
        if token.text == ".align":
            align = cursor.integer()
        elif word in ("v2", "v4"):
            vector = int(word[1])
        elif word in TYPES:
            type = TYPES[word]
        elif token.text == ".attribute":
            _skip_parentheses(cursor)
        elif token.text not in _NOTES and token.text not in _SPACES:
            cursor.fail(f"unknown type or note {token.text!r} of a variable", token.span)
    if type is None:
        cursor.fail(f"expected the type of a variable, found {cursor.found}")
    found = [_variable(cursor, space, type, align, vector, external)]
    if end:
        while cursor.accept(","):
            found.append(_variable(cursor, space, type, align, vector, external))
        cursor.expect(end)
    return found


def _variable(
    cursor: Cursor, space: Space, type: PtxType, align: int, vector: int, external: bool
) -> Variable:
    name = cursor.expect_kind("word", "the name of a variable")
    sizes: list[int] = []
    while cursor.accept("["):
        sizes.append(0 if cursor.token.text == "]" else cursor.integer())
        cursor.expect("]")
    count = prod(sizes) * vector
    initial = _initial(cursor, type) if cursor.accept("=") else None
    if initial is not None and not count:
        count = len(initial) // type.size_bytes
    return Variable(
        name.text,
        space,
        type,
        count,
        align or type.size_bytes * vector,
        name.span,
        initial,
        external,
    )


def _initial(cursor: Cursor, type: PtxType) -> bytes:
    """The bytes after ``=``: one number, or numbers in braces (which may be nested)."""
    if not cursor.accept("{"):
        return _number(cursor, type)
    return b"".join(cursor.listed(lambda: _initial(cursor, type), "}"))


def _number(cursor: Cursor, type: PtxType) -> bytes:
    negative = cursor.accept("-")
    token = cursor.take()
    if token.kind == "float_bits":
        width = 4 if token.text[1] in "fF" else 8
        return int(token.text[2:], 16).to_bytes(width, "little")
    if token.kind == "float" or (token.kind == "integer" and type.kind == "float"):
        value = float(token.text) * (-1 if negative else 1)
        return struct.pack("<d" if type.bits == 64 else "<f", value)
    if token.kind != "integer":
        cursor.fail(f"expected a number, found {token.text!r}", token.span)
    value = int(token.text.rstrip("U"), 0) * (-1 if negative else 1)
    return (value % (1 << type.bits)).to_bytes(type.size_bytes, "little")


def _skip_parentheses(cursor: Cursor) -> None:
    cursor.expect("(")
    while not cursor.accept(")"):
        cursor.take()

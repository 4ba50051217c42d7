"""The two questions asked of an ELF64 object: what does it call, and how large is its code."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from wia_compiler.base.errors import TargetError
from wia_compiler.passes.llvm.whitelist import allowed_names

OBJECT = "kernel.o"
"""The name of the object among an artifact's files."""
_SYMBOL_TABLE = 2
_EXECUTABLE = 4  # SHF_EXECINSTR


class _Section(NamedTuple):
    name: int
    type: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


def undefined_symbols(data: bytes) -> list[str]:
    """Names that an object refers to and does not define, sorted."""
    sections = _sections(data)
    names: set[str] = set()
    for section in sections:
        if section.type != _SYMBOL_TABLE:
            continue
        strings = sections[section.link].offset
        for place in range(section.offset, section.offset + section.size, section.entry_size):
            name, _, _, index = struct.unpack_from("<IBBH", data, place)
            if name and index == 0:
                end = data.index(b"\0", strings + name)
                names.add(data[strings + name : end].decode())
    return sorted(names)


def check_symbols(object_: bytes, triple: str) -> None:
    """Refuse an object that needs a function which the loader may not find: that would abort."""
    allowed = allowed_names(triple)
    wrong = [
        name
        for name in undefined_symbols(object_)
        if allowed is None or not allowed.fullmatch(name)
    ]
    if wrong:
        raise TargetError(
            f"LLVM generated calls of {', '.join(wrong)}, which this target does not provide"
        )


def code_size(data: bytes) -> int:
    """Bytes of machine code in an object."""
    return sum(section.size for section in _sections(data) if section.flags & _EXECUTABLE)


def _sections(data: bytes) -> list[_Section]:
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("expected an ELF64 object")
    (start,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    return list(_headers(data, start, size, count))


def _headers(data: bytes, start: int, size: int, count: int) -> Iterator[_Section]:
    for number in range(count):
        yield _Section(*struct.unpack_from("<IIQQQQIIQQ", data, start + number * size))

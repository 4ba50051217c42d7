"""What a cubin says without being disassembled: how many instructions it holds.

A cubin is an ELF file of 64 bits (System V ABI, chapter 4); each entry's code is a section
``.text.NAME``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

INSTRUCTION_BYTES = 16
"""Every architecture from sm_70 on encodes an instruction in 128 bits."""

_OPCODE = 0xFFF
_NOP = 0x918
_SELF_BRANCHES = frozenset({0xFFFF_FFF0_0000_7947, 0xFFFF_FFFC_00FC_7947})
"""``BRA`` to itself as ptxas writes it after the code: up to sm_89, and from sm_90 on."""
_SECTION_HEADER = struct.Struct("<IIQQQQIIQQ")


def instruction_count(cubin: bytes) -> int:
    """Instructions of all entries, without the padding after the last of each.

    Code ends in a branch to itself and NOPs, which nothing ever reaches.
    """
    return sum(_without_padding(code) for code in _code_sections(cubin))


def _without_padding(code: bytes) -> int:
    words = [first for first, _ in struct.iter_unpack("<QQ", code)]
    while words and words[-1] & _OPCODE == _NOP:
        words.pop()
    if words and words[-1] in _SELF_BRANCHES:
        words.pop()
    return len(words)


def _code_sections(cubin: bytes) -> Iterator[bytes]:
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [_SECTION_HEADER.unpack_from(cubin, table + size * n) for n in range(count)]
    texts = headers[names][4]
    for name, _, _, _, offset, length, *_ in headers:
        if cubin.startswith(b".text.", texts + name):
            yield cubin[offset : offset + length]

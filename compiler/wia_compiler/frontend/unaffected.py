"""What is wrong with the kernels of a text that its syntax errors do not touch.

A text with a syntax error in one kernel still tells the faults of the others, so that all are
mended at once. Kernels that call a broken one are left out: what it takes is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source
from wia_compiler.frontend.comments import pieces
from wia_compiler.frontend.syntax_fault import HEAD, place

_NAME = re.compile(r"\w+\s+@?(\w+)")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class _Region:
    """The text from one head (``kernel NAME``) to the next; ``name`` is empty before the first."""

    name: str
    start: int
    end: int
    words: frozenset[str]


def faults_of_the_rest(
    source: Source,
    text: str,
    diagnostics: Sequence[Diagnostic],
    bindings: Mapping[str, object],
) -> list[Diagnostic]:
    """The faults of all that is whole; ``text`` is the source's as the parser reads it."""
    from wia_compiler.frontend.dsl import parse_text
    from wia_compiler.frontend.import_dsl import import_program

    whole = _whole(list(_regions(text)), text, diagnostics)
    if not any(region.name for region in whole):
        return []
    kept = [" " if character != "\n" else "\n" for character in text]
    for region in whole:
        kept[region.start : region.end] = text[region.start : region.end]
    program = parse_text(source, "".join(kept))
    if program is None:
        return []
    try:
        import_program(program, bindings)
    except CompileError as error:
        return list(error.diagnostics)
    return []


def _regions(text: str) -> Iterator[_Region]:
    starts = [0]
    depth = 0
    for at, piece in pieces(text):
        if piece in ("{", "}"):
            depth = max(0, depth + (1 if piece == "{" else -1))
        elif depth == 0 and HEAD.match(text, at) and at:
            starts.append(at)
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        head = HEAD.match(text, start)
        name = _NAME.match(text, start) if head is not None else None
        words = frozenset(_WORD.findall(text[start:end]))
        yield _Region(name[1] if name is not None else "", start, end, words)


def _whole(
    regions: Sequence[_Region], text: str, diagnostics: Sequence[Diagnostic]
) -> list[_Region]:
    """The regions without a fault that mention no broken one, directly or through others."""
    faults = [each.span[:2] for each in diagnostics if each.span is not None]
    whole: list[_Region] = []
    broken: set[str] = set()
    for region in regions:
        first, last = place(text, region.start), place(text, region.end)
        if any(first <= fault <= last for fault in faults):
            broken.add(region.name)
        else:
            whole.append(region)
    broken.discard("")
    while any(region.words & broken for region in whole):
        broken |= {region.name for region in whole if region.words & broken and region.name}
        whole = [region for region in whole if not region.words & broken]
    return whole

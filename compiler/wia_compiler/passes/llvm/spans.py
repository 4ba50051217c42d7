"""Which source spans each line of emitted LLVM IR came from."""

from __future__ import annotations

import re

from wia_compiler.base.source import Span
from wia_compiler.passes.llvm.emit import EmittedModule

_NODE = re.compile(r"^!(\d+) = !DILocation\(line: (\d+), column: (\d+)", re.MULTILINE)
_USE = re.compile(r"^  .*, !dbg !(\d+)")


def llvm_line_spans(emitted: EmittedModule) -> dict[int, tuple[Span, ...]]:
    """Source spans by line of the text (from 1); lines that came from nowhere are absent."""
    places = {
        number: emitted.spans.get((int(line), int(column)), ())
        for number, line, column in _NODE.findall(emitted.text)
    }
    found: dict[int, tuple[Span, ...]] = {}
    for number, line in enumerate(emitted.text.split("\n"), start=1):
        use = _USE.match(line)
        if use is not None and (spans := places[use[1]]):
            found[number] = spans
    return found

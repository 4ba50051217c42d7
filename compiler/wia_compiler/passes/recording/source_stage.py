"""The first stage of every trace: the kernel as its author wrote it."""

from __future__ import annotations

import re

from wia_compiler.base.record import Stage
from wia_compiler.base.signature import KernelSignature
from wia_compiler.base.source import Span

_TOKEN = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/|[{}]", re.DOTALL)


def source_stage(signature: KernelSignature) -> Stage:
    """The kernel's own lines; ``line_spans`` says where in the whole text each of them stands."""
    first, lines = kernel_lines(signature)
    spans = {
        number: (Span(first + number - 1, 1, first + number - 1, len(line) + 1),)
        for number, line in enumerate(lines, start=1)
    }
    count = "1 line" if len(lines) == 1 else f"{len(lines)} lines"
    return Stage("source", "source", "wia", "\n".join(lines), summary=count, line_spans=spans)


def kernel_lines(signature: KernelSignature) -> tuple[int, list[str]]:
    """The number of the kernel's first line and its lines, up to that of its closing brace."""
    lines = signature.source.text.split("\n")
    if signature.span is None:
        return 1, lines
    first = signature.span.line
    rest = "\n".join(lines[first - 1 :])
    depth = 0
    for token in _TOKEN.finditer(rest, signature.span.column - 1):
        depth += {"{": 1, "}": -1}.get(token[0], 0)
        if token[0] == "}" and depth <= 0:
            return first, rest[: token.end()].split("\n")
    return first, lines[first - 1 :]

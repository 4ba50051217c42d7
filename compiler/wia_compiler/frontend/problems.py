"""Faults found in one source, collected so that they are raised together."""

from __future__ import annotations

from wia_compiler.base.errors import CompileError, Diagnostic
from wia_compiler.base.source import Source, Span


class Problems:
    """The faults of one source; ``report`` notes one and the work goes on."""

    def __init__(self, source: Source):
        self.source = source
        self._found: list[Diagnostic] = []

    def report(self, message: str, span: Span, hint: str | None = None) -> None:
        """Note a fault."""
        self._found.append(Diagnostic(message, span, hint, self.source))

    def __len__(self) -> int:
        return len(self._found)

    def raise_any(self) -> None:
        """Raise ``CompileError`` with all faults in text order, if there are any."""
        if self._found:
            raise CompileError(sorted(self._found, key=_place))


def _place(diagnostic: Diagnostic) -> tuple[int, int]:
    return diagnostic.span[:2] if diagnostic.span is not None else (0, 0)

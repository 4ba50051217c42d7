"""What a kernel must not do, with the line of the PTX, the thread and the address."""

from __future__ import annotations

from wia_compiler.base.errors import Diagnostic, TargetError


class PtxFault(TargetError):
    """A launch that did what the machine forbids; ``diagnostic`` has line, caret and reason."""

    def __init__(self, diagnostic: Diagnostic):
        self.diagnostic = diagnostic
        super().__init__(diagnostic.render())

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")

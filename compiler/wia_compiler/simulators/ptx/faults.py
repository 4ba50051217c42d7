"""What a kernel must not do, with the line of the PTX, the thread and the address."""

from __future__ import annotations

from collections.abc import Sequence

from wia_compiler.base.errors import Diagnostic, TargetError
from wia_compiler.simulators.ptx.findings import Finding


class PtxFault(TargetError):
    """A launch that did what the machine forbids; ``diagnostic`` has line, caret and reason.

    ``findings`` are those of the checks (``debug=True``) until then, which may be the cause.
    """

    def __init__(self, diagnostic: Diagnostic, findings: Sequence[Finding] = ()):
        self.diagnostic = diagnostic
        self.findings = tuple(findings)
        super().__init__("\n\n".join([diagnostic.render(), *map(str, self.findings)]))

    def _render_traceback_(self) -> list[str]:
        return str(self).split("\n")

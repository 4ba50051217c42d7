"""The status record of a kernel that checks indices: what its code notes, and the error of it.

The record is 16 numbers: 0, or 1 plus the number of the first check that failed; then the indices
of the access that it is about. Where threads share it, the last one counts the failures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wia_compiler.base.errors import OutOfRangeError
from wia_compiler.base.source import Source, Span

NUMBERS = 16
"""How many the record holds."""


@dataclass(frozen=True)
class Check:
    """What one check is about, as JSON values: its kernel, span and line, its array and sizes."""

    kernel: str
    span: str
    line: str
    array: str
    sizes: Sequence[int]

    def error(self, indices: Sequence[int]) -> OutOfRangeError:
        """The error of an access at ``indices``."""
        span = Span.parse(self.span) if self.span else None
        source = None
        if span is not None:
            source = Source("\n" * (span.line - 1) + self.line, self.kernel)
        return OutOfRangeError(self.array, tuple(indices), tuple(self.sizes), span, source)


def raise_failure(workspace: NDArray[np.uint8], checks: Sequence[Mapping[str, Any]]) -> None:
    """Raise ``OutOfRangeError`` where a failure is noted in the record at the start of memory."""
    record = workspace[: 8 * NUMBERS].view(np.int64)
    if record[0]:
        check = Check(**checks[int(record[0]) - 1])
        raise check.error([int(each) for each in record[1 : 1 + len(check.sizes)]])

"""What the checks of a launch found: records with line, threads, address and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from wia_compiler.base.errors import Diagnostic
from wia_compiler.base.source import Source, Span
from wia_compiler.simulators.ptx.syntax import Instruction

Kind = Literal["uninitialised", "race", "cp.async", "barrier", "wgmma"]
MOST_FINDINGS = 20
"""Findings that a launch keeps; of each pair of instructions there is one at most."""


@dataclass(frozen=True)
class Finding:
    """One fault that a launch survived.

    ``span`` is the place in the PTX text, ``location`` that of the ``.loc`` before it: (file,
    line, column); the file is a number where the text names none. ``times`` says in how many steps
    of the launch it was found.
    """

    kind: Kind
    message: str
    hint: str
    span: Span
    location: tuple[str, int, int] | None = None
    times: int = 1
    source: Source | None = field(default=None, repr=False)

    def __str__(self) -> str:
        text = self.message
        if self.location is not None:
            text += " (from {}:{}:{})".format(*self.location)
        if self.times > 1:
            text += f", {self.times} times"
        return Diagnostic(text, self.span, self.hint, self.source).render()


class Findings:
    """Findings in the making, in the order in which they were first met."""

    def __init__(self, source: Source, files: Mapping[int, str]):
        self._source = source
        self._files = files
        self._found: dict[tuple[str, int, int], Finding] = {}

    def add(
        self,
        kind: Kind,
        instruction: Instruction,
        pair: tuple[int, int],
        tell: Callable[[], tuple[str, str]],
    ) -> None:
        """Note a fault of a pair of instructions; ``tell`` makes its message and its hint."""
        key = (kind, *pair)
        known = self._found.get(key)
        if known is not None:
            self._found[key] = replace(known, times=known.times + 1)
        elif len(self._found) < MOST_FINDINGS:
            message, hint = tell()
            place = self._location(instruction)
            self._found[key] = Finding(
                kind, message, hint, instruction.span, place, 1, self._source
            )

    def all(self) -> tuple[Finding, ...]:
        """What was found until now."""
        return tuple(self._found.values())

    def _location(self, instruction: Instruction) -> tuple[str, int, int] | None:
        if instruction.location is None:
            return None
        file, line, column = instruction.location
        return self._files.get(file, str(file)), line, column

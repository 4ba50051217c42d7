"""Compares the output of a pass with the ``CHECK`` lines beside its input, as FileCheck does.

``CHECK: text`` finds the text further down, ``CHECK-NEXT: text`` on the very next line,
``CHECK-SAME: text`` on the same line, ``CHECK-NOT: text`` nowhere before the next match, and
``CHECK-LABEL: text`` starts a section: nothing above it is matched after it. Runs of spaces count
as one. ``{{…}}`` is a regular expression, ``[[NAME:…]]`` names what one matched, ``[[NAME]]`` is
that text again.
"""

import re
from dataclasses import dataclass

KINDS = ("", "-NEXT", "-SAME", "-NOT", "-LABEL")
_DIRECTIVE = re.compile(r"//\s*CHECK(?P<kind>-[\w-]+)?:(?P<text>.*)$")
_PART = re.compile(r"\{\{(?P<regex>.*?)\}\}|\[\[(?P<name>\w+)(?::(?P<named>.*?))?\]\]")


class CheckFailure(AssertionError):
    """An expectation that the output does not meet, with the place where it was looked for."""


@dataclass(frozen=True)
class Check:
    """One ``CHECK`` line: its kind (``-NEXT`` …), its pattern and its line in the file."""

    kind: str
    text: str
    line: int


def checks_of(expected: str) -> list[Check]:
    """The ``CHECK`` lines of a file; an unknown kind is an error, not a line to skip."""
    found: list[Check] = []
    for number, line in enumerate(expected.splitlines(), start=1):
        match = _DIRECTIVE.search(line)
        if match is None:
            continue
        kind = match["kind"] or ""
        if kind not in KINDS:
            raise CheckFailure(f"line {number}: no directive CHECK{kind}")
        if not match["text"].strip():
            raise CheckFailure(f"line {number}: CHECK{kind} without a text matches everything")
        found.append(Check(kind, match["text"].strip(), number))
    return found


def check(output: str, expected: str) -> int:
    """How many checks held; ``CheckFailure`` where ``output`` is not what they say."""
    checks = checks_of(expected)
    if not checks:
        raise CheckFailure("no CHECK line: a test that cannot fail")
    matcher = _Matcher([" ".join(line.split()) for line in output.splitlines()], output)
    for each in checks:
        matcher.apply(each)
    matcher.finish()
    return len(checks)


class _Matcher:
    def __init__(self, lines: list[str], output: str):
        self.lines = lines
        self.output = output
        self.line, self.column = 0, 0
        self.matched = False
        self.forbidden: list[Check] = []
        self.names: dict[str, str] = {}

    def apply(self, check: Check) -> None:
        if check.kind == "-NOT":
            self.forbidden.append(check)
            return
        if check.kind in ("-NEXT", "-SAME") and not self.matched:
            raise CheckFailure(f"line {check.line}: CHECK{check.kind} needs a CHECK before it")
        if check.kind == "-LABEL":
            self.names.clear()
        start = (self.line, self.column)
        line, found = self._find(check)
        self._reject(start, (line, found.start()))
        self.names |= {name: text for name, text in found.groupdict().items() if text is not None}
        self.line, self.column, self.matched = line, found.end(), True

    def finish(self) -> None:
        self._reject((self.line, self.column), (len(self.lines), 0))

    def _find(self, check: Check) -> tuple[int, re.Match[str]]:
        pattern = self._pattern(check)
        last = {"-NEXT": self.line + 2, "-SAME": self.line + 1}.get(check.kind, len(self.lines))
        first = self.line + 1 if check.kind == "-NEXT" else self.line
        for line in range(first, min(last, len(self.lines))):
            column = self.column if line == self.line else 0
            found = pattern.search(self.lines[line], column)
            if found is not None:
                return line, found
        raise CheckFailure(
            f"line {check.line}: CHECK{check.kind}: {check.text}\n"
            f"is not found after line {self.line + 1} of the output:\n{self._numbered()}"
        )

    def _reject(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        for check in self.forbidden:
            pattern = self._pattern(check)
            for line in range(start[0], min(end[0] + 1, len(self.lines))):
                column = start[1] if line == start[0] else 0
                stop = end[1] if line == end[0] else len(self.lines[line])
                if pattern.search(self.lines[line], column, stop):
                    raise CheckFailure(
                        f"line {check.line}: CHECK-NOT: {check.text}\n"
                        f"stands on line {line + 1} of the output:\n{self._numbered()}"
                    )
        self.forbidden.clear()

    def _pattern(self, check: Check) -> re.Pattern[str]:
        parts: list[str] = []
        named: set[str] = set()
        position, text = 0, " ".join(check.text.split())
        for part in _PART.finditer(text):
            parts.append(re.escape(text[position : part.start()]))
            parts.append(self._part(part, named, check))
            position = part.end()
        parts.append(re.escape(text[position:]))
        return re.compile("".join(parts))

    def _part(self, part: re.Match[str], named: set[str], check: Check) -> str:
        if part["regex"] is not None:
            return f"(?:{part['regex']})"
        if part["name"] in named:
            return f"(?P={part['name']})"
        if part["named"] is not None:
            named.add(part["name"])
            return f"(?P<{part['name']}>{part['named']})"
        if part["name"] not in self.names:
            raise CheckFailure(f"line {check.line}: [[{part['name']}]] was not named before")
        return re.escape(self.names[part["name"]])

    def _numbered(self) -> str:
        return "\n".join(f"{n:4} | {line}" for n, line in enumerate(self.output.splitlines(), 1))

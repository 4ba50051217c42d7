"""Metadata: debug locations that make every machine instruction name its source line, loop hints.

``DebugDirectivesOnly`` writes ``.file`` and ``.loc`` lines and no DWARF sections: with the latter,
ptxas would change its code.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Operation

from wia_compiler.base.source import Source, Span
from wia_compiler.dialects.location import spans_of

SpanTable = dict[tuple[int, int], tuple[Span, ...]]


class Metadata:
    """The numbered metadata nodes of one module.

    ``spans`` maps the line and column that a ``.loc`` line names to the source spans of the ops
    that were given that place. Without ``source`` there are no debug locations.
    """

    def __init__(self, source: Source | None):
        self.spans: SpanTable = {}
        self._nodes: list[str] = []
        self._places: dict[tuple[int, int, int], str] = {}
        self._of_location: dict[tuple[int, LocationAttr], str] = {}
        self._shared: dict[str, int] = {}
        self._scope: int | None = None
        self._header: list[str] = []
        if source is not None:
            self._describe(source)

    def add(self, text: str) -> int:
        """Add a node; its number."""
        self._nodes.append(text)
        return len(self._nodes) - 1

    def shared(self, text: str) -> int:
        """The number of a node that is the same wherever it is used."""
        if text not in self._shared:
            self._shared[text] = self.add(text)
        return self._shared[text]

    def begin_function(self, name: str, op: Operation) -> str:
        """Enter a function: the suffix of its ``define`` line (``" !dbg !7"`` or empty)."""
        if not self._header:
            return ""
        spans = spans_of(op)
        line = spans[0].line if spans else 0
        self._scope = self.add(
            f'distinct !DISubprogram(name: "{_escape(name)}", scope: !1, file: !1, line: {line}, '
            f"type: !2, scopeLine: {line}, "
            "spFlags: DISPFlagDefinition | DISPFlagOptimized, unit: !0)"
        )
        return f" !dbg !{self._scope}"

    def suffix(self, op: Operation) -> str:
        """What follows an instruction made from ``op``: ``", !dbg !9"``, empty without debug info.

        An op without a place is given line 0, which debuggers read as compiler-made.
        """
        if self._scope is None:
            return ""
        key = (self._scope, op.location)
        known = self._of_location.get(key)
        if known is not None:
            return known
        spans = spans_of(op)
        place = (spans[0].line, spans[0].column) if spans else (0, 0)
        if spans:
            before = self.spans.get(place, ())
            self.spans[place] = tuple(dict.fromkeys((*before, *spans)))
        self._of_location[key] = self._place(*place)
        return self._of_location[key]

    def loop(self, hints: Sequence[str]) -> str:
        """What follows the branch that closes a loop: ``", !llvm.loop !12"``."""
        if not hints:
            return ""
        numbers = ", ".join(f"!{self.add('!{' + hint + '}')}" for hint in hints)
        number = len(self._nodes)
        self.add(f"distinct !{{!{number}, {numbers}}}")
        return f", !llvm.loop !{number}"

    def text(self) -> str:
        """Everything at the end of the module."""
        return "\n".join(
            (*self._header, *(f"!{number} = {node}" for number, node in enumerate(self._nodes)))
        )

    def _describe(self, source: Source) -> None:
        self.add(
            'distinct !DICompileUnit(language: DW_LANG_C99, file: !1, producer: "wia", '
            "isOptimized: true, runtimeVersion: 0, emissionKind: DebugDirectivesOnly)"
        )
        self.add(f'!DIFile(filename: "{_escape(source.name)}", directory: "")')
        self.add("!DISubroutineType(types: !{null})")
        version = self.add('!{i32 2, !"Debug Info Version", i32 3}')
        dwarf = self.add('!{i32 7, !"Dwarf Version", i32 4}')
        self._header = [
            "!llvm.dbg.cu = !{!0}",
            f"!llvm.module.flags = !{{!{version}, !{dwarf}}}",
        ]

    def _place(self, line: int, column: int) -> str:
        assert self._scope is not None
        key = (self._scope, line, column)
        if key not in self._places:
            number = self.add(f"!DILocation(line: {line}, column: {column}, scope: !{self._scope})")
            self._places[key] = f", !dbg !{number}"
        return self._places[key]


def _escape(text: str) -> str:
    def spelled(character: str) -> str:
        if " " <= character <= "~" and character not in '"\\':
            return character
        return "".join(f"\\{byte:02X}" for byte in character.encode())

    return "".join(map(spelled, text))

"""PTX text, ours or anyone's, to a module."""

from __future__ import annotations

from wia_compiler.base.source import Source
from wia_compiler.simulators.ptx.calls import with_calls
from wia_compiler.simulators.ptx.cursor import Cursor
from wia_compiler.simulators.ptx.parse_body import parse_body
from wia_compiler.simulators.ptx.parse_variables import parse_variables
from wia_compiler.simulators.ptx.syntax import Entry, Function, Module, Variable

_LINKING = (".visible", ".weak", ".extern", ".common")
_SPACES = (".global", ".const", ".shared")


def parse_ptx(source: Source) -> Module:
    """The module that a PTX text holds.

    Raises ``CompileError`` with the line of what cannot be read. Debug sections are left out;
    device functions (``.func``) stand where an entry calls them (see ``calls``).
    """
    return _Reader(source).module()


class _Reader:
    def __init__(self, source: Source):
        self.cursor = Cursor(source)
        self.version = self.target = ""
        self.entries: dict[str, Entry] = {}
        self.functions: dict[str, Function] = {}
        self.variables: list[Variable] = []
        self.files: dict[int, str] = {}

    def module(self) -> Module:
        while self.cursor.token.kind != "end":
            self._item()
        cursor = self.cursor
        if not self.version:
            cursor.fail("the text has no .version line", hint="PTX begins with e.g. .version 7.8")
        return Module(
            cursor.source,
            self.version,
            self.target,
            {
                name: with_calls(entry, self.functions, cursor.source)
                for name, entry in self.entries.items()
            },
            tuple(self.variables),
            self.files,
        )

    def _item(self) -> None:
        cursor = self.cursor
        external = False
        while cursor.token.text in _LINKING:
            external |= cursor.take().text == ".extern"
        token = cursor.token
        match token.text:
            case ".version":
                cursor.take()
                self.version = cursor.take().text
            case ".target":
                cursor.take()
                self.target = cursor.take().text
                while cursor.accept(","):
                    cursor.take()
            case ".address_size":
                cursor.take()
                if cursor.integer() != 64:
                    cursor.fail("addresses of 32 bits are not simulated", token.span)
            case ".entry":
                entry = self._entry()
                self.entries[entry.name] = entry
            case ".func":
                self._function()
            case ".file":
                cursor.take()
                number = cursor.integer()
                self.files[number] = cursor.expect_kind("string", "a file name").text[1:-1]
                while cursor.accept(","):
                    cursor.integer()
            case ".section":
                cursor.take()
                cursor.take()
                cursor.skip_braces()
            case _ if token.text in _SPACES:
                self.variables += parse_variables(cursor, external=external)
            case _:
                cursor.fail(
                    f"expected .entry, .func or a variable of the module, found {cursor.found}"
                )

    def _entry(self) -> Entry:
        cursor = self.cursor
        cursor.expect(".entry")
        name = cursor.expect_kind("word", "the name of an entry")
        if name.text in self.entries:
            cursor.fail(f"entry {name.text!r} stands twice", name.span)
        parameters = self._parameters()
        max_threads, cluster = self._bounds()
        body = parse_body(cursor)
        return Entry(
            name.text,
            parameters,
            body.registers,
            tuple(body.variables),
            tuple(body.instructions),
            body.labels,
            body.tables,
            name.span,
            max_threads,
            cluster,
        )

    def _bounds(self) -> tuple[tuple[int, int, int] | None, tuple[int, int, int] | None]:
        """``.maxntid 256, 1, 1`` and what else may stand before a body: threads, clusters."""
        cursor = self.cursor
        found: tuple[int, int, int] | None = None
        cluster: tuple[int, int, int] | None = None
        while cursor.token.text != "{" and cursor.token.kind == "directive":
            directive = cursor.take().text
            numbers = cursor.numbers()
            if directive in (".maxntid", ".reqntid"):
                x, y, z = [*numbers, 1, 1, 1][:3]
                found = (x, y, z)
            elif directive == ".reqnctapercluster":
                x, y, z = [*numbers, 1, 1, 1][:3]
                cluster = (x, y, z)
        return found, cluster

    def _function(self) -> None:
        """A device function; one without a body is only announced."""
        cursor = self.cursor
        cursor.expect(".func")
        results = self._parameters()
        name = cursor.expect_kind("word", "the name of a function")
        parameters = self._parameters()
        while cursor.token.text not in ("{", ";") and cursor.token.kind != "end":
            cursor.take()
        if cursor.accept(";"):
            return
        body = parse_body(cursor)
        self.functions[name.text] = Function(
            name.text,
            results,
            parameters,
            body.registers,
            tuple(body.variables),
            tuple(body.instructions),
            body.labels,
            body.tables,
        )

    def _parameters(self) -> tuple[Variable, ...]:
        """A list in parentheses, or none."""
        cursor = self.cursor
        if not cursor.accept("("):
            return ()
        groups = cursor.listed(lambda: parse_variables(cursor, end=""), ")")
        return tuple(each for group in groups for each in group)

"""One function or snippet while it is being read: what its names are, and what it accesses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.reading import CppText
from wia_compiler.frontend.cpp.types import CppType
from wia_compiler.frontend.cpp.values import Typed
from wia_compiler.frontend.problems import Problems

if TYPE_CHECKING:
    from tree_sitter import Node

Kind = Literal["scalar", "array", "index", "size"]


@dataclass(frozen=True)
class Variable:
    """What a name of the text stands for.

    ``spelling`` is its name in the tree, another one where an inner name hides it. An ``index`` is
    the variable of a loop, a ``size`` that of an array's axis; ``is_local`` tells what the body
    declares from what comes from outside, ``is_fixed`` what nothing changes, ``is_natural`` what
    is never negative. ``rank`` counts the axes of an array; ``value`` is what the name is short for
    in a function that is written out where it is called.
    """

    name: str
    spelling: str
    kind: Kind
    type: CppType
    rank: int = 0
    is_local: bool = False
    is_fixed: bool = False
    is_natural: bool = False
    value: Typed | None = None


@dataclass(frozen=True)
class Loop:
    """A loop around an access: its variable runs from ``start`` below ``stop`` by ``step``."""

    name: str
    start: syntax.Expression
    stop: syntax.Expression
    step: int | None


@dataclass(frozen=True)
class Access:
    """One read or write of an element, in the order of the text.

    ``path`` numbers the blocks around it from the outermost; ``is_conditional`` says whether a
    branch or a ``while`` is among them. A call accesses whole arrays: ``subscripts`` is ``None``.
    """

    array: str
    subscripts: tuple[syntax.Expression, ...] | None
    is_write: bool
    loops: tuple[Loop, ...]
    path: tuple[int, ...]
    is_conditional: bool
    node: Node


@dataclass(frozen=True)
class Callee:
    """A function of the text that later ones call: its parameters in order and what it gives.

    ``definition`` is its node; a function whose parameters are numbers is written out where it is
    called. ``roles`` says of each parameter what it is in the kernel: ``input``, ``output``,
    ``inout``, ``scalar``, or ``size`` for an int that is the size of an array; ``types`` are the
    types of its elements or of itself.
    """

    name: str
    definition: Node
    roles: tuple[str, ...]
    types: tuple[CppType, ...]
    result: CppType | None


@dataclass
class Context:
    """What reading statements and expressions needs to know, and leaves behind.

    ``name`` is the function's, ``free`` finds names that nothing declares, ``result`` is the type
    that it returns, ``counters`` what only loops count with, ``outputs`` numbers that are results.
    ``accesses`` are those of arrays from outside, ``returns`` the returns with a value, ``spelled``
    all names of the tree, ``changed`` those of variables that are set after their declaration.
    """

    text: CppText
    constants: Mapping[str, Typed]
    callees: Mapping[str, Callee]
    free: Callable[[Node, int, Context], Variable | None]
    name: str = ""
    result: CppType | None = None
    counters: Collection[str] = ()
    outputs: Collection[str] = ()
    scopes: list[dict[str, Variable]] = field(default_factory=list[dict[str, Variable]])
    block: list[syntax.Statement] = field(default_factory=list[syntax.Statement])
    loops: tuple[Loop, ...] = ()
    path: tuple[int, ...] = (0,)
    is_conditional: bool = False
    accesses: list[Access] = field(default_factory=list[Access])
    returns: list[Node] = field(default_factory=list["Node"])
    spelled: set[str] = field(default_factory=set[str])
    changed: set[str] = field(default_factory=set[str])
    _blocks: int = 0

    def find(self, name: str) -> Variable | None:
        """The innermost variable of that name."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return None

    def declare(self, variable: Variable) -> Variable:
        """Enter a name in the innermost scope, under a spelling that no outer one has."""
        variable = replace(variable, spelling=self.spelling(variable.name))
        self.scopes[-1][variable.name] = variable
        return variable

    def spelling(self, name: str) -> str:
        """The name itself, or one like it where something outside of the block has it."""
        seen = {variable.spelling for scope in self.scopes for variable in scope.values()}
        if name in seen or name in self.constants:
            return self.fresh(name)
        self.spelled.add(name)
        return name

    def fresh(self, name: str, *, plain: bool = False) -> str:
        """A spelling that nothing has yet, from a name; ``plain`` tries the name itself."""
        if plain and name not in self.spelled:
            self.spelled.add(name)
            return name
        number = 1
        while f"{name}_{number}" in self.spelled:
            number += 1
        self.spelled.add(f"{name}_{number}")
        return f"{name}_{number}"

    @contextmanager
    def silently(self) -> Generator[None]:
        """Look at an expression only: what is found wrong and what is accessed is forgotten."""
        kept = (self.text, self.accesses, self.block)
        self.text = CppText(self.text.source, Problems(self.text.source))
        self.accesses, self.block = [], []
        try:
            yield
        finally:
            self.text, self.accesses, self.block = kept

    @contextmanager
    def nested(
        self, *, loop: Loop | None = None, conditional: bool = False
    ) -> Generator[list[syntax.Statement]]:
        """A block with a scope of its own; gives the list that its statements go to."""
        self._blocks += 1
        kept = (self.block, self.loops, self.path, self.is_conditional)
        self.block = []
        self.loops = (*self.loops, loop) if loop is not None else self.loops
        self.path = (*self.path, self._blocks)
        self.is_conditional = self.is_conditional or conditional
        self.scopes.append({})
        try:
            yield self.block
        finally:
            self.scopes.pop()
            self.block, self.loops, self.path, self.is_conditional = kept

    def note(self, node: Node, array: Variable, subscripts: tuple[Typed, ...], write: bool) -> None:
        """Remember an access of an array from outside."""
        if array.is_local:
            return
        self.accesses.append(
            Access(
                array.spelling,
                tuple(each.node for each in subscripts),
                write,
                self.loops,
                self.path,
                self.is_conditional,
                node,
            )
        )

    def note_whole(self, node: Node, array: Variable, *, write: bool) -> None:
        """Remember that a call reads or writes every element of an array."""
        if not array.is_local:
            self.accesses.append(
                Access(
                    array.spelling, None, write, self.loops, self.path, self.is_conditional, node
                )
            )

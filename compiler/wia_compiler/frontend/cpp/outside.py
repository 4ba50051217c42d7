"""What comes from outside of a body: arrays and numbers, and which of them a call passes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.bound import bound_variable
from wia_compiler.frontend.cpp.context import Callee, Context, Variable
from wia_compiler.frontend.cpp.loops import counters, names_set
from wia_compiler.frontend.cpp.reading import CppText
from wia_compiler.frontend.cpp.roles import Role, role_of
from wia_compiler.frontend.cpp.sizes import Dim, extents
from wia_compiler.frontend.cpp.statements import read_statements
from wia_compiler.frontend.cpp.types import ANY, CppType
from wia_compiler.frontend.cpp.values import Typed
from wia_compiler.frontend.problems import Problems

if TYPE_CHECKING:
    from tree_sitter import Node


@dataclass(frozen=True)
class Outside:
    """A name that a body uses and does not declare.

    ``dims`` are the sizes of an array as declared: a number, the name of a size, or ``None`` where
    the text does not say. A ``place`` is a number that the body sets (``float& x``); ``counts``
    marks a whole number that may turn out to be the size of an array.
    """

    name: str
    node: Node
    kind: Literal["array", "number", "place"]
    type: CppType
    dims: tuple[Dim, ...] = ()
    counts: bool = False
    default: syntax.Number | syntax.Boolean | None = None


@dataclass
class Body:
    """The statements of a function or snippet, and what they say about what is outside."""

    text: CppText
    nodes: Sequence[Node]
    outside: Sequence[Outside]
    constants: Mapping[str, Typed]
    callees: Mapping[str, Callee]
    bindings: Mapping[str, object]
    result: CppType | None = None
    outputs: Collection[str] = ()
    dims: dict[str, tuple[Dim, ...]] = field(default_factory=dict[str, tuple[Dim, ...]])
    roles: dict[str, Role] = field(default_factory=dict[str, Role])
    sizes: frozenset[str] = frozenset()
    statements: list[syntax.Statement] = field(default_factory=list[syntax.Statement])
    returns: list[Node] = field(default_factory=list["Node"])

    def read(self) -> None:
        """Read the statements twice: what is a size is known once all accesses are.

        Faults go to ``text``; afterwards ``statements``, ``dims``, ``roles`` and ``sizes`` hold.
        """
        changed = {name for node in self.nodes for name in names_set(node)}
        candidates = frozenset(
            each.name for each in self.outside if each.counts and each.name not in changed
        )
        trial = replace(self, text=CppText(self.text.source, Problems(self.text.source)))
        context = trial._pass(candidates)
        named = {d for o in self.outside for d in o.dims if isinstance(d, str)}
        self._find_dims(context, candidates)
        self.sizes = frozenset(
            dim
            for name, dims in self.dims.items()
            for dim in dims
            if isinstance(dim, str) and self._is_passed(name, context)
        ) | (named & candidates)
        context = self._pass(self.sizes)
        self._find_roles(context)
        self.returns = context.returns
        self.statements = context.block

    def _pass(self, sizes: frozenset[str]) -> Context:
        roots = list(self.nodes)
        context = Context(
            self.text,
            self.constants,
            self.callees,
            lambda node, rank, context: bound_variable(node, rank, context, self.bindings),
            self.result,
            counters(roots),
            outputs=self.outputs,
        )
        context.scopes.append({each.name: _variable(each, sizes) for each in self.outside})
        context.spelled |= {each.name for each in self.outside}
        context.scopes.append({})
        read_statements(roots, context)
        return context

    def _is_passed(self, name: str, context: Context) -> bool:
        """Whether an array comes in, so that its sizes are known."""
        return not any(access.is_write for access in context.accesses if access.array == name) or (
            role_of(name, context.accesses, self.dims[name], context.changed) == "inout"
        )

    def _find_dims(self, context: Context, candidates: frozenset[str]) -> None:
        for each in self.outside:
            if each.kind != "array":
                continue
            found = extents(context.accesses, each.name, len(each.dims), candidates)
            written = any(a.is_write for a in context.accesses if a.array == each.name)
            self.dims[each.name] = tuple(
                declared if declared is not None else _dim(extent.names, extent.number, written)
                for declared, extent in zip(each.dims, found, strict=True)
            )

    def _find_roles(self, context: Context) -> None:
        for each in self.outside:
            if each.kind == "array":
                dims = self.dims[each.name]
                self.roles[each.name] = role_of(each.name, context.accesses, dims, context.changed)
                if self.roles[each.name] == "output":
                    self._check_output(each, dims)

    def _check_output(self, array: Outside, dims: tuple[Dim, ...]) -> None:
        """The sizes of an output have to follow from the arguments."""
        for axis, dim in enumerate(dims):
            where = f"axis {axis} of {array.name!r}" if len(dims) > 1 else f"{array.name!r}"
            if dim is None:
                self.text.report(
                    array.node,
                    f"the size of {where} is not known, and a kernel makes the arrays it writes",
                    f"declare it in a function, void f(…, float {array.name}"
                    f"{'[N]' * len(dims)}), or index it with a loop that runs up to its size",
                )
            elif isinstance(dim, str) and dim not in self.sizes:
                self.text.report(
                    array.node,
                    f"{where} has {dim} elements, and no array that comes in has that size",
                    f"give {dim} a value: #define {dim} 1000, or bindings={{{dim!r}: 1000}}",
                )

    def parameter(self, outside: Outside) -> syntax.Parameter | None:
        """The kernel's parameter of a name; sizes are none."""
        span = self.text.span(outside.node)
        word = syntax.Word(outside.name, span)
        if outside.kind == "array":
            dims = self.dims[outside.name]
            entries = [syntax.Word("?" if dim is None else str(dim), span) for dim in dims]
            entries += [] if outside.type == ANY else [syntax.Word(outside.type, span)]
            type_ = syntax.TypeName(syntax.Word("tensor", span), tuple(entries), span)
            return syntax.Parameter(self.roles[outside.name], word, type_, None, span)
        if outside.name in self.sizes:
            return None
        type_ = syntax.TypeName(syntax.Word(outside.type, span), None, span)
        role: Role | None = "output" if outside.kind == "place" else None
        return syntax.Parameter(role, word, type_, outside.default, span)


def _variable(outside: Outside, sizes: frozenset[str]) -> Variable:
    if outside.kind == "array":
        return Variable(outside.name, outside.name, "array", outside.type, len(outside.dims))
    if outside.name in sizes:
        return Variable(outside.name, outside.name, "size", "i64", is_fixed=True, is_natural=True)
    return Variable(
        outside.name, outside.name, "scalar", outside.type, is_fixed=outside.kind == "number"
    )


def _dim(names: Sequence[str], number: int | None, written: bool) -> Dim:
    """A size by the accesses: the one name that indices run up to, else a number for an output."""
    if len(names) == 1:
        return names[0]
    return number if written and not names else None


def text_span(text: CppText, nodes: Sequence[Node]) -> Span:
    """What the statements of a snippet cover."""
    return text.span(nodes[0]).cover(text.span(nodes[-1]))

"""What comes from outside of a body: arrays and numbers, and which of them a call passes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.bound import bound_variable
from wia_compiler.frontend.cpp.context import Access, Callee, Context, Variable
from wia_compiler.frontend.cpp.loops import counters, names_set
from wia_compiler.frontend.cpp.reading import CppText, text_of
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
    marks a whole number that may turn out to be the size of an array, ``is_const`` what the body
    must not set.
    """

    name: str
    node: Node
    kind: Literal["array", "number", "place"]
    type: CppType
    dims: tuple[Dim, ...] = ()
    counts: bool = False
    is_const: bool = False
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
    name: str = ""
    result: CppType | None = None
    outputs: Collection[str] = ()
    dims: dict[str, tuple[Dim, ...]] = field(default_factory=dict[str, tuple[Dim, ...]])
    roles: dict[str, Role] = field(default_factory=dict[str, Role])
    sizes: frozenset[str] = frozenset()
    accesses: dict[str, list[Access]] = field(default_factory=dict[str, list[Access]])
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
        faults = len(self.text.problems)
        context = self._pass(self.sizes)
        self._find_roles(context, check=len(self.text.problems) == faults)
        self.returns = context.returns
        self.statements = context.block

    def _pass(self, sizes: frozenset[str]) -> Context:
        roots = list(self.nodes)
        context = Context(
            self.text,
            self.constants,
            self.callees,
            lambda node, rank, context: bound_variable(node, rank, context, self.bindings),
            self.name,
            self.result,
            counters(roots),
            outputs=self.outputs,
        )
        context.scopes.append({each.name: _variable(each, sizes) for each in self.outside})
        context.spelled |= {each.name for each in self.outside}
        context.scopes.append({})
        self._copy_what_is_set(context)
        read_statements(roots, context)
        return context

    def _copy_what_is_set(self, context: Context) -> None:
        """A number that comes in by value and is set: a variable that begins with that value."""
        changed = {name for node in self.nodes for name in names_set(node)}
        for each in self.outside:
            if each.kind != "number" or each.is_const or each.name not in changed:
                continue
            span = self.text.span(each.node)
            copy = Variable(each.name, context.fresh(each.name), "scalar", each.type, is_local=True)
            context.scopes[-1][each.name] = copy
            type_ = syntax.TypeName(syntax.Word(each.type, span), None, span)
            word, value = syntax.Word(copy.spelling, span), syntax.Name(each.name, span)
            context.block.append(syntax.Let((word,), (value,), span, (type_,)))

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

    def _find_roles(self, context: Context, *, check: bool) -> None:
        for each in self.outside:
            if each.kind == "array":
                self.accesses[each.name] = [a for a in context.accesses if a.array == each.name]
                dims = self.dims[each.name]
                self.roles[each.name] = role_of(each.name, context.accesses, dims, context.changed)
                if check and self.roles[each.name] == "output":
                    self._check_output(each, dims)

    def _check_output(self, array: Outside, dims: tuple[Dim, ...]) -> None:
        """The sizes of an output have to follow from the arguments."""
        for axis, dim in enumerate(dims):
            where = f"axis {axis} of {array.name!r}" if len(dims) > 1 else f"{array.name!r}"
            if dim is None:
                self.text.report(
                    array.node,
                    f"the size of {where} is not known, and a kernel makes the arrays it writes",
                    self._how_to_say_its_size(array, len(dims)),
                )
            elif isinstance(dim, str) and dim not in self.sizes:
                self.text.report(
                    array.node,
                    f"{where} has {dim} elements, and no array that comes in has that size",
                    f"give {dim} a value: #define {dim} 1000, or bindings={{{dim!r}: 1000}}",
                )

    def _how_to_say_its_size(self, array: Outside, rank: int) -> str:
        name = array.name
        if rank == 1 and any("*" in text_of(access.node) for access in self.accesses[name]):
            return f"give each axis an index of its own: float {name}[M][N] and {name}[i][j]"
        declared = f"{name}{'[N]' * rank}"
        return f"declare it in a function: void f(…, float {declared}, int N)"

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
        return Variable(
            outside.name,
            outside.name,
            "array",
            outside.type,
            len(outside.dims),
            is_fixed=outside.is_const,
        )
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

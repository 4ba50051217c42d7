"""The tree of a program as it was written: frozen nodes, each with the span of its text."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Literal, TypeAlias, cast

from wia_compiler.base.source import Source, Span
from wia_compiler.frontend.syntax_expressions import Argument as Argument
from wia_compiler.frontend.syntax_expressions import Binary as Binary
from wia_compiler.frontend.syntax_expressions import Boolean as Boolean
from wia_compiler.frontend.syntax_expressions import Call as Call
from wia_compiler.frontend.syntax_expressions import Conditional as Conditional
from wia_compiler.frontend.syntax_expressions import Expression as Expression
from wia_compiler.frontend.syntax_expressions import Group as Group
from wia_compiler.frontend.syntax_expressions import Index as Index
from wia_compiler.frontend.syntax_expressions import ListOf as ListOf
from wia_compiler.frontend.syntax_expressions import Name as Name
from wia_compiler.frontend.syntax_expressions import Number as Number
from wia_compiler.frontend.syntax_expressions import Slice as Slice
from wia_compiler.frontend.syntax_expressions import String as String
from wia_compiler.frontend.syntax_expressions import Unary as Unary
from wia_compiler.frontend.syntax_expressions import Value as Value
from wia_compiler.frontend.syntax_expressions import Word as Word


@dataclass(frozen=True, slots=True)
class TypeName:
    """``name`` or ``name<entries>``; an entry is a size, a run of sizes (``4x8xf32``) or a name."""

    name: Word
    entries: tuple[Word, ...] | None
    span: Span


@dataclass(frozen=True, slots=True)
class Parameter:
    """``role name: type = default``; ``role`` is ``None`` where the text has none."""

    role: Literal["input", "output", "inout"] | None
    name: Word
    type: TypeName
    default: Number | Boolean | None
    span: Span


@dataclass(frozen=True, slots=True)
class Assign:
    """``targets operator values;`` where the operator is ``=``, ``+=``, ``-=``, ``*=`` or ``/=``.

    A bare ``expression;`` has no operator and no values.
    """

    targets: tuple[Expression, ...]
    operator: Word | None
    values: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Let:
    """``let names = values;`` or ``let name: type = value;``.

    ``types`` has one entry a name, ``None`` where the text gives no type. ``values`` is empty for
    ``let name: type;``, a local tensor or scalar of zeros.
    """

    names: tuple[Word, ...]
    values: tuple[Expression, ...]
    span: Span
    types: tuple[TypeName | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Return:
    """``return values;``."""

    values: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class If:
    """``if condition { … } else { … }``; ``keyword`` is the span of the word."""

    condition: Expression
    body: tuple[Statement, ...]
    otherwise: tuple[Statement, ...]
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class For:
    """``for variable in start..stop step s { … }``; ``keyword`` is the span of the word."""

    variable: Word
    start: Expression
    stop: Expression
    step: Expression | None
    body: tuple[Statement, ...]
    keyword: Span
    span: Span


@dataclass(frozen=True, slots=True)
class While:
    """``while condition { … }``; ``keyword`` is the span of the word."""

    condition: Expression
    body: tuple[Statement, ...]
    keyword: Span
    span: Span


Statement: TypeAlias = Assign | Let | Return | If | For | While


@dataclass(frozen=True, slots=True)
class Kernel:
    """``kernel name(parameters) { body }``.

    A ``snippet`` is a bare list of statements: its free names become its parameters.
    """

    name: Word
    parameters: tuple[Parameter, ...]
    body: tuple[Statement, ...]
    span: Span
    snippet: bool = False


@dataclass(frozen=True, slots=True)
class Signature:
    """``: (operands) -> results`` at the end of a line, or ``: results`` (``operands`` is None)."""

    operands: tuple[TypeName, ...] | None
    results: tuple[TypeName, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Operation:
    """``%a, %b = value : signature``, one line of the IR notation."""

    results: tuple[Word, ...]
    value: Expression
    signature: Signature | None
    span: Span


@dataclass(frozen=True, slots=True)
class Target:
    """``^label(arguments)``, where a branch goes; ``label`` is without the ``^``."""

    label: Word
    arguments: tuple[Expression, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Branch:
    """``br target``."""

    target: Target
    span: Span


@dataclass(frozen=True, slots=True)
class ConditionalBranch:
    """``cond_br condition, first, second``: ``first`` where the condition holds."""

    condition: Expression
    first: Target
    second: Target
    span: Span


Line: TypeAlias = Operation | Branch | ConditionalBranch | Return


@dataclass(frozen=True, slots=True)
class Block:
    """``^label(parameters):`` and the lines below it; the entry has no label."""

    label: Word | None
    parameters: tuple[Parameter, ...]
    lines: tuple[Line, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Function:
    """``func @name(parameters) -> results { blocks }``.

    ``results`` is ``None`` where the text gives none, ``blocks`` where it has no braces. A
    ``snippet`` is a bare list of lines: its free values become its parameters.
    """

    name: Word
    parameters: tuple[Parameter, ...]
    results: tuple[TypeName, ...] | None
    blocks: tuple[Block, ...] | None
    span: Span
    snippet: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """``pattern name { match: lines rewrite: lines }``."""

    name: Word
    match: tuple[Block, ...]
    rewrite: tuple[Block, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class DirectiveEntry:
    """``i 128``, ``A``, ``4``: an axis or array of a schedule line and its number.

    ``at`` is the loop of ``B at k.0``, or the second name of ``P i``.
    """

    name: Word | None
    number: Number | None
    span: Span
    at: Word | None = None


@dataclass(frozen=True, slots=True)
class Directive:
    """``tile i 128, j 128 @block``: one line of a schedule; ``level`` is without its mark."""

    name: Word
    entries: tuple[DirectiveEntry, ...]
    span: Span
    level: Word | None = None


@dataclass(frozen=True, slots=True)
class Schedule:
    """``schedule kernel { directives }``; ``kernel`` may be ``kernel.nest``."""

    kernel: Word
    directives: tuple[Directive, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Program:
    """What a source holds, each sort in text order."""

    source: Source
    kernels: tuple[Kernel, ...]
    functions: tuple[Function, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    schedules: tuple[Schedule, ...] = ()


def walk(*roots: object) -> Iterator[object]:
    """Every node under ``roots``, themselves included, in text order; no recursion."""
    stack = list(reversed(roots))
    while stack:
        node = stack.pop()
        if isinstance(node, tuple) and not isinstance(node, Span):
            stack.extend(reversed(cast("tuple[object, ...]", node)))
        elif is_dataclass(node) and not isinstance(node, Source):
            yield node
            stack.extend(getattr(node, name) for name in reversed(_field_names(type(node))))


@functools.cache
def _field_names(node_type: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(node_type) if field.name != "span")

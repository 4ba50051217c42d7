"""One Python function while it is being read: its parameters, its variables, its statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.known_names import KnownNames
from wia_compiler.frontend.python.python_source import PythonText

Entries = tuple[syntax.Word, ...]


@dataclass(frozen=True)
class Array:
    """A parameter that is an array: axes and dtype of its type, ``None`` where it says none.

    ``axes`` are sizes as words: names, numbers, or ``?``.
    """

    axes: Entries | None
    dtype: str | None


@dataclass
class Scope:
    """What reading a function needs to know, and the statements that it makes.

    ``name`` is the function's.
    ``arrays`` are the parameters that are arrays, ``numbers`` the others; ``variables`` what the
    body sets. ``whole`` are names that stand for whole numbers: variables of loops, and sizes.
    ``aliases`` are variables that stand for the size of an axis (``M, K = A.shape``). ``callees``
    collects the kernels that it calls.
    """

    text: PythonText
    known: KnownNames
    is_kernel: Callable[[Any], bool]
    name: str
    arrays: dict[str, Array] = field(default_factory=dict[str, Array])
    numbers: set[str] = field(default_factory=set[str])
    variables: set[str] = field(default_factory=set[str])
    whole: set[str] = field(default_factory=set[str])
    aliases: dict[str, syntax.Expression] = field(default_factory=dict[str, syntax.Expression])
    callees: dict[str, Any] = field(default_factory=dict[str, Any])
    block: list[syntax.Statement] = field(default_factory=list[syntax.Statement])

    @property
    def local(self) -> set[str]:
        """Every name of the function itself."""
        return {*self.arrays, *self.numbers, *self.variables, *self.aliases}

    @contextmanager
    def nested(self) -> Generator[list[syntax.Statement]]:
        """A block of its own; gives the list that its statements go to."""
        kept, self.block = self.block, []
        try:
            yield self.block
        finally:
            self.block = kept

    def fresh(self, name: str) -> str:
        """A variable's name that nothing has yet."""
        number = 1
        while f"{name}_{number}" in self.local:
            number += 1
        self.variables.add(f"{name}_{number}")
        return f"{name}_{number}"

    def check_name(self, name: str, node: ast.AST) -> None:
        """Refuse a name that the IR cannot spell."""
        if not name.isascii():
            raise self.text.refuse(
                node, f"{name!r} is no name of the IR", "use letters from a to z"
            )

    def axis(self, node: ast.expr, place: int) -> syntax.Expression:
        """The size of an axis of a parameter: a name of the language, or a number."""
        name = node.id if isinstance(node, ast.Name) else ""
        array = self.arrays.get(name)
        if array is None:
            raise self.text.refuse(
                node,
                f"only parameters have a shape here, found {ast.unparse(node)}",
                "read the sizes of the parameters that it comes from",
            )
        axes = array.axes
        if axes is None:
            raise self.text.refuse(
                node,
                f"the text does not say how many axes {name} has",
                f'annotate it: {name}: "tensor<M, N>"',
            )
        if not -len(axes) <= place < len(axes):
            raise self.text.refuse(
                node,
                f"{name} has {len(axes)} axes, found axis {place}",
                f"write {name}.shape[0] … {name}.shape[{len(axes) - 1}]",
            )
        word = axes[place]
        span = self.text.span(node)
        if word.text == "?":
            raise self.text.refuse(
                node,
                f"axis {place} of {name} has no name",
                f'name it in the annotation: {name}: "tensor<M, N>"',
            )
        if word.text.isdecimal():
            return syntax.Number(int(word.text), word.text, span)
        return syntax.Name(word.text, span)


def assign(
    target: syntax.Expression, value: syntax.Expression, span: Span, operator: str = "="
) -> syntax.Assign:
    """``target = value;``."""
    return syntax.Assign((target,), syntax.Word(operator, span), (value,), span)

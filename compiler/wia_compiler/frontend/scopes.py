"""Which names a statement may set, and where a name of a block of statements ends."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from xdsl.ir import SSAValue

from wia_compiler.base.dtypes import DTYPES
from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body, give_name
from wia_compiler.frontend.suggestions import with_article


def bind_name(name: str, value: SSAValue | None, body: Body, span: Span) -> None:
    """Let a name stand for a value from here on."""
    if name not in body.values:
        body.made[name] = span.line
    body.values[name] = value
    body.unset.pop(name, None)
    if value is not None:
        give_name(value, name)


def may_set(name: str, span: Span, body: Body) -> bool:
    """Whether an assignment may set a name; the fault is reported where it may not."""
    role = next((p.role for p in body.signature.parameters if p.name == name), None)
    if name in DTYPES:
        body.report(f"{name!r} is a dtype", span, "give the value another name")
    elif role in ("input", "scalar"):
        body.report(
            f"{name!r} is an input and cannot be set",
            span,
            f"declare it inout {name}, or use another name",
        )
    elif name in body.loops:
        body.report(
            f"{name!r} is the variable of the loop of line {body.loops[name]} and cannot be set",
            span,
            "use a while loop, or another name",
        )
    elif role is None and body.has_size(name):
        body.report(f"{name!r} is a size and cannot be set", span, "use another name")
    else:
        return True
    return False


def may_make(name: syntax.Word, body: Body, *, anew: bool = False) -> bool:
    """Whether ``let`` or a loop may make a name; the fault is reported where it may not.

    ``anew``: a name of the same block cannot be made again, as ``let`` can.
    """
    text = name.text
    role = next((p.role for p in body.signature.parameters if p.name == text), None)
    if text in DTYPES:
        body.report(f"{text!r} is a dtype", name.span, "give the value another name")
    elif role is not None and role != "bound":
        body.report(
            f"{text!r} is {with_article(role)} of the kernel, let would hide it",
            name.span,
            f"write {text} = …; without let, or use another name",
        )
        body.values.setdefault(text, None)
    elif body.has_size(text):
        body.report(f"{text!r} is a size, this would hide it", name.span, "use another name")
    elif text in body.values and (anew or text not in body.made):
        body.report(
            f"{text!r} hides the {text!r} of the lines around it",
            name.span,
            f"use another name, or set that one: {text} = …;",
        )
    else:
        return True
    return False


@contextmanager
def block_of_statements(body: Body) -> Generator[None]:
    """A block in braces: the names that ``let`` makes in it end with it."""
    around, body.made = body.made, {}
    try:
        yield
    finally:
        body.made = around


def drop_lets(
    statements: Sequence[syntax.Statement], before: Mapping[str, SSAValue | None], body: Body
) -> None:
    """Forget the names that ``let`` made in a block; those of ``before`` stay."""
    for statement in statements:
        names = statement.names if isinstance(statement, syntax.Let) else ()
        for name in names:
            if name.text not in before and name.text in body.values:
                del body.values[name.text]
                body.unset[name.text] = (
                    f"{name.text!r} ends with the braces around line {statement.span.line}"
                )


def names_set(statements: Sequence[syntax.Statement]) -> list[str]:
    """The names that statements set, blocks inside them included, in order of the text."""
    found: dict[str, None] = {}
    for node in syntax.walk(*statements):
        if not isinstance(node, syntax.Assign) or node.operator is None:
            continue
        for target in node.targets:
            base = target
            while isinstance(base, syntax.Index | syntax.Group):
                base = base.base if isinstance(base, syntax.Index) else base.inner
            if isinstance(base, syntax.Name):
                found[base.text] = None
    return list(found)

"""Kernels of several texts as one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

from wia_compiler.base.source import Source, Span
from wia_compiler.frontend import syntax

T = TypeVar("T")


def with_callees(program: syntax.Program, callees: Sequence[syntax.Program]) -> syntax.Program:
    """The kernels of ``program`` and those of the programs that it calls into, as one program.

    A program of another text is written below the first one, and its spans go with it, so that
    every span points to the words it stands for. A kernel that is there already stays as it is.
    """
    merged = program
    for callee in callees:
        known = {each.name.text for each in (*merged.kernels, *merged.functions)}
        down = 0
        source = merged.source
        if callee.source.text != source.text:
            title = f"\n\n# {callee.source.name}\n"
            down = source.text.count("\n") + title.count("\n")
            source = Source(f"{source.text}{title}{callee.source.text}", source.name)
        merged = replace(
            merged,
            source=source,
            kernels=(
                *merged.kernels,
                *(moved(k, down) for k in callee.kernels if k.name.text not in known),
            ),
            functions=(
                *merged.functions,
                *(moved(f, down) for f in callee.functions if f.name.text not in known),
            ),
        )
    return merged


def moved(node: T, down: int) -> T:
    """A tree with every span some lines further down."""
    return _moved(node, down) if down else node


def _moved(node: Any, down: int) -> Any:
    if isinstance(node, Span):
        return Span(node.line + down, node.column, node.end_line + down, node.end_column)
    if isinstance(node, tuple):
        return tuple(_moved(each, down) for each in node)  # pyright: ignore[reportUnknownVariableType]
    if is_dataclass(node) and not isinstance(node, type):
        changed = {each.name: _moved(getattr(node, each.name), down) for each in fields(node)}
        return replace(node, **changed)
    return node

"""Bare lines of a text as a func: what its free values and its results are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wia_compiler.base.source import Span
from wia_compiler.frontend import syntax
from wia_compiler.frontend.bound_names import BoundNames


def complete_snippet(function: syntax.Function, bound: BoundNames) -> syntax.Function:
    """A snippet with parameters and a return.

    ``%0 = conv2d(%x, %w)  %1 = relu(%0)`` becomes ``func @snippet(%x: tensor, %w: tensor) { …
    return %1 }``: values that are read and not set come in, in order, unless they are bound; those
    that are set and not read go out.
    """
    blocks = function.blocks
    if not blocks:
        return function
    free = [each for each in free_values(blocks) if bound.find(each.text) is None]
    parameters = tuple(tensor_parameter(each.text, each.span) for each in free)
    last = blocks[-1]
    if not last.lines or isinstance(last.lines[-1], syntax.Operation):
        blocks = (*blocks[:-1], returning(last, unread_values(blocks)))
    return replace(function, parameters=parameters, blocks=blocks)


def tensor_parameter(name: str, span: Span) -> syntax.Parameter:
    """``%name: tensor``."""
    declared = syntax.TypeName(syntax.Word("tensor", span), None, span)
    return syntax.Parameter(None, syntax.Word(name, span), declared, None, span)


def returning(block: syntax.Block, words: Sequence[syntax.Word]) -> syntax.Block:
    """The block with a return of these values at its end."""
    values = tuple(syntax.Value(word.text, word.span) for word in words)
    span = words[-1].span if words else block.span
    return replace(block, lines=(*block.lines, syntax.Return(values, span)))


def free_values(blocks: Iterable[syntax.Block]) -> list[syntax.Value]:
    """The values that blocks read and do not set, each where it is read first."""
    blocks = tuple(blocks)
    known = {word.text for word in values_set(blocks)}
    known |= {parameter.name.text for block in blocks for parameter in block.parameters}
    found: dict[str, syntax.Value] = {}
    for node in syntax.walk(blocks):
        if isinstance(node, syntax.Value) and node.text not in known:
            found.setdefault(node.text, node)
    return list(found.values())


def values_set(blocks: Iterable[syntax.Block]) -> list[syntax.Word]:
    """The values that the lines of blocks set, in order."""
    lines = (line for block in blocks for line in block.lines)
    return [word for line in lines if isinstance(line, syntax.Operation) for word in line.results]


def unread_values(blocks: Sequence[syntax.Block]) -> list[syntax.Word]:
    """The values that are set and not read, in order."""
    read = {node.text for node in syntax.walk(blocks) if isinstance(node, syntax.Value)}
    return [word for word in values_set(blocks) if word.text not in read]

"""Which arrays a function reads, writes, or reads before it has written them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from wia_compiler.frontend import syntax
from wia_compiler.frontend.cpp.context import Access
from wia_compiler.frontend.cpp.sizes import Dim

Role = Literal["input", "output", "inout"]


def role_of(
    array: str, accesses: Sequence[Access], dims: Sequence[Dim], changing: Collection[str]
) -> Role:
    """``output`` where every element that is read was written before, in this very text.

    ``changing`` holds the names of variables whose values change, by which two equal subscripts
    may name two elements.
    """
    own = [access for access in accesses if access.array == array]
    writes = [place for place, access in enumerate(own) if access.is_write]
    if not writes:
        return "input"
    for place, access in enumerate(own):
        if access.is_write:
            continue
        before = [own[each] for each in writes if each < place]
        if not any(_comes_before(each, access, dims, changing) for each in before):
            return "inout"
    return "output"


def _comes_before(
    write: Access, read: Access, dims: Sequence[Dim], changing: Collection[str]
) -> bool:
    """Whether a write has surely set what is read."""
    if _writes_all(write, dims) and write.path[:2] != read.path[:2]:
        return True
    if write.subscripts is None or read.subscripts is None:
        return write.subscripts is None and not write.is_conditional and len(write.path) == 1
    same_round = read.path[: len(write.path)] == write.path
    names = {n.text for n in syntax.walk(write.subscripts) if isinstance(n, syntax.Name)}
    equal = [_text(each) for each in write.subscripts] == [_text(each) for each in read.subscripts]
    return same_round and equal and not names & set(changing)


def _writes_all(write: Access, dims: Sequence[Dim]) -> bool:
    """Whether the loops around a write run over every element, with nothing in between."""
    if write.is_conditional:
        return False
    if write.subscripts is None:
        return len(write.path) == 1
    loops = {loop.name: loop for loop in write.loops}
    names = [each.text for each in write.subscripts if isinstance(each, syntax.Name)]
    if len(set(names)) < len(write.subscripts) or set(names) != set(loops):
        return False
    for name, dim in zip(names, dims, strict=True):
        loop = loops[name]
        starts = isinstance(loop.start, syntax.Number) and loop.start.value == 0
        if not (starts and loop.step == 1 and _is(loop.stop, dim)):
            return False
    return True


def _is(node: syntax.Expression, dim: Dim) -> bool:
    if isinstance(node, syntax.Number):
        return node.value == dim
    return isinstance(node, syntax.Name) and node.text == dim


def _text(node: syntax.Expression) -> tuple[object, ...]:
    """What an index says, wherever it stands."""
    return tuple(
        each.text if isinstance(each, syntax.Name | syntax.Word | syntax.Number) else type(each)
        for each in syntax.walk(node)
        if not isinstance(each, syntax.Group)
    )

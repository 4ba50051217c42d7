"""Where an op came from: tokens and source spans, carried in MLIR locations through every pass.

Every op that the front end makes gets a token, unique in its module, beside the span of the
source text. A pass that makes an op from others gives it ``merge_locations`` of them. Two ops of
different stages are related when they share a token; that is how ``OpRow.origins`` comes about.
In MLIR text one origin is ``loc("7|3:5-3:17")``, several are ``loc(fused["…", "…"])``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import NamedTuple

from xdsl.dialects.builtin import (
    ArrayAttr,
    FusedLoc,
    LocationAttr,
    NameLoc,
    NoneAttr,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Attribute, BlockArgument, Operation

from wia_compiler.base.source import Span


class Origin(NamedTuple):
    """One op of the front end: its token and the text it was written as."""

    token: int
    span: Span | None

    def __str__(self) -> str:
        return f"{self.token}|{self.span if self.span is not None else ''}"


def location(*origins: Origin) -> LocationAttr:
    """The location that holds these origins, in order, each once."""
    unique = list(dict.fromkeys(origins))
    if not unique:
        return UnknownLoc()
    names = [_name_location(origin) for origin in unique]
    return names[0] if len(names) == 1 else FusedLoc(ArrayAttr[Attribute](names), NoneAttr())


def origins_of(op: Operation | BlockArgument) -> tuple[Origin, ...]:
    """The origins a location holds, of an op or of a block's argument; empty where unknown."""
    return _origins(op.location)


def merge_locations(ops: Iterable[Operation]) -> LocationAttr:
    """The location of an op that was made from ``ops``."""
    return location(*(origin for op in ops for origin in origins_of(op)))


def common_location(shared: LocationAttr, caller: LocationAttr) -> LocationAttr:
    """The origins of ``shared`` that ``caller`` has too; ``caller`` where there are none.

    For one caller's copy of an op of a function that several call.
    """
    known = frozenset(_origins(caller))
    common = [origin for origin in _origins(shared) if origin in known]
    return location(*common) if common else caller


def spans_of(op: Operation | BlockArgument) -> tuple[Span, ...]:
    """The source spans of an op or of a block's argument, in order, each once."""
    spans = (origin.span for origin in origins_of(op))
    return tuple(dict.fromkeys(span for span in spans if span is not None))


@functools.lru_cache(maxsize=1 << 14)
def _name_location(origin: Origin) -> NameLoc:
    return NameLoc(StringAttr(str(origin)), NoneAttr())


@functools.lru_cache(maxsize=1 << 14)
def _parse(text: str) -> Origin:
    token, _, span = text.partition("|")
    return Origin(int(token), Span.parse(span) if span else None)


def _origins(attribute: object) -> tuple[Origin, ...]:
    match attribute:
        case NameLoc():
            return (_parse(attribute.desc.data),)
        case FusedLoc():
            locations: Iterable[object] = attribute.locations  # pyright: ignore[reportAssignmentType]
            return tuple(origin for part in locations for origin in _origins(part))
        case _:
            return ()

"""What a ``pattern`` block of a text says: ops to look for, and what takes their place."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from wia_compiler.base.source import Source, Span


@dataclass(frozen=True)
class PatternDeclaration:
    """One ``pattern NAME { match: … rewrite: … }``, not specialised.

    ``match`` and ``rewrite`` are functions over the same free names, in the same order, as
    arguments named so (``!wia.tensor``); they return the values of the names that both define, in
    the same order. A call of an op ``fused_…`` that does not exist is ``wia.fuse_match`` in
    ``rewrite``. ``span`` is the pattern's name in ``source``, where faults point.
    """

    name: str
    source: Source
    span: Span
    match: FuncOp
    rewrite: FuncOp

"""Attributes that code generation asks for again and again, each made once.

xDSL verifies an attribute whenever one is made, which takes longer than all that is then done with
it. They cannot change, so that any number of ops may hold the same one.
"""

from __future__ import annotations

import functools

from xdsl.dialects.builtin import (
    I64,
    DenseArrayBase,
    IndexType,
    IntegerAttr,
    VectorType,
    i64,
)
from xdsl.ir import Attribute

_MOST = 4096
INDEX = IndexType()


@functools.lru_cache(_MOST)
def vector_type(element: Attribute, lanes: int) -> VectorType[Attribute]:
    """``vector<8xf32>``."""
    return VectorType(element, [lanes])


@functools.lru_cache(_MOST)
def index_number(value: int) -> IntegerAttr[IndexType]:
    """``7 : index``."""
    return IntegerAttr(value, INDEX)


@functools.lru_cache(_MOST)
def lane_order(lanes: tuple[int, ...]) -> DenseArrayBase[I64]:
    """The numbers of lanes that a shuffle takes: ``array<i64: 0, 8, 1, 9>``."""
    return DenseArrayBase.from_list(i64, lanes)

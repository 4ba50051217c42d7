"""The operands of an attention, head by head: sizes, places, and what a target's registers hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue

from wia_compiler.base.dtypes import DTYPES, DType
from wia_compiler.dialects.types import spec_of
from wia_compiler.dialects.wia.attention import attention_scale
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.llvm.types import strides_of
from wia_compiler.passes.nests.leaf_writer import Place

_HEAD_AXES = "bhgpqnmo"


@dataclass
class Heads:
    """The operands of one ``attention``; sizes are those of one head, ``key_rows`` of a block.

    With ``joined`` above 1 so many heads, which share keys and values, are walked as one: its
    ``rows_of_head`` are the queries of the first of them, then those of the next.
    """

    op: TensorOp
    memory: dict[str, SSAValue]
    shapes: Mapping[str, tuple[int, ...]]
    facts: TargetFacts
    key_rows: int
    joined: int = 1

    def __post_init__(self) -> None:
        self.dtype = spec_of(self.op.arguments[0].type).dtype
        self.wide = DTYPES[self.dtype.accumulator]
        self.batch = self.shapes["result"][:-2]
        self.queries, self.width = self.shapes["query"][-2:]
        self.keys, self.values = self.shapes["value"][-2:]
        self.rows_of_head = self.queries * self.joined
        self.causal = bool(self.op.values["causal"])
        self.seen_keys = min(self.keys, self.queries) if self.causal else self.keys
        self.scale = attention_scale(self.op.values, self.width)
        mask = self.op.argument("mask")
        self.mask_dtype: DType | None = spec_of(mask.type).dtype if mask is not None else None
        self.lanes = max(1, self.facts.vector_bytes // self.wide.size_bytes)
        registers = self.facts.register_capacity // max(1, self.facts.vector_bytes // 4)
        # Two vectors by so many rows take half of the registers, at most.
        self.rows = 8 if registers >= 32 else 4

    def is_dense(self, name: str) -> bool:
        """Whether neighbours along the last axis of an operand are neighbours in memory."""
        type_ = cast("MemRefType[Attribute]", self.memory[name].type)
        return strides_of(type_)[-1] == 1

    def loops(self) -> list[tuple[str, int]]:
        """Names and extents of the loops over heads, or over groups of joined ones."""
        sizes = list(self.batch)
        if self.joined > 1:
            sizes[-1] //= self.joined
        named = zip(_HEAD_AXES, sizes, strict=False)
        return [(f"{axis}.0", size) for axis, size in named if size > 1]

    def place(self, name: str, row: str, column: str) -> Place:
        """The index of an element of an operand: its head, ``row`` and ``column``; 0 along an axis
        of one element, which stretches.
        """
        index = self._index(name, row, column)
        sizes = self.shapes[name][-2:]
        own = index[-len(sizes) :]
        return [*index[:-2], *(0 if n == 1 else each for n, each in zip(sizes, own, strict=True))]

    def tile_place(self, name: str, row: str, column: str) -> Place:
        """The same for a tile: a row or column past the end of an axis is outside of the array."""
        return self._index(name, row, column)

    def _index(self, name: str, row: str, column: str) -> list[str | int]:
        leading = self.shapes[name][:-2]
        missing = len(self.batch) - len(leading)
        is_joined = self.joined > 1 and name not in ("key", "value")
        place: list[str | int] = []
        for axis, size in enumerate(leading, start=missing):
            extent = self.batch[axis]
            loop = f"{_HEAD_AXES[axis]}0"
            if axis == len(self.batch) - 1 and self.joined > 1:
                extent //= self.joined
                if is_joined and size > 1:
                    first = f"{loop} * {self.joined} + " if extent > 1 else ""
                    place.append(f"{first}({row}) // {self.queries}")
                    continue
            # With enable_gqa a key head serves several query heads in a row.
            serves = extent // size
            place.append(0 if size == 1 else loop if serves == 1 else f"{loop} // {serves}")
        return [*place, f"({row}) % {self.queries}" if is_joined else row, column]


def joined_heads(op: TensorOp, most_rows: int) -> int:
    """How many heads of an ``attention`` are walked as one: they share keys, each has few queries.

    1 where the queries of a head are ``most_rows`` or more: they fill tiles alone.
    """
    query, key, value = (spec_of(each.type).shape for each in op.arguments[:3])
    batch = op.result_spec.shape[:-2]
    if not batch or query[-2] >= most_rows:
        return 1
    heads = {shape[-3] if len(shape) > 2 else 1 for shape in (key, value)}
    if len(heads) > 1 or (len(query) > 2 and query[-3] != batch[-1]) or len(query) < 3:
        return 1
    return batch[-1] // heads.pop()

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
    """The operands of one ``attention``; sizes are those of one head, ``key_rows`` of a block."""

    op: TensorOp
    memory: dict[str, SSAValue]
    shapes: Mapping[str, tuple[int, ...]]
    facts: TargetFacts
    key_rows: int

    def __post_init__(self) -> None:
        self.dtype = spec_of(self.op.arguments[0].type).dtype
        self.wide = DTYPES[self.dtype.accumulator]
        self.batch = self.shapes["result"][:-2]
        self.queries, self.width = self.shapes["query"][-2:]
        self.keys, self.values = self.shapes["value"][-2:]
        self.causal = bool(self.op.values["causal"])
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
        """Names and extents of the loops over heads."""
        named = zip(_HEAD_AXES, self.batch, strict=False)
        return [(f"{axis}.0", size) for axis, size in named if size > 1]

    def place(self, name: str, *own: str) -> Place:
        """The index of an element of an operand: its head, then ``own`` along its last axes."""
        shape = self.shapes[name]
        leading, sizes = shape[:-2], shape[-2:]
        missing = len(self.batch) - len(leading)
        place: list[str | int] = []
        for axis, size in enumerate(leading, start=missing):
            loop = f"{_HEAD_AXES[axis]}0"
            # With enable_gqa a key head serves several query heads in a row.
            serves = self.batch[axis] // size
            place.append(0 if size == 1 else loop if serves == 1 else f"{loop} // {serves}")
        kept = own[len(own) - len(sizes) :]
        return [*place, *(0 if n == 1 else each for n, each in zip(sizes, kept, strict=True))]

"""The buffers of a program: made when first needed, as large as their largest use."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects import memref
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float32Type,
    IntegerAttr,
    MemRefType,
    StringAttr,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.rewriter import Rewriter

from wia_compiler.dialects.location import merge_locations
from wia_compiler.dialects.tpu.machine import SPEC
from wia_compiler.dialects.tpu.program import Memory

_ELEMENT_BYTES: dict[Attribute, int] = {BFloat16Type(): 2, Float32Type(): 4}
SLOTS = 2
"""While one slot is read, the next one is filled."""


@dataclass
class _Need:
    op: memref.AllocOp
    element: Attribute
    memory: Memory
    rows: int = 1
    columns: int = 1
    users: dict[Operation, None] = field(default_factory=dict[Operation, None])

    @property
    def type(self) -> MemRefType[Attribute]:
        return MemRefType(
            self.element, [self.rows, self.columns], memory_space=StringAttr(self.memory)
        )


class Buffers:
    """Buffers by name; all nests of a program share them."""

    def __init__(self, block: Block):
        self._block = block
        self._needs: dict[tuple[str, bool], _Need] = {}

    def bf16(self, name: str, shape: tuple[int, int], user: Operation) -> SSAValue:
        """A buffer whose tiles go to the array."""
        return self._get(name, BFloat16Type(), "vmem", shape, user)

    def f32(self, name: str, shape: tuple[int, int], user: Operation) -> SSAValue:
        """A buffer whose tiles go to the vector unit."""
        return self._get(name, Float32Type(), "vmem", shape, user)

    def accumulators(self, name: str, shape: tuple[int, int], user: Operation) -> SSAValue:
        """Sums under the array."""
        return self._get(name, Float32Type(), "accumulators", shape, user)

    def finish(self) -> None:
        """Give every buffer the size of its largest use and declare all at the top."""
        first = self._block.first_op
        for need in self._needs.values():
            need.op.location = merge_locations(need.users)
            Rewriter.replace_value_with_new_type(need.op.memref, need.type)
            if first is None:
                self._block.add_op(need.op)
            else:
                self._block.insert_op_before(need.op, first)

    @property
    def vmem_bytes(self) -> int:
        """Bytes of all slots of all buffers in VMEM."""
        return sum(
            SLOTS * need.rows * need.columns * _ELEMENT_BYTES[need.element]
            for need in self._needs.values()
            if need.memory == "vmem"
        )

    def _get(
        self,
        name: str,
        element: Attribute,
        memory: Memory,
        shape: tuple[int, int],
        user: Operation,
    ) -> SSAValue:
        # A long row and a tile in one buffer would take as many columns as one, rows as the other.
        key = (name, shape[1] > SPEC.columns)
        need = self._needs.get(key)
        if need is None:
            type = MemRefType(element, shape, memory_space=StringAttr(memory))
            op = memref.AllocOp([], [], type)
            op.attributes["slots"] = IntegerAttr(SLOTS, i64)
            op.memref.name_hint = name
            need = self._needs[key] = _Need(op, element, memory)
        need.rows, need.columns = max(need.rows, shape[0]), max(need.columns, shape[1])
        need.users[user] = None
        return need.op.memref

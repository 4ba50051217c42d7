"""Which thread and which block an instance is, written as every MLIR reads it.

xDSL 0.75 prints ``"gpu.thread_id"() <{dimension = #gpu<dim x>}>``, which MLIR has not read since
it spells the attribute ``#gpu.dim<x>``; the op's own syntax, ``gpu.thread_id x``, never changed.
"""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import IndexType
from xdsl.dialects.gpu import GPU, DimensionAttr, DimensionEnum
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, prop_def, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer

from wia_compiler.dialects.gpu_memory import AddressSpaceAttr


class _IdOp(IRDLOperation):
    """A number of this instance along one dimension of the launch."""

    dimension = prop_def(DimensionAttr)
    result = result_def(IndexType)

    def __init__(self, dimension: DimensionAttr):
        super().__init__(result_types=[IndexType()], properties={"dimension": dimension})

    def print(self, printer: Printer) -> None:
        printer.print_string(f" {self.dimension.data.value}")
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        op = cls(DimensionAttr(parser.parse_str_enum(DimensionEnum)))
        op.attributes = parser.parse_optional_attr_dict()
        return op


@irdl_op_definition
class ThreadIdOp(_IdOp):
    """``%t = gpu.thread_id x``: the thread's number in its block."""

    name = "gpu.thread_id"


@irdl_op_definition
class BlockIdOp(_IdOp):
    """``%b = gpu.block_id x``: the block's number in the grid."""

    name = "gpu.block_id"


_OURS = {op.name: op for op in (ThreadIdOp, BlockIdOp)}

Gpu = Dialect(
    GPU.name,
    [*(op for op in GPU.operations if op.name not in _OURS), *_OURS.values()],
    [*GPU.attributes, AddressSpaceAttr],
)
"""xDSL's gpu dialect with these two in the place of its own, and memory spaces."""

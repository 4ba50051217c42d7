"""The MLIR gpu op that xDSL 0.75 lacks: ``gpu.dynamic_shared_memory``, shared bytes of a launch."""

from __future__ import annotations

from typing import Self

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, i8
from xdsl.irdl import IRDLOperation, irdl_op_definition, result_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from wia_compiler.dialects.gpu_memory import WORKGROUP

DYNAMIC_SHARED_BYTES = "wia.dynamic_shared_bytes"
"""Attribute of a kernel: how many bytes its launch asks for."""
_BYTES = MemRefType(i8, [DYNAMIC_INDEX], memory_space=WORKGROUP)


@irdl_op_definition
class DynamicSharedMemoryOp(IRDLOperation):
    """``%m = gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>``.

    Where they begin: their number is the launch's, not the code's, and may be more than the 48 KiB
    that buffers allocated in the code can have. They begin at a multiple of 1024 bytes, which is
    what tiles with a swizzle of 128 bytes want; ``memref.view`` makes typed buffers of them.
    """

    name = "gpu.dynamic_shared_memory"

    memory = result_def(MemRefType)

    def __init__(self) -> None:
        super().__init__(result_types=[_BYTES])

    def print(self, printer: Printer) -> None:
        printer.print_string(" : ")
        printer.print_attribute(self.memory.type)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        parser.parse_punctuation(":")
        parser.parse_type()
        return cls()

    def verify_(self) -> None:
        if self.memory.type != _BYTES:
            raise VerifyException(f"dynamic shared memory is a {_BYTES}, found {self.memory.type}")

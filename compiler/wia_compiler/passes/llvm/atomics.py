"""memref.atomic_rmw as an LLVM instruction."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import memref
from xdsl.ir import Operation

from wia_compiler.passes.llvm.memory import element_pointer
from wia_compiler.passes.llvm.types import LLVMError, memory_type
from wia_compiler.passes.llvm.writer import Handler, Writer
from wia_compiler.passes.status_checks import ADDI


def _atomic(writer: Writer, operation: Operation) -> None:
    """Gives what was there before; orders nothing else."""
    op = cast(memref.AtomicRMWOp, operation)
    if op.kind.value.data != ADDI:
        raise LLVMError(f"no atomic operation {op.kind.value.data}: expected {ADDI} (addi)")
    pointer = element_pointer(writer, op.memref, op.indices)
    value = f"{memory_type(op.value.type, writer.options)} {writer.values[op.value]}"
    writer.assign(op.result, f"atomicrmw add {pointer}, {value} monotonic")


ATOMICS: dict[str, Handler] = {"memref.atomic_rmw": _atomic}

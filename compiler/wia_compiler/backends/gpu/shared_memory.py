"""Where shared buffers lie: in the code's own memory, or in what a launch asks for."""

from __future__ import annotations

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from wia_compiler.backends.gpu.architecture import STATIC_SHARED_BYTES
from wia_compiler.dialects.gpu_dynamic_shared import DYNAMIC_SHARED_BYTES, DynamicSharedMemoryOp
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.tile_rewrites import scope_of

ALIGNMENT = 128
"""Bytes: rows of tiles begin where the 32 banks do."""


def place_shared_buffers(kernel: FuncOp) -> None:
    """Give shared buffers of more than 48 KiB together to the launch: code has no more of its own.

    ::

        %a = memref.alloc() : memref<128x128xf16, "shared">
          →  %m = gpu.dynamic_shared_memory;  %a = memref.view %m[%c0][] : … to memref<128x128xf16>
    """
    buffers = [
        op
        for op in kernel.body.block.ops
        if isinstance(op, memref.AllocOp) and scope_of(op.memref) == "shared"
    ]
    if sum(map(_bytes_of, buffers)) <= STATIC_SHARED_BYTES:
        return
    memory = DynamicSharedMemoryOp()
    made: list[Operation] = [memory]
    end = 0
    for buffer in buffers:
        start = arith.ConstantOp(IntegerAttr(end, IndexType()))
        view = memref.ViewOp.build(
            operands=[memory.memory, start.result, []], result_types=[buffer.memref.type]
        )
        view.result.name_hint = buffer.memref.name_hint
        buffer.memref.replace_all_uses_with(view.result)
        made += [start, view]
        end += -(-_bytes_of(buffer) // ALIGNMENT) * ALIGNMENT
    for op in made:
        op.location = kernel.location
    kernel.body.block.insert_ops_before(made, buffers[0])
    for buffer in buffers:
        buffer.detach()
        buffer.erase()
    kernel.attributes[DYNAMIC_SHARED_BYTES] = IntegerAttr(end, i64)


def _bytes_of(buffer: memref.AllocOp) -> int:
    type = buffer.memref.type
    return num_elements(type) * size_bytes(type.element_type)

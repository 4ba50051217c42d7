"""Where shared buffers lie: in the code's own memory, or in what a launch asks for."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import arith, memref
from xdsl.dialects.builtin import IndexType, IntegerAttr, MemRefType, StringAttr, i8, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Operation

from wia_compiler.backends.gpu.architecture import STATIC_SHARED_BYTES
from wia_compiler.dialects.gpu_dynamic_shared import DYNAMIC_SHARED_BYTES, DynamicSharedMemoryOp
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.tile_rewrites import scope_of

REUSES = "wia.reuses"
"""Attribute of a shared buffer that is used when no other is: it may lie over them."""
ALIGNMENT = 128
"""Bytes: rows of tiles begin where the 32 banks do."""


def place_shared_buffers(kernel: FuncOp) -> None:
    """Give shared buffers of more than 48 KiB together to the launch: code has no more of its own.

    ::

        %a = memref.alloc() : memref<128x128xf16, "shared">
          →  %m = gpu.dynamic_shared_memory;  %a = memref.view %m[%c0][] : … to memref<128x128xf16>

    Buffers that reuse memory lie over the others, from their beginning on; then all of them are
    views of one, also where they fit into the code's own.
    """
    buffers = [
        op
        for op in kernel.body.block.ops
        if isinstance(op, memref.AllocOp) and scope_of(op.memref) == "shared"
    ]
    reusing = [op for op in buffers if REUSES in op.attributes]
    own = [op for op in buffers if REUSES not in op.attributes]
    size = max(_end(own), _end(reusing))
    is_static = size <= STATIC_SHARED_BYTES
    if is_static and not (reusing and own):
        return
    memory = shared_bytes(size) if is_static else DynamicSharedMemoryOp()
    made: list[Operation] = [memory]
    for group in (own, reusing):
        end = 0
        for buffer in group:
            start = arith.ConstantOp(IntegerAttr(end, IndexType()))
            view = memref.ViewOp.build(
                operands=[memory.results[0], start.result, []], result_types=[buffer.memref.type]
            )
            view.result.name_hint = buffer.memref.name_hint
            buffer.memref.replace_all_uses_with(view.result)
            made += [start, view]
            end += aligned_bytes(buffer)
    for op in made:
        op.location = kernel.location
    kernel.body.block.insert_ops_before(made, buffers[0])
    for buffer in buffers:
        buffer.detach()
        buffer.erase()
    if not is_static:
        kernel.attributes[DYNAMIC_SHARED_BYTES] = IntegerAttr(size, i64)


def shared_bytes(size: int, space: Attribute | None = None) -> memref.AllocOp:
    """Static shared memory that others are views of, ``"shared"`` where no space is given."""
    type = MemRefType(i8, [size], memory_space=space or StringAttr("shared"))
    made = memref.AllocOp([], [], type)
    made.attributes["wia.alignment"] = IntegerAttr(ALIGNMENT, i64)
    made.memref.name_hint = "shared"
    return made


def _end(buffers: Sequence[memref.AllocOp]) -> int:
    """Bytes that buffers take one after the other."""
    return sum(map(aligned_bytes, buffers))


def aligned_bytes(buffer: memref.AllocOp) -> int:
    """Bytes of a buffer, up to where the next one may begin."""
    type = buffer.memref.type
    size = num_elements(type) * size_bytes(type.element_type)
    return -(-size // ALIGNMENT) * ALIGNMENT

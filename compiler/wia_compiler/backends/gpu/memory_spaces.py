"""From the scopes of a schedule to the memory spaces of MLIR's gpu dialect.

::

    memref<64x32xf16, "shared">      →  memref<64x32xf16, #gpu.address_space<workgroup>>
    memref<128xf32, "register">      →  memref<128xf32, #gpu.address_space<private>>
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.rewriter import Rewriter

from wia_compiler.dialects.gpu_memory import SPACES
from wia_compiler.passes.tile_rewrites import scope_of


def name_memory_spaces(kernel: FuncOp) -> None:
    """Name the memory of each buffer of a lowered kernel, and of each view of one."""
    for op in kernel.body.walk():
        blocks = [block for region in op.regions for block in region.blocks]
        for value in (*op.results, *(arg for block in blocks for arg in block.args)):
            if isinstance(value.type, MemRefType):
                _name(value)


def _name(value: SSAValue) -> None:
    old = cast("MemRefType[Attribute]", value.type)
    space = SPACES.get(scope_of(value))
    if space is None or space == old.memory_space:
        return
    named = MemRefType(old.element_type, old.shape, old.layout, space)
    Rewriter.replace_value_with_new_type(value, named)

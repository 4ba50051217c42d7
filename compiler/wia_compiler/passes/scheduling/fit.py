"""What a schedule keeps near, held against the registers and caches that there are."""

from __future__ import annotations

from math import prod
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import num_elements, size_bytes
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import scope_of


def warn_of_limits(nest: ScheduledNest) -> None:
    """Note where tiles are larger than what they are meant to stay in; they are taken all the same.

    A register tile beyond the registers is spilled, a copy beyond the last cache comes from memory
    again each time it is read.
    """
    for leaf in nest.leaves():
        if leaf.folds:
            _check_registers(nest, leaf)
    for op in nest.function.walk():
        if isinstance(op, memref.AllocOp):
            _check_caches(nest, op)


def _check_registers(nest: ScheduledNest, leaf: ComputeOp) -> None:
    kept = [
        (name, size)
        for name, size, folded in zip(leaf.axis_names, leaf.sizes, leaf.reductions, strict=True)
        if not folded and size > 1
    ]
    if len(kept) < 2:
        return  # a row of sums streams through the first cache, and is meant to
    capacity = nest.facts.register_capacity * 4
    for output in leaf.outputs:
        if scope_of(output) != "register":
            continue
        element = cast("MemRefType[Attribute]", output.type).element_type
        used = prod(size for _, size in kept) * size_bytes(element)
        if used > capacity:
            shape = " × ".join(f"{size} {name}" for name, size in kept)
            nest.warn(
                f"the sums of {shape} take {used} bytes, the vector registers hold {capacity}: "
                "some are loaded and stored at each step of the fold"
            )


def _check_caches(nest: ScheduledNest, op: memref.AllocOp) -> None:
    if not nest.facts.cache_bytes or scope_of(op.memref) != nest.memory.packed:
        return
    type_ = op.memref.type
    used, last = num_elements(type_) * size_bytes(type_.element_type), nest.facts.cache_bytes[-1]
    if used > last:
        shape = "×".join(map(str, type_.get_shape()))
        nest.warn(
            f"{op.memref.name_hint or 'a copy'} ({shape}) takes {used} bytes, the last cache holds "
            f"{last}: it comes from memory again each time it is read"
        )

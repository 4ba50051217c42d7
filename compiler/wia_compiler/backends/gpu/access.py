"""How leaves walk memory: strides along axes, and which operands use which axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.llvm.types import size_bytes, strides_of
from wia_compiler.passes.tile_rewrites import scope_of


def operands_of(leaf: ComputeOp) -> tuple[SSAValue, ...]:
    """Inputs, then outputs."""
    return (*leaf.inputs, *leaf.outputs)


def axis_strides(leaf: ComputeOp, operand: int) -> dict[str, int | None]:
    """Elements between neighbours along each axis for one operand (inputs, then outputs).

    0 for an axis the operand does not use, ``None`` where the step is not constant (an index that
    is divided).
    """
    value = operands_of(leaf)[operand]
    strides: dict[str, int | None] = dict.fromkeys(leaf.axis_names, 0)
    memory = strides_of(cast("MemRefType[Attribute]", value.type))
    for result, stride in zip(leaf.maps.data[operand].data.results, memory, strict=True):
        for atom, factor in linear_form(result).terms.items():
            if isinstance(atom, AffineDimExpr):
                name = leaf.axis_names[atom.position]
                known = strides[name]
                strides[name] = None if known is None else known + factor * stride
                continue
            for position in atom.used_dims():
                strides[leaf.axis_names[position]] = None
    return strides


def in_memory(leaf: ComputeOp) -> list[int]:
    """Numbers of the operands that lie in global memory."""
    return [n for n, value in enumerate(operands_of(leaf)) if scope_of(value) == ""]


def vector_width(leaves: Sequence[ComputeOp], axis: str, limit_bytes: int = 16) -> int:
    """Neighbours along an axis that 16-byte accesses can take, 1 where they cannot.

    Every operand in memory must be dense or constant along the axis, and what the other axes add
    to an address must keep it at a multiple of the width. A strided view may begin anywhere.
    """
    width = limit_bytes
    for leaf in leaves:
        for operand in in_memory(leaf):
            strides = axis_strides(leaf, operand)
            own = strides.pop(axis, 0)
            if own == 0:
                continue
            others = [0 if each is None else each for each in strides.values()]
            if own != 1 or None in strides.values() or _is_view(operands_of(leaf)[operand]):
                return 1
            width = min(width, limit_bytes // size_bytes(element_type(operands_of(leaf)[operand])))
            while any(each % width for each in others):
                width //= 2
    return width


def _is_view(value: SSAValue) -> bool:
    return not isinstance(cast("MemRefType[Attribute]", value.type).layout, NoneAttr)


def is_dense_along(leaf: ComputeOp, axis: str) -> bool:
    """Whether some operand in memory has neighbours of the axis side by side."""
    return any(axis_strides(leaf, operand).get(axis) == 1 for operand in in_memory(leaf))

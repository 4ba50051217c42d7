"""``ldmatrix`` that turns tiles of bytes, written as what it does: turn pairs of them.

The instruction moves 16 bits at a time, and MLIR's op says so too::

    %v = nvgpu.ldmatrix %tile[%i, %j] numTiles = 4 transpose = true
           : memref<128x64xi8, …> -> vector<4x4xi8>
      →
    %bytes = memref.collapse_shape %tile [[0, 1]] : … into memref<8192xi8, …>
    %pairs = memref.view %bytes[%c0][] : … to memref<128x32xi16, …>
    %w = nvgpu.ldmatrix %pairs[%i, %half] numTiles = 4 transpose = true : … -> vector<4x2xi16>
    %v = vector.bitcast %w : vector<4x2xi16> to vector<4x4xi8>
"""

from __future__ import annotations

from math import prod
from typing import cast

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import ArrayAttr, IndexType, IntegerAttr, MemRefType, i16, i64
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.rewriter import Rewriter

from wia_compiler.dialects.nvgpu import LdMatrixOp, bits_of


def pair_turned_bytes(kernel: FuncOp) -> None:
    """Rewrite each such op of a kernel."""
    for op in list(kernel.body.walk()):
        if isinstance(op, LdMatrixOp) and op.transpose.value.data:
            type = cast("MemRefType[Attribute]", op.memref.type)
            if bits_of(type.element_type) == 8:
                _pair(op, type)


def _pair(op: LdMatrixOp, type: MemRefType[Attribute]) -> None:
    shape, space = type.get_shape(), type.memory_space
    bytes_type = MemRefType(type.element_type, [prod(shape)], memory_space=space)
    pairs_type = MemRefType(i16, [*shape[:-1], shape[-1] // 2], memory_space=space)
    dimensions = ArrayAttr([IntegerAttr(axis, i64) for axis in range(len(shape))])
    flat = memref.CollapseShapeOp(
        operands=[op.memref],
        result_types=[bytes_type],
        properties={"reassociation": ArrayAttr([dimensions])},
    )
    zero, two = (arith.ConstantOp(IntegerAttr(number, IndexType())) for number in (0, 2))
    pairs = memref.ViewOp(flat.result, zero, [], pairs_type)
    half = arith.DivUIOp(op.indices[-1], two.result)
    indices = [*op.indices[:-1], half.result]
    turned = LdMatrixOp(pairs.result, indices, op.numTiles.value.data, transpose=True)
    whole = vector.BitcastOp(turned.res, op.res.type)
    made = [flat, zero, two, pairs, half, turned, whole]
    for each in made:
        each.location = op.location
    Rewriter.replace_op(op, made)

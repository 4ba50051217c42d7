"""Products that memory bounds: a matrix with a vector, or with few rows in its place."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.access import axis_strides, in_memory
from wia_compiler.backends.gpu.builder import element_type
from wia_compiler.backends.gpu.product_sides import sides_of
from wia_compiler.backends.gpu.tiling import kept_loops
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of, scope_of

FEW_ROWS = 8
"""Rows of the smaller operand up to which a thread keeps a sum for each: beyond, matrix units and
tiles in shared memory have enough to do with what is read."""
LEAST_FOLD = 32
"""Points of the fold below which a warp would have less than one each."""


@dataclass(frozen=True)
class VectorProduct:
    """Axes of such a product: ``fold``, ``many`` of the matrix, ``few`` of the other, if any.

    ``along`` says that the matrix lies along the fold (``A @ x``): then a warp folds a row of it.
    Else it lies along ``many`` (``x @ A``), and threads fold columns side by side. ``many`` is
    ``None`` for a product of two vectors, ``matrix`` is the number of the input that is walked
    along it.
    """

    leaf: ComputeOp
    fold: str
    many: str | None
    few: str | None
    along: bool
    matrix: int

    @property
    def matrix_bytes(self) -> int:
        """Bytes of an element of the matrix."""
        return size_bytes(element_type(self.leaf.inputs[self.matrix]))

    @property
    def length(self) -> int:
        """Points of the fold."""
        return self.leaf.sizes[self.leaf.axis_names.index(self.fold)]


def kept_sizes(nest: FuncOp) -> dict[str, int]:
    """Points of each kept axis of a nest, from the outermost in."""
    return {axis_of(loop): loop.extent.value.data for loop in kept_loops(nest)}


def vector_product_of(nest: FuncOp) -> VectorProduct | None:
    """The product of a nest, where it is one that reads a matrix for a few results of each row."""
    leaves = [leaf for leaf in leaves_of(nest) if leaf.folds]
    if len(leaves) != 1 or leaves[0].kind.data != "contract" or leaves[0].is_ordered:
        return None
    (leaf,) = leaves
    folded = [n for n, is_folded in zip(leaf.axis_names, leaf.reductions, strict=True) if is_folded]
    memory = [number for number in in_memory(leaf) if number < len(leaf.inputs)]
    if len(folded) != 1 or len(memory) != 2 or scope_of(leaf.outputs[0]) != "register":
        return None
    (fold,) = folded
    sizes = kept_sizes(nest)
    if leaf.sizes[leaf.axis_names.index(fold)] < LEAST_FOLD:
        return None
    sides = sides_of(nest, leaf)
    few = many = None
    if sides is not None:
        few, many = sorted((sides.rows, sides.columns), key=lambda axis: sizes[axis])
        if sizes[few] > FEW_ROWS:
            return None
    elif sizes:
        many = list(sizes)[-1]
    strides = {number: axis_strides(leaf, number) for number in memory}
    walked = [number for number in memory if many is None or strides[number][many] != 0]
    if not walked:
        return None
    along = [number for number in walked if strides[number][fold] == 1]
    if along:
        return VectorProduct(leaf, fold, many, few, True, along[0])
    beside = [number for number in walked if many is not None and strides[number][many] == 1]
    if not beside or many != list(sizes)[-1]:
        return None
    return VectorProduct(leaf, fold, many, few, False, beside[0])

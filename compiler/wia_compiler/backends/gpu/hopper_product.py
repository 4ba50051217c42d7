"""Which nests are products that ``wgmma`` and tensor maps can spell, and how their operands lie.

``wgmma`` reads both operands from shared memory, in rows of 128 bytes that a tensor map swizzles.
An operand whose rows go along the folded axis is *K-major*; one whose rows go along its own axis
is read *transposed*, which elements of 16 bits allow. A tensor map takes arrays whose elements are
dense along the last dimension and whose other strides are multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import arith
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, MemRefType, NoneAttr, i8
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineSymExpr

from wia_compiler.backends.gpu.builder import element_type, shape_of
from wia_compiler.backends.gpu.tiling import kept_loops
from wia_compiler.dialects.nvgpu_hopper_types import MAX_TENSOR_MAP_RANK
from wia_compiler.dialects.nvgpu_warpgroup import is_product_type, sum_type
from wia_compiler.dialects.tile import ComputeOp, YieldOp
from wia_compiler.dialects.tile_places import PositionsOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.emit_leaf import fold_op
from wia_compiler.passes.llvm.types import size_bytes
from wia_compiler.passes.tile_rewrites import axis_of, leaves_of, scope_of

ALIGNMENT = 16
"""Bytes: of a tensor's start and of its strides (CUDA driver API, cuTensorMapEncodeTiled)."""


class NoHopperProduct(Exception):
    """Why a nest is not spelled with ``wgmma`` and tensor maps; ``str`` of it ends a sentence."""


@dataclass(frozen=True)
class Operand:
    """An input of the product: its number, and whether its rows go along its own axis."""

    number: int
    transposed: bool


@dataclass(frozen=True)
class HopperProduct:
    """``C[rows, columns] = A[rows, fold] B[fold, columns]``, for each point of other axes.

    ``sizes`` are those of the three axes, ``batches`` how many such products there are. ``element``
    is the type of both operands.
    """

    leaf: ComputeOp
    rows: str
    columns: str
    fold: str
    a: Operand
    b: Operand
    sizes: tuple[int, int, int]
    batches: int
    element: Attribute

    @property
    def row_elements(self) -> int:
        """Elements in the 128 bytes of a row in shared memory: a step of the folded axis."""
        return 128 // size_bytes(self.element)


def hopper_product(nest: FuncOp) -> HopperProduct:
    """Read a nest before it is scheduled; ``NoHopperProduct`` where it is none."""
    leaves = leaves_of(nest)
    found = [leaf for leaf in leaves if leaf.kind.data == "contract"]
    if len(found) != 1 or len(kept_loops(nest)) < 2:
        raise NoHopperProduct("it is not one product of two matrices")
    (leaf,) = found
    element = _element(leaf)
    _check_others(leaves, leaf)
    folded = [n for n, is_folded in zip(leaf.axis_names, leaf.reductions, strict=True) if is_folded]
    if len(folded) != 1 or leaf.limit_values:
        raise NoHopperProduct("its sum is not along one whole axis")
    sizes = {axis_of(loop): loop.extent.value.data for loop in kept_loops(nest)}
    fold = leaf.sizes[leaf.axis_names.index(folded[0])]
    axes = [_axes(leaf, number) for number in range(2)]
    own = [[axis for axis in sizes if axis in each and axis not in axes[1 - n]]
           for n, each in enumerate(axes)]  # fmt: skip
    if not own[0] or not own[1]:
        raise NoHopperProduct("no two axes reuse what the other one reads")
    order = list(sizes)
    rows, columns = sorted((own[0][-1], own[1][-1]), key=order.index)
    numbers = (0, 1) if rows in axes[0] else (1, 0)
    walked = {**sizes, folded[0]: fold}
    a, b = (
        _operand(leaf, number, side, folded[0], walked)
        for number, side in zip(numbers, (rows, columns), strict=True)
    )
    batches = 1
    for axis, size in sizes.items():
        batches *= size if axis not in (rows, columns) else 1
    extent = (sizes[rows], sizes[columns], fold)
    return HopperProduct(leaf, rows, columns, folded[0], a, b, extent, batches, element)


def _element(leaf: ComputeOp) -> Attribute:
    """The type of both operands of a leaf that adds up their products, both made wider."""
    if leaf.is_ordered or len(leaf.inputs) != 2 or len(leaf.outputs) != 1:
        raise NoHopperProduct("its sum goes in the order of the text")
    elements = [element_type(each) for each in leaf.inputs]
    if elements[0] != elements[1] or not is_product_type(elements[0]):
        raise NoHopperProduct(f"wgmma multiplies f16, bf16 or i8, not {elements[0]}")
    held = element_type(leaf.outputs[0])
    if held not in (sum_type(elements[0]), i8):
        raise NoHopperProduct(f"products of {elements[0]} are added up in {held}")
    total = fold_op(leaf, 0)
    arguments = leaf.body.block.args
    products = [
        each.owner for each in total.operands if isinstance(each.owner, arith.MulfOp | arith.MuliOp)
    ]
    if isinstance(total, arith.AddfOp | arith.AddiOp) and len(products) == 1:
        sources = [_widened(each) for each in products[0].operands]
        if set(sources) == set(arguments[:2]):
            return elements[0]
    raise NoHopperProduct("it adds up something else than products of its operands")


def _widened(value: SSAValue) -> SSAValue:
    """What a value was made of by making it wider."""
    owner = value.owner
    if isinstance(owner, arith.ExtFOp | arith.ExtSIOp):
        return owner.input
    return value


def _check_others(leaves: list[ComputeOp], product: ComputeOp) -> None:
    """The sum starts from 0; what follows are maps of it that write to memory."""
    (total,) = product.outputs
    seen = False
    for leaf in leaves:
        if leaf is product:
            seen = True
            continue
        if leaf.folds:
            raise NoHopperProduct("it folds more than the product")
        registers = [v for v in (*leaf.inputs, *leaf.outputs) if scope_of(v) == "register"]
        if not seen:
            if list(leaf.outputs) != [total] or leaf.inputs or not is_zero_fill(leaf):
                raise NoHopperProduct("its sums do not start from 0")
        elif any(value is not total for value in registers) or total in leaf.outputs:
            raise NoHopperProduct("it keeps more than the sums in registers")


def is_zero_fill(fill: ComputeOp) -> bool:
    """Whether a leaf writes 0 to all of its output."""
    last = fill.body.block.last_op
    assert isinstance(last, YieldOp)
    owner = last.arguments[0].owner
    if not isinstance(owner, arith.ConstantOp):
        return False
    value = owner.value
    return isinstance(value, FloatAttr | IntegerAttr) and value.value.data == 0


def _axes(leaf: ComputeOp, number: int) -> set[str]:
    """The axes that an operand is read along."""
    return {axis for result in leaf.input_maps[number].results for axis in _walks(leaf, result)}


def _walks(leaf: ComputeOp, result: AffineExpr) -> dict[str, int]:
    """The axes that an index walks, with their factors; ``NoHopperProduct`` for a quotient."""
    form = linear_form(result)
    if not form.is_linear:
        raise NoHopperProduct("an index of an operand is no sum")
    around = {loop.induction_variable: axis_of(loop) for loop in kept_loops(_nest(leaf))}
    found: dict[str, int] = {}
    for atom, factor in form.terms.items():
        if isinstance(atom, AffineDimExpr):
            if leaf.sizes[atom.position] > 1:
                found[leaf.axis_names[atom.position]] = factor
            continue
        axis = around.get(leaf.ivs[cast(AffineSymExpr, atom).position])
        if axis is None:
            raise NoHopperProduct("an operand moves with a loop inside")
        found[axis] = factor
    return found


def _nest(leaf: ComputeOp) -> FuncOp:
    parent = leaf.parent_op()
    while not isinstance(parent, FuncOp):
        assert parent is not None
        parent = parent.parent_op()
    return parent


def _operand(
    leaf: ComputeOp, number: int, side: str, fold: str, sizes: Mapping[str, int]
) -> Operand:
    """How an operand lies; ``NoHopperProduct`` where no tensor map takes its array."""
    value = leaf.inputs[number]
    name, shape, size = (
        value.name_hint or "an array",
        shape_of(value),
        size_bytes(element_type(value)),
    )
    if isinstance(value.owner, PositionsOp) or scope_of(value):
        raise NoHopperProduct(f"{name} does not lie in main memory")
    if not isinstance(cast("MemRefType[Attribute]", value.type).layout, NoneAttr):
        raise NoHopperProduct(f"{name} is a view, which may begin at any byte")
    if len(shape) > MAX_TENSOR_MAP_RANK:
        raise NoHopperProduct(f"{name} has {len(shape)} axes, a tensor map {MAX_TENSOR_MAP_RANK}")
    if shape[-1] * size % ALIGNMENT:
        raise NoHopperProduct(
            f"rows of {name} are {shape[-1] * size} bytes apart, no multiple of {ALIGNMENT}"
        )
    dense = ""
    seen: set[str] = set()
    for dimension, result in enumerate(leaf.input_maps[number].results):
        walks = _walks(leaf, result)
        if len(walks) > 1 or any(factor != 1 for factor in walks.values()) or seen & set(walks):
            raise NoHopperProduct(f"an index of {name} is no single axis")
        seen |= set(walks)
        whole = shape[dimension] == sizes[fold] and linear_form(result).constant == 0
        if fold in walks and not whole:
            raise NoHopperProduct(f"{name} is folded along a part of its axis")
        dense = next(iter(walks), "")
    if dense not in (side, fold):
        raise NoHopperProduct(f"{name} is not dense along {side} or {fold}")
    if dense == side and size != 2:
        raise NoHopperProduct(f"wgmma reads {size * 8}-bit elements along {fold} only, not {side}")
    return Operand(number, dense == side)

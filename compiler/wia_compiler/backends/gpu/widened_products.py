"""Products of numbers that are made wider on the way are products of the narrow ones in memory."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from wia_compiler.backends.gpu.product_sides import sides_of
from wia_compiler.dialects.tile import PRODUCTS, ComputeOp
from wia_compiler.passes.emit_leaf import fold_op
from wia_compiler.passes.tile_rewrites import leaves_of

_WIDER = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)


def contract_widened_products(nest: FuncOp) -> None:
    """Make contractions of the matrix products of a nest that read narrow operands.

    ::

        reduce acc += extsi a * extsi b   {wia.products}   →   contract acc += extsi a * extsi b

    Such a leaf comes of casts that were fused into a product (``widens_operands``). It reads both
    operands as they are, and is tiled and multiplied as any matrix product.
    """
    for leaf in leaves_of(nest):
        if leaf.kind.data == "reduce" and PRODUCTS in leaf.attributes and _is_plain(leaf):
            kind = leaf.kind
            leaf.properties["kind"] = StringAttr("contract")
            if sides_of(nest, leaf) is None:
                leaf.properties["kind"] = kind
            else:
                del leaf.attributes[PRODUCTS]


def factors_of(leaf: ComputeOp) -> tuple[SSAValue, SSAValue] | None:
    """The factors of the product that a leaf of one output adds up."""
    total = fold_op(leaf, 0)
    held = leaf.body.block.args[len(leaf.inputs)]
    if not isinstance(total, arith.AddfOp | arith.AddiOp):
        return None
    (product,) = [each.owner for each in total.operands if each is not held] or [None]
    if not isinstance(product, arith.MulfOp | arith.MuliOp):
        return None
    return product.lhs, product.rhs


def narrow(value: SSAValue) -> SSAValue:
    """What was made wider."""
    owner = value.owner
    if isinstance(owner, Operation) and isinstance(owner, _WIDER):
        return owner.operands[0]
    return value


def _is_plain(leaf: ComputeOp) -> bool:
    if len(leaf.inputs) != 2 or len(leaf.outputs) != 1:
        return False
    factors = factors_of(leaf)
    return factors is not None and set(map(narrow, factors)) == set(leaf.body.block.args[:2])

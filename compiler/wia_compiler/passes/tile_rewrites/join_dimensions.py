"""Arrays seen with fewer dimensions, where leaves walk several of them as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr
from xdsl.dialects.func import CallOp, FuncOp
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineBinaryOpExpr, AffineBinaryOpKind, AffineExpr, AffineMap
from xdsl.rewriter import Rewriter

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import linear_form
from wia_compiler.passes.tile_rewrites.nest import leaves_of, replace_leaf


def join_dimensions(module: ModuleOp, nest: FuncOp) -> None:
    """Give a nest arrays of fewer dimensions, and let its callers pass the same memory so.

    ::

        w[f, (k floordiv 3) floordiv 3, (k floordiv 3) mod 3, k mod 3] : memref<64x64x3x3xf32>
          →  w[f, k] : memref<64x576xf32>

    Only arrays whose rows follow one another, which leaves read as they are (not as padded).
    """
    changed = False
    for number in range(len(nest.body.block.args)):
        while (joined := _join(nest.body.block.args[number], leaves_of(nest))) is not None:
            Rewriter.replace_value_with_new_type(nest.body.block.args[number], joined)
            changed = True
    if not changed:
        return
    nest.update_function_type()
    name = nest.sym_name.data
    for call in [op for op in module.walk() if isinstance(op, CallOp)]:
        if call.callee.string_value() == name:
            _pass_joined(call, nest)


def _pass_joined(call: CallOp, nest: FuncOp) -> None:
    """Cast what a call passes to what the nest takes now."""
    block = call.parent_block()
    assert block is not None
    for number, argument in enumerate(nest.body.block.args):
        given = call.arguments[number]
        if given.type == argument.type:
            continue
        type = cast("MemRefType[Attribute]", argument.type)
        shape = list(type.get_shape())
        strides = [1]
        for size in reversed(shape[1:]):
            strides.insert(0, strides[0] * size)
        cast_op = memref.ReinterpretCastOp(given, [], [], [], [0], shape, strides, type)
        cast_op.location = call.location
        cast_op.result.name_hint = given.name_hint
        block.insert_op_before(cast_op, call)
        call.operands[number] = cast_op.result


def _join(array: SSAValue, leaves: Sequence[ComputeOp]) -> MemRefType[Attribute] | None:
    """Walk the first two dimensions that can be as one, in every leaf; the type that is left."""
    type = cast("MemRefType[Attribute]", array.type)
    users = [leaf for leaf in leaves if array in leaf.operands]
    if not isinstance(type.layout, NoneAttr) or len({use.operation for use in array.uses}) != len(
        users
    ):
        return None
    shape = list(type.get_shape())
    for dimension, size in enumerate(shape[1:]):
        if users and all(_is_one_walk(leaf, array, dimension, size) for leaf in users):
            for leaf in users:
                _walk_joined(leaf, array, dimension, size)
            joined = [*shape[:dimension], shape[dimension] * size, *shape[dimension + 2 :]]
            return MemRefType(type.element_type, joined)
    return None


def _is_one_walk(leaf: ComputeOp, array: SSAValue, dimension: int, size: int) -> bool:
    """Whether both dimensions are quotient and remainder of one position, read as it is."""
    padded = (*leaf.is_padded, *(False for _ in leaf.outputs))
    operands = zip((*leaf.inputs, *leaf.outputs), leaf.maps, padded, strict=True)
    for value, each, is_padded in operands:
        if value is not array:
            continue
        outer, inner = each.data.results[dimension : dimension + 2]
        if is_padded or not _divided(inner):
            return False
        if len(_divided(outer * size + inner)) >= len(_divided(outer)) + len(_divided(inner)):
            return False
    return True


def _divided(expression: AffineExpr) -> list[AffineExpr]:
    """The quotients and remainders among the terms of an index."""
    kinds = (AffineBinaryOpKind.FloorDiv, AffineBinaryOpKind.Mod)
    return [
        atom
        for atom in linear_form(expression).terms
        if isinstance(atom, AffineBinaryOpExpr) and atom.kind in kinds
    ]


def _walk_joined(leaf: ComputeOp, array: SSAValue, dimension: int, size: int) -> None:
    """Index an array by the joined dimension; the array gets its type afterwards."""
    maps: list[AffineMap] = []
    for value, each in zip((*leaf.inputs, *leaf.outputs), leaf.maps, strict=True):
        results = list(each.data.results)
        if value is array:
            whole = linear_form(results[dimension] * size + results[dimension + 1]).expression()
            results[dimension : dimension + 2] = [whole]
        maps.append(AffineMap(each.data.num_dims, each.data.num_symbols, tuple(results)))
    replace_leaf(leaf, maps=maps)

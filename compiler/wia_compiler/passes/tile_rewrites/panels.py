"""The layout of a copied tile: panels as wide as a register tile, one behind the other."""

from __future__ import annotations

from typing import cast

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap, AffineSymExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.affine import LinearForm, linear_form
from wia_compiler.passes.tile_rewrites.nest import IllegalRewrite, remap, replace_leaf


def split_panels(leaf: ComputeOp, operand: int, axis: str) -> ComputeOp:
    """Lay a staged tile out as panels of the width in which the leaf reads it.

    ::

        %b = alloc 64×128 @packed                  %b = alloc 4×64×32 @packed
        copy [k = 64, j = 128] %b[k, j] = …    →   copy [k = 64, j_panel = 4, j = 32]
        for %j1 in 128 step 32                       %b[j_panel, k, j] = …
          contract [j = 32] … %b[k, %j1 + j]       for %j1 in 128 step 32
                                                     contract … %b[%j1 floordiv 32, k, j]

    Only the buffer's layout changes. Refused where the loops over the axis do not step by whole
    panels; a tile of one panel stays as it is. Gives the leaf.
    """
    buffer = leaf.inputs[operand]
    if not isinstance(buffer.owner, memref.AllocOp):
        raise IllegalRewrite("the operand is read where it lies: stage it first")
    width = leaf.sizes[leaf.axis_names.index(axis)]
    dimension, panel = _panel_index(leaf, operand, axis, width)
    old = cast("MemRefType[Attribute]", buffer.type)
    shape = list(old.get_shape())
    if shape[dimension] <= width:
        return leaf
    if shape[dimension] % width:
        raise IllegalRewrite(f"{shape[dimension]} points of axis {axis!r} are no whole panels")
    users = [use.operation for use in buffer.uses]
    readers = [op for op in users if isinstance(op, ComputeOp) and buffer in op.inputs]
    if readers != [leaf] or not all(isinstance(op, ComputeOp) for op in users):
        raise IllegalRewrite("another leaf reads the copy too")
    count = shape[dimension] // width
    shape[dimension] = width
    made = memref.AllocOp(
        [], [], MemRefType(old.element_type, [count, *shape], old.layout, old.memory_space)
    )
    made.location = buffer.owner.location
    made.attributes = dict(buffer.owner.attributes)
    made.memref.name_hint = buffer.name_hint
    block = buffer.owner.parent_block()
    assert block is not None
    block.insert_op_before(made, buffer.owner)
    for op in users:
        if op is not leaf and isinstance(op, ComputeOp):
            _split_writer(op, buffer, made.memref, axis, width, dimension)
    own = leaf.input_maps[operand]
    results = list(own.results)
    results[dimension] = AffineExpr.dimension(leaf.axis_names.index(axis))
    maps = [each.data for each in leaf.maps]
    maps[operand] = AffineMap(own.num_dims, own.num_symbols, (panel, *results))
    inputs = list(leaf.inputs)
    inputs[operand] = made.memref
    leaf = replace_leaf(leaf, inputs=inputs, maps=maps)
    old_owner = buffer.owner
    old_owner.detach()
    old_owner.erase()
    return leaf


def _panel_index(leaf: ComputeOp, operand: int, axis: str, width: int) -> tuple[int, AffineExpr]:
    """The buffer's dimension for an axis, and the number of the panel that is read there."""
    position = leaf.axis_names.index(axis)
    own = AffineExpr.dimension(position)
    for dimension, result in enumerate(leaf.input_maps[operand].results):
        form = linear_form(result)
        if own not in form.terms:
            continue
        rest = {atom: factor for atom, factor in form.terms.items() if atom != own}
        steps = [_step_of(leaf, atom) * factor for atom, factor in rest.items()]
        if form.terms[own] != 1 or form.constant or any(step % width for step in steps):
            raise IllegalRewrite(f"axis {axis!r} is not read in whole panels of {width}")
        first = LinearForm(rest, 0).expression()
        return dimension, first if not rest else first // width
    raise IllegalRewrite(f"the operand does not read axis {axis!r}")


def _step_of(leaf: ComputeOp, atom: AffineExpr) -> int:
    """How far apart the values of a loop's variable are; 1 for anything else."""
    if not isinstance(atom, AffineSymExpr):
        return 1
    owner = leaf.ivs[atom.position].owner
    loop = owner.parent_op() if not isinstance(owner, Operation) else None
    return loop.step.value.data if isinstance(loop, ForOp) else 1


def _split_writer(
    leaf: ComputeOp, buffer: SSAValue, made: SSAValue, axis: str, width: int, dimension: int
) -> None:
    """The copy into the buffer, or the fill before it, walks panels and the points of one."""
    position = leaf.axis_names.index(axis)
    number = list(leaf.outputs).index(buffer)
    rank = len(leaf.axis_names) + 1
    dims: list[AffineExpr] = [
        AffineDimExpr(n if n < position else n + 1) for n in range(len(leaf.axis_names))
    ]
    inner, panel = dims[position], AffineExpr.dimension(position)
    dims[position] = panel * width + inner
    symbols: list[AffineExpr] = [AffineExpr.symbol(n) for n in range(len(leaf.ivs))]
    axes = list(zip(leaf.axis_names, leaf.sizes, strict=True))
    axes[position : position + 1] = [
        (f"{axis}_panel", axes[position][1] // width),
        (axis, width),
    ]
    sizes = (rank, len(leaf.ivs))
    maps = [remap(each.data, dims, symbols, sizes) for each in leaf.maps]
    results = list(maps[len(leaf.inputs) + number].results)
    results[dimension] = inner
    maps[len(leaf.inputs) + number] = AffineMap(*sizes, (panel, *results))
    bounds = [
        (e.replace_dims_and_symbols(dims, symbols), limit)
        for e, limit in zip(leaf.bounds.data.results, leaf.limit_values, strict=True)
    ]
    outputs = list(leaf.outputs)
    outputs[number] = made
    replace_leaf(leaf, axes=axes, outputs=outputs, maps=maps, bounds=bounds)

"""Rewrites of folded axes: a serial loop around a leaf, and bounds that zeros make needless."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineExpr

from wia_compiler.dialects.tile import ComputeOp, ForOp
from wia_compiler.passes.emit_leaf import fold_op
from wia_compiler.passes.tile_rewrites.leaves import tile_leaf
from wia_compiler.passes.tile_rewrites.nest import IllegalRewrite, replace_leaf, scope_of


def tile_reduction(
    leaf: ComputeOp, axis: str, size: int, *, past_end: bool = False
) -> tuple[ForOp, ComputeOp]:
    """Fold an axis ``size`` points at a time: a serial loop around the leaf.

    ::

        contract [k = 100 reduce] a[i, k]   →   for %k0 in 100 step 16 @serial
                                                  contract [k = 16 reduce] a[i, %k0 + k]
                                                    bounds (%k0 + k < 100)

    Partial sums are formed in the order of the loop, which the numerics contract leaves open, and
    which is that of the text for a ``wia.ordered`` leaf. A shorter axis is folded at once, but with
    ``past_end``: then ``size`` points are, those past its end left out by a bound.
    """
    if axis not in {name.data for name in leaf.reduce_axes}:
        folded = ", ".join(name.data for name in leaf.reduce_axes)
        raise IllegalRewrite(f"the leaf does not fold {axis!r}; it folds {folded or 'nothing'}")
    return tile_leaf(leaf, axis, size, past_end=past_end)


def _is_staged(buffer: SSAValue) -> bool:
    """Whether a buffer is written by copies, and fills before them, alone."""
    writers = [
        use.operation for use in buffer.uses if buffer in getattr(use.operation, "outputs", ())
    ]
    return bool(writers) and all(
        isinstance(op, ComputeOp) and (op.kind.data == "copy" or not op.inputs) for op in writers
    )


def drop_bounds(leaf: ComputeOp) -> ComputeOp:
    """Fold past the edges too, where everything that is read there is 0.

    ::

        contract … bounds (%i0 + i < 1000, %k0 + k < 100)   →   contract …

    Only for a product that is added up, both of whose operands are buffers that were staged (what
    lies past an edge was copied as 0), into a buffer whose extra points nobody writes out. A
    ``wia.ordered`` sum takes no zeros that the text does not add: -0 + 0 is 0.
    """
    products = [
        fold
        for output in range(len(leaf.outputs))
        if leaf.folds and isinstance(fold := fold_op(leaf, output), arith.AddfOp | arith.AddiOp)
    ]
    if leaf.kind.data not in ("contract", "window") or len(products) != len(leaf.outputs):
        raise IllegalRewrite(f"a {leaf.kind.data} leaf needs its bounds: 0 is not always neutral")
    if any(not isinstance(value.owner, Operation) for value in leaf.outputs):
        raise IllegalRewrite(
            "the leaf folds into main memory, past whose edge nothing may be written"
        )
    if leaf.is_ordered and any(_is_of_fold(leaf, each) for each in leaf.bounds.data.results):
        raise IllegalRewrite("a sum that the text writes out takes no zeros past its end")
    for value in leaf.inputs:
        if scope_of(value) == "" or not _is_staged(value):
            raise IllegalRewrite("the leaf reads what was not staged, and so not 0 past the edge")
    return replace_leaf(leaf, bounds=())


def _is_of_fold(leaf: ComputeOp, expression: AffineExpr) -> bool:
    """Whether a bound is about a folded axis."""
    return any(leaf.reductions[axis] for axis in expression.used_dims())

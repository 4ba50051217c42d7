"""Bounds that hold for all points of a leaf or for none: a test around the whole leaf."""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.dialects import scf
from xdsl.ir import Block, Region
from xdsl.ir.affine import AffineDimExpr
from xdsl.rewriter import InsertPoint

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.emit_index import IndexEmitter
from wia_compiler.passes.tile_rewrites.nest import bounds_of, replace_leaf


def guard_leaf(leaf: ComputeOp) -> ComputeOp:
    """The leaf without bounds on loop variables alone, inside an ``scf.if`` that tests them.

    ::

        copy %acc[i] = y[%i0 + i] bounds (%k0 - 1 < 512, %i0 + i < 1000)
          →  scf.if 0 <= %k0 - 1 < 512 { copy %acc[i] = y[%i0 + i] bounds (%i0 + i < 1000) }
    """
    pairs = bounds_of(leaf)
    guards = [
        (expression, limit)
        for expression, limit in pairs
        if not any(isinstance(atom, AffineDimExpr) for atom in atoms(expression))
    ]
    if not guards:
        return leaf
    leaf = replace_leaf(leaf, bounds=[pair for pair in pairs if pair not in guards])
    emitter = IndexEmitter(Builder(InsertPoint.before(leaf)), leaf.location)
    tests = [
        emitter.below(emitter.affine(expression, [], leaf.ivs), limit)
        for expression, limit in guards
    ]
    block = Block()
    branch = scf.IfOp(emitter.both(tests), [], Region(block))
    emitter.builder.insert(branch)
    leaf.detach()
    block.add_ops([leaf, end := scf.YieldOp()])
    branch.location = end.location = leaf.location
    return leaf

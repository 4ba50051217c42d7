"""Point code: what a nest may hold beside leaves, where their form does not fit.

Inside ``tile.for`` loops, or at the top of a nest, may stand ``scf.for`` (with the axis it walks in
``wia.axis``), ``scf.if``, ``scf.while``, ``memref.load``, ``memref.store``, ``memref.alloca`` and
the ``arith`` and ``math`` ops of leaves' bodies. Each runs once for a point of the loops around it,
in order. Indices have type ``index``, numbers the element types of the mid level.
"""

from __future__ import annotations

from xdsl.dialects import arith, math, memref, scf
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.tile_check import CheckOp

AXIS = "wia.axis"
"""Attribute of an ``scf.for`` in a nest: the name of the axis it walks."""
SCALAR_DIALECTS = (arith.Arith.name, math.Math.name)
"""Ops of leaves' bodies and of point code that compute one number."""
_POINT_OPS = (
    scf.ForOp,
    scf.IfOp,
    scf.WhileOp,
    scf.YieldOp,
    scf.ConditionOp,
    memref.LoadOp,
    memref.StoreOp,
    memref.AllocaOp,
    CheckOp,
)


def is_point_code(op: Operation) -> bool:
    """Whether an op of a nest, outside of leaves, is point code."""
    return isinstance(op, _POINT_OPS) or op.name.partition(".")[0] in SCALAR_DIALECTS


def holds_point_code(nest: Operation) -> bool:
    """Whether a nest is free-form: it holds more than loops, buffers and leaves."""
    return any(
        is_point_code(op) and not isinstance(op.parent_op(), ComputeOp) for op in nest.walk()
    )


def axis_loop(loop: scf.ForOp, axis: str) -> scf.ForOp:
    """The loop, with the name of the axis that it walks."""
    loop.attributes[AXIS] = StringAttr(axis)
    return loop

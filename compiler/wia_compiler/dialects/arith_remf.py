"""``arith.remf``, the one op of MLIR's arith dialect that the project needs and xDSL lacks."""

from __future__ import annotations

from xdsl.dialects.arith import FloatingPointLikeBinaryOperation
from xdsl.irdl import irdl_op_definition, traits_def
from xdsl.traits import Pure


@irdl_op_definition
class RemFOp(FloatingPointLikeBinaryOperation):
    """The exact remainder of a division rounded towards 0, with the dividend's sign (C's fmod)."""

    name = "arith.remf"

    traits = traits_def(Pure())

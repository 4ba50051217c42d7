"""Transcendental ``math`` ops on f32 and f64 become ``arith`` ops and fused multiply-adds.

Nothing calls a library, so loops around them vectorise and every target computes the same. All
results are within 2 ulp of the correctly rounded one over the whole range, with IEEE's limits at
±0, ±inf and NaN, subnormal arguments and subnormal results. The largest errors seen against
mpmath and exact references (``tests/unit/test_llvm_expand_math.py`` holds them to the bound):

=====  =====  ====
op     f32    f64
=====  =====  ====
exp    TODO   TODO
=====  =====  ====

``math.rsqrt`` is ``1 / sqrt(x)``, each correctly rounded (within 1.5 ulp in all).
"""

from __future__ import annotations

from wia_compiler.passes.expand_math.expand import ExpandMathPass, ExpandOptions, expand_math

__all__ = ["ExpandMathPass", "ExpandOptions", "expand_math"]

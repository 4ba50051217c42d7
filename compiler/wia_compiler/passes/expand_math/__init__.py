"""Transcendental ``math`` ops on f32 and f64 become ``arith`` ops and fused multiply-adds.

Nothing calls a library, so loops around them vectorise and every target computes the same. All
results are within 2 ulp of the correctly rounded one over the whole range, with IEEE's limits at
±0, ±inf and NaN, subnormal arguments and subnormal results. The largest errors seen against
mpmath and exact references (``tests/unit/test_llvm_expand_math.py`` holds them to the bound):

=====  ====  ====
op     f32   f64
=====  ====  ====
exp    1.07  1.00
exp2   0.77  0.86
log    0.80  0.77
log2   1.37  1.53
atan   0.77  0.71
tanh   1.48  1.46
erf    1.03  1.02
sin    1.50  0.75
cos    1.48  0.75
pow    0.50  1.13
rsqrt  1.48  1.43
=====  ====  ====

exp's 1.07 is that of CPUs with AVX-512, which look 2^(k/16) up; elsewhere it is 0.99.
``math.rsqrt`` is ``1 / sqrt(x)``, each correctly rounded (two roundings). One CPU gives the same
bits in scalars and in vectors of every size.
"""

from __future__ import annotations

from wia_compiler.passes.expand_math.expand import ExpandMathPass, ExpandOptions, expand_math

__all__ = ["ExpandMathPass", "ExpandOptions", "expand_math"]

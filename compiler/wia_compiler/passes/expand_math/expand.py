"""The pass that replaces each transcendental op by its expansion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import Float32Type, Float64Type, ModuleOp
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Operation

from wia_compiler.base.record import Level
from wia_compiler.dialects.walk import walk
from wia_compiler.passes.expand_math.arctangent import atan
from wia_compiler.passes.expand_math.builder import Expansion, Number, element_of
from wia_compiler.passes.expand_math.error_function import erf
from wia_compiler.passes.expand_math.exponential import exp, exp2, tanh
from wia_compiler.passes.expand_math.logarithm import log, log2
from wia_compiler.passes.expand_math.power import power
from wia_compiler.passes.expand_math.remainder import remainder
from wia_compiler.passes.expand_math.trigonometric import cos, sin
from wia_compiler.passes.framework import PassContext


@dataclass(frozen=True)
class ExpandOptions:
    """How a target likes rare cases.

    ``branches``: the reduction of very large f32 arguments of sin and cos stands in an ``scf.if``
    (good where one thread may branch alone); without it everything is computed and chosen from,
    so that loops vectorise. (f64 always branches.) ``remainders``: ``arith.remf`` is computed in
    place too, for targets that have no exact one. ``scales_vectors``: vectors are multiplied by
    powers of two, and elements of a table looked up, with AVX-512's instructions. ``approximates``:
    an op that says it may be approximate (``afn``) is left to an instruction of the target.
    """

    branches: bool = False
    remainders: bool = False
    scales_vectors: bool = False
    approximates: bool = False


@dataclass(frozen=True)
class ExpandMathPass:
    """``math.exp``, ``log``, ``tanh``, ``sin``, ``powf`` … → ``arith`` ops and ``math.fma``."""

    options: ExpandOptions = field(default_factory=ExpandOptions)

    name: ClassVar[str] = "expand-math"
    level: ClassVar[Level] = "low"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Replace every transcendental op of the module."""
        expand_math(module, self.options)


def expand_math(module: Operation, options: ExpandOptions | None = None) -> None:
    """Replace every transcendental op inside ``module``, in place.

    f16 and bf16 operands are refused with ``TypeError``: the mid level computes those in f32.
    """
    options = options or ExpandOptions()
    for op in [op for op in walk(module) if op.name in _RULES]:
        if op.name == "arith.remf" and not options.remainders:
            continue
        if options.approximates and may_approximate(op):
            continue
        if not isinstance(element_of(op.operands[0].type), Float32Type | Float64Type):
            raise TypeError(f"{op.name} of {op.operands[0].type}: expected f32 or f64")
        at = Expansion(op, scales_vectors=options.scales_vectors)
        result = _RULES[op.name]([at.number(each) for each in op.operands], options)
        result.value.name_hint = op.results[0].name_hint
        op.results[0].replace_all_uses_with(result.value)
        op.detach()
        op.erase()


def may_approximate(op: Operation) -> bool:
    """Whether a function may be computed by an instruction that is not accurate (``afn``)."""
    flags = op.properties.get("fastmath")
    if not isinstance(flags, FastMathFlagsAttr):
        return False
    return FastMathFlag.APPROX_FUNC in flags.data


_Rule = Callable[[list[Number], ExpandOptions], Number]

_RULES: dict[str, _Rule] = {
    "math.exp": lambda x, _: exp(x[0]),
    "math.exp2": lambda x, _: exp2(x[0]),
    "math.log": lambda x, _: log(x[0]),
    "math.log2": lambda x, _: log2(x[0]),
    "math.atan": lambda x, _: atan(x[0]),
    "math.tanh": lambda x, _: tanh(x[0]),
    "math.erf": lambda x, _: erf(x[0]),
    "math.powf": lambda x, _: power(x[0], x[1]),
    "arith.remf": lambda x, _: remainder(x[0], x[1]),
    "math.rsqrt": lambda x, _: 1.0 / x[0].sqrt(),
    "math.sin": lambda x, options: sin(x[0], branches=options.branches),
    "math.cos": lambda x, options: cos(x[0], branches=options.branches),
}

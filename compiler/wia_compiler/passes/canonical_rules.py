"""Identities that hold bit for bit under the numerics contract: for NaN, -0 and infinities too.

What is missing is missing on purpose: ``x + 0.0`` turns -0 into +0, ``x * 0`` loses NaN, ``x - x``
of an infinity is NaN, ``x * rsqrt(y)`` rounds otherwise than ``x / sqrt(y)``.
"""

from __future__ import annotations

from wia_compiler.dialects.wia.elementwise import ELEMENTWISE
from wia_compiler.passes.canonical_functions import (
    broadcast_of_broadcast,
    cast_of_widening_cast,
    cast_to_same,
    concat_of_one,
    constant_operand_as_scalar,
    divide_by_power_of_two,
    operand_without_broadcast,
    pad_of_nothing,
    permute_in_order,
    permute_of_permute,
    reduce_single_elements,
    reshape_of_reshape,
    reshape_to_same,
    slice_of_everything,
    slice_of_slice,
)
from wia_compiler.passes.rules import AnyRule, FunctionRule, Rule

ALGEBRA: tuple[Rule, ...] = (
    Rule("add(x, -0.0)", "x", "float"),
    Rule("sub(x, 0.0)", "x", "float"),
    Rule("add(x, 0)", "x", "integer"),
    Rule("sub(x, 0)", "x", "integer"),
    Rule("sub(x, x)", "0", "integer"),
    Rule("sub(0, x)", "neg(x)", "integer"),
    Rule("sub(-0.0, x)", "neg(x)", "float"),
    Rule("mul(x, 1)", "x"),
    Rule("mul(x, 0)", "0", "integer"),
    Rule("div(x, 1)", "x"),
    Rule("floordiv(x, 1)", "x", "integer"),
    Rule("mod(x, 1)", "0", "integer"),
    Rule("pow(x, 0)", "1"),
    Rule("pow(x, 1)", "x"),
    Rule("pow(x, 2)", "mul(x, x)"),
    Rule("add(x, neg(y))", "sub(x, y)"),
    Rule("sub(x, neg(y))", "add(x, y)"),
    Rule("mul(neg(x), neg(y))", "mul(x, y)"),
    Rule("neg(neg(x))", "x"),
    Rule("abs(neg(x))", "abs(x)", "signed"),
    Rule("abs(abs(x))", "abs(x)"),
    Rule("relu(relu(x))", "relu(x)"),
    Rule("max(x, x)", "x"),
    Rule("min(x, x)", "x"),
    Rule("max(x, -inf)", "x", "float"),
    Rule("min(x, inf)", "x", "float"),
    Rule("floor(floor(x))", "floor(x)"),
    Rule("ceil(ceil(x))", "ceil(x)"),
    Rule("round(round(x))", "round(x)"),
    Rule("floor(ceil(x))", "ceil(x)"),
    Rule("ceil(floor(x))", "floor(x)"),
    Rule("logical_not(logical_not(x))", "x"),
    Rule("logical_not(eq(x, y))", "ne(x, y)"),
    Rule("logical_not(ne(x, y))", "eq(x, y)"),
    Rule("logical_and(x, x)", "x"),
    Rule("logical_or(x, x)", "x"),
    Rule("logical_and(x, true)", "x"),
    Rule("logical_and(x, false)", "false"),
    Rule("logical_or(x, false)", "x"),
    Rule("logical_or(x, true)", "true"),
    Rule("eq(x, x)", "true", "exact"),
    Rule("ne(x, x)", "false", "exact"),
    Rule("eq(x, true)", "x", "exact"),
    Rule("ne(x, false)", "x", "exact"),
    Rule("where(true, x, y)", "x"),
    Rule("where(false, x, y)", "y"),
    Rule("where(c, x, x)", "x"),
    Rule("where(logical_not(c), x, y)", "where(c, y, x)"),
)

_BROADCASTING = tuple(row.name for row in ELEMENTWISE if len(row.tensor_parameters) > 1)
_SHAPING = ("reshape", "flatten")
_ORDERING = ("transpose", "permute")

STRUCTURE: tuple[FunctionRule, ...] = (
    FunctionRule("div(x, 2ᵏ) → mul(x, 2⁻ᵏ)", ("div",), divide_by_power_of_two),
    FunctionRule("cast(x: t, t) → x", ("cast",), cast_to_same),
    FunctionRule("cast(cast(x, wider), t) → cast(x, t)", ("cast",), cast_of_widening_cast),
    FunctionRule("reshape(x, its shape) → x", (*_SHAPING, "broadcast"), reshape_to_same),
    FunctionRule("reshape(reshape(x)) → reshape(x)", _SHAPING, reshape_of_reshape),
    FunctionRule("broadcast(broadcast(x)) → broadcast(x)", ("broadcast",), broadcast_of_broadcast),
    FunctionRule("permute(x, its order) → x", _ORDERING, permute_in_order),
    FunctionRule("permute(permute(x)) → permute(x)", _ORDERING, permute_of_permute),
    FunctionRule("slice(x, everything) → x", ("slice",), slice_of_everything),
    FunctionRule("slice(slice(x)) → slice(x)", ("slice",), slice_of_slice),
    FunctionRule("pad(x, nothing) → x", ("pad",), pad_of_nothing),
    FunctionRule("concat(x) → x", ("concat",), concat_of_one),
    FunctionRule("op(broadcast(x), y) → op(x, y)", _BROADCASTING, operand_without_broadcast),
    FunctionRule("op(x, splat) → op(x, scalar)", _BROADCASTING, constant_operand_as_scalar),
    FunctionRule(
        "reduce of one element → the element",
        ("reduce_max", "reduce_min"),
        reduce_single_elements,
    ),
)

CANONICAL: tuple[AnyRule, ...] = (*ALGEBRA, *STRUCTURE)

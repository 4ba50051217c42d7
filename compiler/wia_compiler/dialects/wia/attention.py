"""Scaled dot-product attention.

FLOP convention: the two matrix products, a multiply-add counting two, and five for each score
(scaling and softmax), whether it is masked or not.
"""

from __future__ import annotations

import math
from typing import Any

from wia_compiler.base.dtypes import BOOL
from wia_compiler.dialects.types import TensorSpec
from wia_compiler.dialects.wia.declaration import (
    Attributes,
    InferenceError,
    OpDeclaration,
    Operands,
    Parameter,
)
from wia_compiler.dialects.wia.formula import Algebra, Call
from wia_compiler.dialects.wia.rules import broadcast_shapes, describe, require_float, same_dtype


def _infer_attention(operands: Operands, attributes: Attributes) -> TensorSpec:
    query, key, value = (operands[name] for name in ("query", "key", "value"))
    for spec in (query, key, value):
        require_float(spec, "attention")
        if spec.rank < 2:
            raise InferenceError(
                f"attention needs …×length×width, found {describe(spec)}", "add the missing axes"
            )
    dtype = same_dtype((query, key, value))
    if query.shape[-1] != key.shape[-1]:
        raise InferenceError(
            f"attention: the last axis of {describe(query)} has size {query.shape[-1]}, that of "
            f"{describe(key)} {key.shape[-1]}",
            "queries and keys must have one width",
        )
    if key.shape[-2] != value.shape[-2]:
        raise InferenceError(
            f"attention: {describe(key)} has {key.shape[-2]} keys, {describe(value)} has "
            f"{value.shape[-2]} values",
            "each key has one value",
        )
    scale = attributes["scale"]
    if scale is not None and not isinstance(scale, int | float):
        raise InferenceError(
            f"attention's scale is a number or none, found {scale!r}", "none is 1 / sqrt(width)"
        )
    batch = _batch_shape(query, key, value, bool(attributes["enable_gqa"]))
    scores = (*batch, query.shape[-2], key.shape[-2])
    _check_mask(operands.get("mask"), scores, query)
    return TensorSpec((*batch, query.shape[-2], value.shape[-1]), dtype)


def _batch_shape(
    query: TensorSpec, key: TensorSpec, value: TensorSpec, grouped: bool
) -> tuple[int, ...]:
    """The leading axes, which broadcast; with ``grouped`` a key head serves several queries'."""
    if not grouped:
        leading = [TensorSpec(s.shape[:-2], s.dtype, s.label) for s in (query, key, value)]
        return broadcast_shapes(leading)
    ranks_fit = query.rank == key.rank == value.rank and query.rank >= 3
    heads = key.shape[-3] if ranks_fit else 0
    if not heads or value.shape[-3] != heads or query.shape[-3] % heads:
        raise InferenceError(
            f"attention with enable_gqa needs …×heads×length×width with heads of {describe(query)} "
            f"a multiple of those of {describe(key)} and {describe(value)}",
            "each key and value head serves as many query heads",
        )
    leading = [TensorSpec(s.shape[:-3], s.dtype, s.label) for s in (query, key, value)]
    return (*broadcast_shapes(leading), query.shape[-3])


def _check_mask(mask: TensorSpec | None, scores: tuple[int, ...], query: TensorSpec) -> None:
    if mask is None:
        return
    if mask.dtype != BOOL and mask.dtype != query.dtype:
        raise InferenceError(
            f"attention's mask is bool or {query.dtype}, found {describe(mask)}",
            "true keeps a score; a float is added to it",
        )
    fits = len(scores) >= mask.rank and all(
        size in (1, wanted)
        for size, wanted in zip(reversed(mask.shape), reversed(scores), strict=False)
    )
    if not fits:
        raise InferenceError(
            f"attention's mask {describe(mask)} does not stretch to the scores {list(scores)}",
            "its last two axes are queries and keys, or 1",
        )


def _attention_flops(operands: Operands, attributes: Attributes, result: TensorSpec) -> int:
    keys, width = operands["key"].shape[-2:]
    rows = result.num_elements // max(result.shape[-1], 1)
    if not result.shape[-1]:
        rows = math.prod(result.shape[:-1])
    return rows * keys * (2 * width + 2 * result.shape[-1] + 5)


def attention_scale(attributes: Attributes, width: int) -> float:
    """What scores are multiplied by: 1 / sqrt(width) unless the call says otherwise."""
    scale = attributes["scale"]
    if isinstance(scale, int | float):
        return float(scale)
    return 1.0 / math.sqrt(width) if width else 1.0


def _repeated_heads(value: Any, heads: int, a: Algebra[Any]) -> Any:
    """Each head as often in a row as there are query heads for it."""
    shape = a.spec(value).shape
    times = heads // shape[-3]
    if times == 1:
        return value
    return a.op("repeat_interleave", value, repeats=times, dim=len(shape) - 3)


def _attention(call: Call[Any], a: Algebra[Any]) -> Any:
    """softmax(query keyᵀ scale + mask) value, in f32 (f64 for f64) until the result is rounded.

    A row whose scores are all -inf has weights 0: exp(-inf - 0), divided by 1.
    """
    query, key, value = (a.widened(call[name]) for name in ("query", "key", "value"))
    if not a.spec(key).shape[-2] or not call.result.num_elements:
        return a.splat(0.0, call.result)
    if call.attributes["enable_gqa"]:
        heads = a.spec(query).shape[-3]
        key, value = (_repeated_heads(each, heads, a) for each in (key, value))
    scores = a.op("matmul", query, a.op("transpose", key))
    scale = attention_scale(call.attributes, a.spec(query).shape[-1])
    scores = _masked(a.op("mul", scores, a.constant(scale, scores)), call, a)
    axis = a.spec(scores).rank - 1
    largest = a.op("reduce_max", scores, dim=axis, keepdim=True)
    lowest = a.constant(-math.inf, scores)
    finite = a.op("where", a.op("eq", largest, lowest), a.constant(0, scores), largest)
    powers = a.op("exp", a.op("sub", scores, finite))
    total = a.total(powers, (axis,))
    nothing = a.op("eq", total, a.constant(0, total))
    divisor = a.op("where", nothing, a.constant(1, total), total)
    weights = a.op("div", powers, divisor)
    return a.cast(a.op("matmul", weights, value), call.result.dtype)


def _masked(scores: Any, call: Call[Any], a: Algebra[Any]) -> Any:
    """Scores with the mask added, or -inf where it is false or lies behind the diagonal."""
    mask, lowest = call.get("mask"), a.constant(-math.inf, scores)
    if mask is not None and a.spec(mask).dtype == BOOL:
        scores = a.op("where", mask, scores, lowest)
    elif mask is not None:
        scores = a.op("add", scores, a.widened(mask))
    if not call.attributes["causal"]:
        return scores
    queries, keys = a.spec(scores).shape[-2:]
    row = a.reshape(a.named("iota", {}, {"size": queries}), (queries, 1))
    column = a.named("iota", {}, {"size": keys})
    return a.op("where", a.op("le", column, row), scores, lowest)


ATTENTION: tuple[OpDeclaration, ...] = (
    OpDeclaration(
        "attention",
        "contraction",
        (
            Parameter("query"),
            Parameter("key"),
            Parameter("value"),
            Parameter("mask", "optional_tensor", None, aliases=("attn_mask",)),
            Parameter("causal", "attribute", False, aliases=("is_causal",)),
            Parameter("scale", "attribute", None),
            Parameter("enable_gqa", "attribute", False),
        ),
        _infer_attention,
        _attention_flops,
        "softmax(query @ keyᵀ * scale + mask) @ value (Vaswani et al., 2017). A bool mask keeps "
        "scores where it is true, a float mask is added; causal lets query i see keys 0 to i; "
        "scale left out is 1 / sqrt(width); with enable_gqa a key head serves several query heads.",
        primitive=False,
        formula=_attention,
        access="free",
        rule="floats of one dtype; …×L×E, …×S×E and …×S×V give …×L×V, leading axes broadcast; "
        "mask is bool or of the same dtype and broadcasts to …×L×S",
        numerics="Scores, weights and sums are in f32 (f64 for f64), the result is rounded once. A "
        "row whose scores are all -inf (fully masked) and one without keys give 0.",
    ).with_example(
        "attention(q, k, v, causal=true)",
        q=[[1.0, 0.0], [0.0, 1.0]],
        k=[[1.0, 0.0], [0.0, 1.0]],
        v=[[1.0, 2.0], [3.0, 4.0]],
    ),
)

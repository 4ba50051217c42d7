"""What numpy, torch and Python call the ops of the language."""

from __future__ import annotations

# Functions and methods by the op that they are; those with the op's own name are not listed.
FUNCTIONS: dict[str, str] = {
    "absolute": "abs",
    "fabs": "abs",
    "negative": "neg",
    "multiply": "mul",
    "subtract": "sub",
    "divide": "div",
    "true_divide": "div",
    "floor_divide": "floordiv",
    "remainder": "mod",
    "power": "pow",
    "maximum": "max",
    "minimum": "min",
    "equal": "eq",
    "not_equal": "ne",
    "less": "lt",
    "less_equal": "le",
    "greater": "gt",
    "greater_equal": "ge",
    "clip": "clamp",
    "rint": "round",
    "swapaxes": "transpose",
    "expand_dims": "unsqueeze",
    "broadcast_to": "broadcast",
    "expand": "broadcast",
    "concatenate": "concat",
    "cat": "concat",
    "mm": "matmul",
    "bmm": "matmul",
    "amax": "reduce_max",
    "amin": "reduce_min",
    "sum": "reduce_sum",
    "prod": "reduce_prod",
    "mean": "reduce_mean",
    "any": "reduce_any",
    "all": "reduce_all",
    "var": "variance",
    "scaled_dot_product_attention": "attention",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "view": "reshape",
    "repeat": "tile",
    "hard_sigmoid": "hardsigmoid",
    "swish": "silu",
}

KEYWORDS: dict[str, dict[str, str]] = {
    "attention": {"attn_mask": "mask", "is_causal": "causal"},
}
"""Keywords that other libraries call otherwise; every op knows ``axis`` and ``keepdims``."""

# Where libraries mean something else than the op of that name, and what to write.
REFUSED: dict[str, tuple[str, str]] = {
    "dot": ("dot means a sum over other axes for more than two of them", "write a @ b"),
    "print": ("a kernel prints nothing", "return what you want to see"),
    "einsum": ("einsum has no op", "write products, sums over axes and @"),
    "fmod": ("fmod has the sign of the dividend", "write a % b, which has that of the divisor"),
    "std_mean": ("two results at once have no op", "write std(x) and mean(x)"),
    "dropout": ("random numbers have no op", "leave it out: at inference it does nothing"),
    "rand": ("random numbers have no op", "pass the array in"),
    "randn": ("random numbers have no op", "pass the array in"),
}

NAN_IGNORING = frozenset(("fmax", "fmin", "nanmax", "nanmin", "nansum", "nanmean"))
"""Functions that pass over NaN, which no op does."""

LISTS = frozenset(("reshape", "permute", "broadcast", "tile", "flip"))
"""Ops whose numbers may stand one by one in a method: ``x.reshape(2, -1)``."""

LIBRARIES = frozenset(("numpy", "torch", "math", "jax", "scipy", "ml_dtypes"))
"""Modules whose functions are known by their names."""

"""What a wrong word was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

ELSEWHERE: dict[str, str] = {
    "absolute": "abs",
    "addmm": "matmul",
    "amax": "reduce_max",
    "amin": "reduce_min",
    "arange": "iota",
    "astype": "cast",
    "avgpool": "avg_pool",
    "batchnorm": "batch_norm",
    "bmm": "matmul",
    "broadcast_to": "broadcast",
    "clip": "clamp",
    "conv": "conv2d",
    "convolution": "conv2d",
    "crossentropy": "cross_entropy",
    "divide": "div",
    "dot": "matmul",
    "equal": "eq",
    "expand": "broadcast",
    "expand_dims": "unsqueeze",
    "flash_attention": "attention",
    "gather_nd": "gather",
    "gemm": "matmul",
    "greater": "gt",
    "groupnorm": "group_norm",
    "hard_sigmoid": "hardsigmoid",
    "hard_swish": "hardswish",
    "hstack": "concat",
    "inverse_sqrt": "rsqrt",
    "invert": "bitwise_not",
    "layernorm": "layer_norm",
    "less": "lt",
    "ln": "log",
    "log_sigmoid": "logsigmoid",
    "lookup": "embedding",
    "maxpool": "max_pool",
    "mean": "reduce_mean",
    "mean_squared_error": "mse_loss",
    "mm": "matmul",
    "multiply": "mul",
    "negative": "neg",
    "one_hot_encode": "one_hot",
    "power": "pow",
    "prod": "reduce_prod",
    "relu_6": "relu6",
    "repeat": "tile",
    "rmsnorm": "rms_norm",
    "sdpa": "attention",
    "softmax_cross_entropy": "cross_entropy",
    "subtract": "sub",
    "sum": "reduce_sum",
    "swapaxes": "transpose",
    "swish": "silu",
    "take": "index_select",
    "to": "cast",
    "view": "reshape",
    "vstack": "concat",
}
"""What NumPy, PyTorch, JAX and C call the ops of this language."""

DTYPE_ELSEWHERE: dict[str, str] = {
    "bfloat16": "bf16",
    "boolean": "bool",
    "byte": "u8",
    "char": "i8",
    "double": "f64",
    "float": "f32",
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "fp16": "f16",
    "fp32": "f32",
    "fp64": "f64",
    "half": "f16",
    "i1": "bool",
    "int": "i32",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "int8": "i8",
    "long": "i64",
    "short": "i16",
    "single": "f32",
    "uint8": "u8",
    "ui8": "u8",
}
"""What NumPy, PyTorch, MLIR and C call the dtypes of this language."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that looks most like ``word``, if one is near enough to be meant."""
    candidates = list(known)
    by_case = {each.lower(): each for each in candidates}
    if word.lower() in by_case:
        return by_case[word.lower()]
    cutoff = 0.6 if len(word) <= 4 else 0.7
    found = difflib.get_close_matches(word, candidates, n=1, cutoff=cutoff)
    return found[0] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint that names the nearest known word, or ``None``."""
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near is not None else None


def in_words(items: Iterable[str], conjunction: str = "or") -> str:
    """``a, b or c``."""
    listed = list(items)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} {conjunction} {listed[-1]}"


def with_article(noun: str) -> str:
    """``an input``, ``a scalar``."""
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"

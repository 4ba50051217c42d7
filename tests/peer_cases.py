"""Calls of ops that PyTorch and ONNX define too, with inputs that need no random generator.

The inputs are the same numbers everywhere and for ever, so that only the peers' results have to be
stored (``tests/data``, written by ``tools/record_torch.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Input:
    """Numbers of a shape: floats spread over [low, high), or whole numbers in it.

    ``special`` puts NaN, infinities and zeros of both signs among the first.
    """

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: str = "f32"
    special: bool = False

    def array(self, seed: int) -> Array:
        """The numbers, each a hash of its position (Knuth's multiplicative hash)."""
        count = int(np.prod(self.shape, dtype=np.int64))
        position = np.arange(count, dtype=np.uint64) + np.uint64(seed * 7919 + 1)
        mixed = (position * np.uint64(2654435761)) % np.uint64(1 << 32)
        spread = self.low + mixed.astype(np.float64) / 2.0**32 * (self.high - self.low)
        if self.dtype == "bool":
            return (spread > 0).reshape(self.shape)
        if self.dtype in ("i64", "i32", "i8", "u8"):
            kinds = {"i64": np.int64, "i32": np.int32, "i8": np.int8, "u8": np.uint8}
            return np.floor(spread).astype(kinds[self.dtype]).reshape(self.shape)
        values = spread.astype(np.float64 if self.dtype == "f64" else np.float32)
        if self.special:
            extremes = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, -1e-30, 100.0, -100.0]
            values[: len(extremes)] = extremes[: len(values)]
        return values.reshape(self.shape)


@dataclass(frozen=True)
class Case:
    """One call: the op, its inputs by parameter name, its attributes, PyTorch's spelling.

    ``torch`` is an expression over the inputs by name; left out, the function of the op's name in
    ``torch.nn.functional`` or ``torch`` takes inputs and attributes by name.
    """

    op: str
    inputs: Mapping[str, Input]
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    torch: str = ""
    tolerance: float = 2e-6

    def arrays(self) -> dict[str, Array]:
        """The inputs by name."""
        return {name: each.array(n) for n, (name, each) in enumerate(self.inputs.items())}


def x(*shape: int, **options: Any) -> Input:
    """An input of floats."""
    return Input(shape, **options)


def of(
    op: str, *shapes: Input, torch: str = "", tolerance: float = 2e-6, **attributes: Any
) -> Case:
    """A case whose inputs are ``input``, ``other`` …"""
    names = ("input", "other")
    return Case(op, dict(zip(names, shapes, strict=False)), attributes, torch, tolerance)


def classes(shape: Sequence[int], count: int) -> Input:
    """Class numbers."""
    return Input(tuple(shape), 0, count, "i64")


_SPECIAL = x(40, special=True)
_POSITIVE = x(40, low=0.0, high=5.0)

POINTWISE = (
    *(
        of(name, _SPECIAL)
        for name in (
            "abs",
            "exp",
            "exp2",
            "expm1",
            "floor",
            "ceil",
            "trunc",
            "sigmoid",
            "tanh",
            "erf",
            "relu",
            "relu6",
            "leaky_relu",
            "elu",
            "selu",
            "silu",
            "softplus",
            "mish",
            "logsigmoid",
            "hardtanh",
            "hardsigmoid",
            "hardswish",
            "softsign",
            "square",
            "isnan",
            "isinf",
            "isfinite",
            "sinh",
            "cosh",
            "atan",
            "asinh",
        )
    ),
    *(of(name, x(40, low=-1.5, high=1.5)) for name in ("asin", "acos", "atanh")),
    of("acosh", x(40, low=0.0, high=9.0)),
    of("round", x(40, low=-3.0, high=3.0)),
    of("sin", x(40, low=-9.0, high=9.0)),
    of("cos", x(40, low=-9.0, high=9.0)),
    of("tan", x(40, low=-1.4, high=1.4)),
    *(
        of(name, _POSITIVE)
        for name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal")
    ),
    of("gelu", x(40, low=-6.0, high=6.0)),
    of("gelu", _SPECIAL, approximate="tanh"),
    of("leaky_relu", x(40), negative_slope=0.3),
    of("elu", x(40), alpha=1.5),
    of("softplus", x(40, low=-30.0, high=30.0), beta=2.0, threshold=15.0),
    of("hardtanh", x(40), min_val=-0.5, max_val=1.25),
    of("sign", x(40)),
    of("glu", x(3, 8), dim=1),
    Case("prelu", {"input": x(2, 3, 4), "weight": x(3)}),
    Case("lerp", {"input": x(20), "end": x(20, low=-5.0), "weight": x(20, low=0.0, high=1.0)}),
    of("pow", _POSITIVE, x(40), torch="torch.pow(input, other)"),
    *(
        of(
            name,
            x(60, low=-50, high=50, dtype="i32"),
            x(60, low=1, high=9, dtype="i32"),
            torch=call,
        )
        for name, call in (
            ("bitwise_and", "input & other"),
            ("bitwise_or", "input | other"),
            ("bitwise_xor", "input ^ other"),
            ("bitwise_left_shift", "input << other"),
            ("bitwise_right_shift", "input >> other"),
            ("pow", "torch.pow(input, other)"),
            ("floordiv", "torch.floor_divide(input, other)"),
            ("mod", "torch.remainder(input, other)"),
        )
    ),
    of("bitwise_not", x(20, low=-50, high=50, dtype="i32")),
)

_MATRIX = x(5, 7)
_NAN_ROWS = x(3, 13, special=True)

FOLDS = (
    of("reduce_sum", _MATRIX, dim=1, torch="torch.sum(input, dim)"),
    of("reduce_prod", _MATRIX, dim=0, torch="torch.prod(input, dim)"),
    of("reduce_max", _NAN_ROWS, dim=1, torch="torch.amax(input, dim)"),
    of("reduce_min", _NAN_ROWS, dim=0, torch="torch.amin(input, dim)"),
    of("reduce_mean", _MATRIX, dim=(0, 1), keepdim=True, torch="torch.mean(input, dim, keepdim)"),
    of("reduce_any", x(4, 6, dtype="bool"), dim=1, torch="torch.any(input, dim)"),
    of("reduce_all", x(4, 6, dtype="bool"), dim=1, torch="torch.all(input, dim)"),
    of("variance", _MATRIX, dim=1, torch="torch.var(input, dim)"),
    of("variance", _MATRIX, dim=1, unbiased=False, torch="torch.var(input, dim, unbiased)"),
    of("std", _MATRIX, dim=0, keepdim=True, torch="torch.std(input, dim, keepdim=keepdim)"),
    of("logsumexp", _NAN_ROWS, dim=1),
    of("logsumexp", x(4, 9, low=-90.0, high=90.0), dim=(0, 1)),
    of("softmax", x(4, 9, low=-90.0, high=90.0), dim=1),
    of("log_softmax", x(4, 9, low=-90.0, high=90.0), dim=1),
    of("argmax", x(5, 20, low=-4, high=4, dtype="i32"), dim=1),
    of("argmin", x(5, 20, low=-4, high=4, dtype="i32"), dim=0, keepdim=True),
    of("argmax", _NAN_ROWS, dim=1),
    of("argmin", _MATRIX),
    of("cumsum", _MATRIX, dim=1),
    of("cumprod", _MATRIX, dim=-2),
    of("cumsum", x(30, low=-9, high=9, dtype="i64"), dim=0),
    Case(
        "layer_norm",
        {"input": x(3, 4, 6), "weight": x(4, 6), "bias": x(4, 6)},
        {"normalized_shape": (4, 6), "eps": 1e-3},
        tolerance=1e-5,
    ),
    Case(
        "rms_norm",
        {"input": x(3, 6), "weight": x(6)},
        {"normalized_shape": (6,), "eps": 1e-3},
        tolerance=1e-5,
    ),
    Case(
        "batch_norm",
        {
            "input": x(3, 4, 5),
            "running_mean": x(4),
            "running_var": x(4, low=0.1),
            "weight": x(4),
            "bias": x(4),
        },
        {"eps": 1e-3},
        tolerance=1e-5,
    ),
    Case(
        "group_norm",
        {"input": x(2, 6, 3, 3), "weight": x(6), "bias": x(6)},
        {"num_groups": 3},
        tolerance=1e-5,
    ),
    Case(
        "instance_norm",
        {"input": x(2, 3, 11), "weight": x(3), "bias": x(3)},
        {"eps": 1e-4},
        tolerance=1e-5,
    ),
)
"""Special values first in a row of NAN_ROWS reach every fold."""

_SIGNAL = x(2, 3, 17)
_IMAGE = x(2, 3, 9, 11)

WINDOWS = (
    of("max_pool1d", _SIGNAL, kernel_size=3),
    of("max_pool1d", _SIGNAL, kernel_size=4, stride=3, padding=2, dilation=2, ceil_mode=True),
    of("max_pool2d", _IMAGE, kernel_size=(3, 2), stride=2, padding=1, ceil_mode=True),
    of("max_pool2d", _IMAGE, kernel_size=3, stride=(1, 2), dilation=(2, 1)),
    of("max_pool2d", x(1, 1, 4, 10, special=True), kernel_size=2),
    of(
        "avg_pool1d",
        _SIGNAL,
        kernel_size=4,
        stride=3,
        padding=2,
        torch="F.avg_pool1d(input, kernel_size, stride, padding)",
    ),
    of(
        "avg_pool1d",
        _SIGNAL,
        kernel_size=4,
        stride=3,
        padding=2,
        ceil_mode=True,
        count_include_pad=False,
    ),
    of("avg_pool2d", _IMAGE, kernel_size=3, stride=2, padding=1),
    of("avg_pool2d", _IMAGE, kernel_size=3, stride=2, padding=1, ceil_mode=True),
    of(
        "avg_pool2d",
        _IMAGE,
        kernel_size=(2, 3),
        stride=(3, 2),
        padding=(1, 0),
        ceil_mode=True,
        count_include_pad=False,
    ),
    of("avg_pool2d", _IMAGE, kernel_size=2, divisor_override=3),
    of("adaptive_avg_pool2d", x(2, 3, 8, 12), output_size=(4, 3)),
    of("adaptive_avg_pool1d", x(2, 3, 12), output_size=4),
)

PRODUCTS = (
    of("matmul", x(3, 5), x(5, 4), tolerance=1e-5),
    of("matmul", x(2, 1, 3, 5), x(4, 5, 2), tolerance=1e-5),
    Case("linear", {"input": x(2, 3, 5), "weight": x(4, 5), "bias": x(4)}, tolerance=1e-5),
    Case(
        "conv1d",
        {"input": x(2, 4, 15), "weight": x(6, 2, 3), "bias": x(6)},
        {"stride": 2, "padding": 2, "dilation": 2, "groups": 2},
        tolerance=1e-5,
    ),
    Case(
        "conv1d", {"input": x(1, 2, 9), "weight": x(3, 2, 4)}, {"padding": "same"}, tolerance=1e-5
    ),
    Case(
        "conv2d",
        {"input": x(2, 4, 8, 9), "weight": x(6, 2, 3, 2), "bias": x(6)},
        {"stride": (2, 1), "padding": (1, 2), "dilation": (1, 2), "groups": 2},
        tolerance=1e-5,
    ),
    Case(
        "conv2d",
        {"input": x(1, 2, 7, 6), "weight": x(3, 2, 2, 3)},
        {"padding": "same"},
        tolerance=1e-5,
    ),
    Case(
        "conv2d",
        {"input": x(1, 2, 7, 6), "weight": x(3, 2, 2, 3)},
        {"padding": "valid"},
        tolerance=1e-5,
    ),
    Case(
        "conv_transpose1d",
        {"input": x(2, 4, 6), "weight": x(4, 3, 3), "bias": x(6)},
        {"stride": 3, "padding": 1, "output_padding": 2, "groups": 2},
        tolerance=1e-5,
    ),
    Case(
        "conv_transpose2d",
        {"input": x(2, 4, 5, 3), "weight": x(4, 2, 3, 4)},
        {
            "stride": (2, 3),
            "padding": (1, 3),
            "output_padding": (1, 0),
            "groups": 2,
            "dilation": (2, 1),
        },
        tolerance=1e-5,
    ),
    Case(
        "conv_transpose2d",
        {"input": x(1, 2, 4, 4), "weight": x(2, 3, 2, 2), "bias": x(3)},
        tolerance=1e-5,
    ),
)

_HEADS = {"query": x(2, 3, 5, 8), "key": x(2, 3, 7, 8), "value": x(2, 3, 7, 4)}
_ATTENTION = "F.scaled_dot_product_attention(query, key, value"

ATTENTION = (
    Case("attention", _HEADS, torch=f"{_ATTENTION})", tolerance=1e-5),
    Case(
        "attention",
        _HEADS,
        {"causal": True, "scale": 0.3},
        f"{_ATTENTION}, is_causal=True, scale=scale)",
        1e-5,
    ),
    Case(
        "attention",
        {**_HEADS, "mask": x(5, 7, dtype="bool")},
        torch=f"{_ATTENTION}, attn_mask=mask)",
        tolerance=1e-5,
    ),
    Case(
        "attention",
        {**_HEADS, "mask": x(3, 1, 7)},
        torch=f"{_ATTENTION}, attn_mask=mask)",
        tolerance=1e-5,
    ),
    Case(
        "attention",
        {"query": x(2, 6, 5, 8), "key": x(2, 2, 7, 8), "value": x(2, 2, 7, 4)},
        {"enable_gqa": True},
        f"{_ATTENTION}, enable_gqa=True)",
        1e-5,
    ),
)

_SCORES = {"input": x(6, 5), "target": classes((6,), 5)}
_PIXELS = {"input": x(2, 4, 3, 2), "target": classes((2, 3, 2), 4), "weight": x(4, low=0.1)}

LOSSES = (
    *(
        Case("cross_entropy", _SCORES, {"reduction": each}, tolerance=1e-5)
        for each in ("mean", "sum", "none")
    ),
    Case("cross_entropy", _SCORES, {"ignore_index": 2}, tolerance=1e-5),
    Case("cross_entropy", _PIXELS, {"ignore_index": 1, "label_smoothing": 0.2}, tolerance=1e-5),
    Case("cross_entropy", _PIXELS, {"reduction": "none", "label_smoothing": 0.1}, tolerance=1e-5),
    Case("nll_loss", _SCORES, tolerance=1e-5),
    Case("nll_loss", _PIXELS, {"reduction": "sum", "ignore_index": 0}, tolerance=1e-5),
    *(
        Case(
            name,
            {"input": x(4, 5), "target": x(4, 5, low=0.0, high=1.0)},
            {"reduction": each},
            tolerance=1e-5,
        )
        for name in ("mse_loss", "l1_loss", "binary_cross_entropy_with_logits")
        for each in ("mean", "none")
    ),
)

_COUNTED = x(2, 3, 4, low=-99, high=99, dtype="i32")

MOVES = (
    of("pad", x(2, 3, 5), pad=(1, 2, -1, 1), value=1.5),
    *(
        of("pad", x(2, 3, 5), pad=(2, 1), mode=mode)
        for mode in ("reflect", "replicate", "circular")
    ),
    of("flip", _COUNTED, dims=(0, 2)),
    of("roll", _COUNTED, shifts=(1, -2), dims=(0, 2)),
    of("roll", _COUNTED, shifts=5),
    of("tile", _COUNTED, dims=(2, 1, 3)),
    of("repeat_interleave", _COUNTED, repeats=3, dim=1),
    of("repeat_interleave", _COUNTED, repeats=2),
    of("pixel_shuffle", x(2, 8, 3, 2), upscale_factor=2),
    of("narrow", _COUNTED, dim=2, start=1, length=2),
    of("select", _COUNTED, dim=1, index=-1),
    of("chunk", _COUNTED, chunks=3, index=1, dim=2, torch="torch.chunk(input, chunks, dim)[index]"),
    of("squeeze", x(1, 3, 1, 2), dim=0),
    of("unsqueeze", _COUNTED, dim=-2),
    of("transpose", _COUNTED, dim0=0, dim1=2),
    of("permute", _COUNTED, dims=(2, 0, 1)),
    of("flatten", _COUNTED, start_dim=1),
    of("tril", x(2, 4, 5), diagonal=1),
    of("triu", x(2, 4, 5), diagonal=-1),
    Case(
        "index_select",
        {"input": _COUNTED, "index": classes((5,), 3)},
        {"dim": 1},
        "torch.index_select(input, dim, index)",
    ),
    Case(
        "gather",
        {"input": _COUNTED, "index": Input((1, 5, 4), 0, 3, "i64")},
        {"dim": 1},
        "torch.gather(input, dim, index)",
    ),
    Case("embedding", {"input": classes((2, 3), 6), "weight": x(6, 4)}),
    Case(
        "one_hot",
        {"input": classes((2, 3), 6)},
        {"num_classes": 7},
        "F.one_hot(input, num_classes)",
    ),
)

_SCALES = Input((3,), 0.05, 0.3)
QUANTIZED = (
    Case(
        "fake_quantize",
        {"input": x(40, low=-9.0, high=9.0), "scale": Input((1,), 0.0625, 0.0626)},
        {},
        "torch.fake_quantize_per_tensor_affine(input, float(scale), 0, -128, 127)",
    ),
    Case(
        "fake_quantize",
        {
            "input": x(4, 3, low=-9.0, high=9.0),
            "scale": _SCALES,
            "zero_point": Input((3,), -5, 5, "i32"),
        },
        {"axis": 1, "quant_min": -16, "quant_max": 15},
        "torch.fake_quantize_per_channel_affine(input, scale, zero_point, 1, -16, 15)",
    ),
)

CASES: tuple[Case, ...] = (
    *POINTWISE,
    *FOLDS,
    *WINDOWS,
    *PRODUCTS,
    *ATTENTION,
    *LOSSES,
    *MOVES,
    *QUANTIZED,
)

"""The meaning of running folds, of positions of extremes and of sliding windows, on numpy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from wia_compiler.base.dtypes import DType
from wia_compiler.dialects.wia.declaration import Attributes
from wia_compiler.dialects.wia.rules import normalize_axis
from wia_compiler.dialects.wia.windows import windowed_shape, windows_of
from wia_compiler.reference.elementwise import Meaning, Named
from wia_compiler.reference.reductions import spec_of_array
from wia_compiler.reference.rounding import Array, dtype_of_array, exact, round_fold, widen


def _position(function: Callable[..., Any]) -> Meaning:
    """numpy's argmax and argmin give the first position and let the first NaN win."""

    def meaning(operands: Named, attributes: Attributes) -> Array:
        x, keep = widen(operands["input"]), bool(attributes["keepdim"])
        if attributes["dim"] is None:
            found = np.asarray(function(x.reshape(-1), axis=0))
            shape = (1,) * x.ndim if keep else ()
            return found.reshape(shape).astype(np.int64)
        axis = normalize_axis(attributes["dim"], spec_of_array(operands["input"]))
        found = np.asarray(function(x, axis=axis))
        return (np.expand_dims(found, axis) if keep else found).astype(np.int64)

    return meaning


def _scan(function: Callable[..., Any]) -> Meaning:
    def meaning(operands: Named, attributes: Attributes) -> Array:
        x = operands["input"]
        dtype = dtype_of_array(x)
        axis = normalize_axis(attributes["dim"], spec_of_array(x))
        if not dtype.is_float:
            return np.asarray(function(x, axis=axis, dtype=dtype.numpy))
        return round_fold(np.asarray(function(exact(x), axis=axis)), dtype)

    return meaning


_WINDOW_FOLDS: dict[str, Callable[..., Any]] = {
    "max": np.max,
    "min": np.min,
    "sum": np.sum,
    "prod": np.prod,
}


def first_of(kind: str, dtype: DType) -> int | float:
    """The fold of no elements: 0, 1, or what every element replaces."""
    if kind in ("sum", "prod"):
        return int(kind == "prod")
    if dtype.is_float:
        return -math.inf if kind == "max" else math.inf
    limits = np.iinfo(dtype.numpy)
    return int(limits.min if kind == "max" else limits.max)


def _reduce_window(operands: Named, attributes: Attributes) -> Array:
    x, kind = operands["input"], str(attributes["kind"])
    dtype, windows = dtype_of_array(x), windows_of(attributes)
    shape = windowed_shape(spec_of_array(x), windows, "reduce_window")
    wide = (exact(x) if kind in ("sum", "prod") else widen(x)) if dtype.is_float else x
    if not math.prod(shape):
        return np.zeros(shape, dtype.numpy)
    kept = x.ndim - len(windows)
    margins = [(0, 0)] * kept + [(window.before, window.after) for window in windows]
    padded = np.pad(wide, margins, constant_values=np.asarray(first_of(kind, dtype), wide.dtype))
    axes = tuple(range(kept, x.ndim))
    views = sliding_window_view(padded, tuple(w.reach for w in windows), axis=axes)
    steps = tuple(slice(None, None, window.stride) for window in windows)
    taps = tuple(slice(None, None, window.dilation) for window in windows)
    views = views[(*([slice(None)] * kept), *steps, *taps)]
    folds = tuple(range(views.ndim - len(windows), views.ndim))
    options = {"dtype": wide.dtype} if kind in ("sum", "prod") else {}
    folded = np.asarray(_WINDOW_FOLDS[kind](views, axis=folds, **options))
    return round_fold(folded, dtype) if dtype.is_float else folded.astype(dtype.numpy)


SCAN_MEANING: dict[str, Meaning] = {
    "argmax": _position(np.argmax),
    "argmin": _position(np.argmin),
    "cumsum": _scan(np.cumsum),
    "cumprod": _scan(np.cumprod),
    "reduce_window": _reduce_window,
}

"""Functions that are written in others: their largest error on the CPU, in units of the last place.

Exact values are those of numpy's extended precision, 64 bits of mantissa.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import wia_compiler as wia

Array = np.ndarray[Any, Any]
pytestmark = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="numpy has no extended precision on this machine"
)

BOUND = 4.0
"""Units in the last place that docs/ops.md promises for each of them."""

FUNCTIONS = {
    "expm1": np.expm1,
    "log1p": np.log1p,
    "log10": np.log10,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sinh": np.sinh,
    "cosh": np.cosh,
}


def arguments(dtype: type[np.floating[Any]]) -> Array:
    """Special values, every magnitude, and dense intervals."""
    info = np.finfo(dtype)
    ends = [0.0, 1.0, 2.0, 0.5, info.max, info.tiny, info.smallest_subnormal, np.inf, np.nan]
    ends += [1 - info.epsneg, 1 + info.eps, 88.7, 89.0, 709.7, 710.4]
    spread = np.exp2(np.linspace(info.minexp, info.maxexp - 1, 6000).astype(np.longdouble))
    random = np.random.default_rng(5)
    dense = [random.uniform(0, limit, 6000) for limit in (1.0, 3.0, 30.0, 800.0)]
    with np.errstate(over="ignore"):
        positive = np.concatenate([np.array(ends), spread, *dense]).astype(dtype)
    return np.concatenate([positive, -positive])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_within_the_bound(name: str, dtype: type[np.floating[Any]]) -> None:
    x = arguments(dtype)
    if name == "tan":  # near its poles the error of cos(x), relative to 1, counts in full
        x = x[np.abs(x) < 1.5]
    kernel = wia.compile(f"kernel k(input x: tensor) {{ return {name}(x); }}")["k"]
    found = kernel(x)
    with np.errstate(all="ignore"):
        exact = FUNCTIONS[name](x.astype(np.longdouble))
        rounded = exact.astype(dtype)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(rounded))
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(rounded[finite]))
    unit = np.spacing(np.maximum(np.abs(rounded[finite]), np.finfo(dtype).tiny))
    errors = np.abs(found[finite].astype(np.longdouble) - exact[finite]) / unit
    worst = int(np.argmax(errors))
    assert errors[worst] <= BOUND, f"{name}({x[finite][worst]!r}): {float(errors[worst]):.2f} ulp"

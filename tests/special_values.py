"""Arrays of the values at which arithmetic surprises, and their bits."""

import numpy as np
from wia_compiler.base.dtypes import DTYPES


def specials(dtype: str) -> np.ndarray:
    """Signed zeros, ends of the range, subnormals, infinities and NaN of a dtype."""
    row = DTYPES[dtype]
    if row.is_float:
        values = [
            0.0,
            -0.0,
            1.0,
            -1.0,
            0.5,
            3.1,
            -2.75,
            8,
            1e-7,
            -6e-8,
            6e4,
            np.inf,
            -np.inf,
            np.nan,
        ]
        with np.errstate(all="ignore"):
            return np.array(values, np.float64).astype(row.numpy)
    if row.is_integer:
        ends = np.iinfo(row.numpy)
        return np.array([0, 1, 2, 3, 7, ends.min, ends.max, ends.max - 1], row.numpy)
    return np.array([False, True])


def bits(array: np.ndarray) -> np.ndarray:
    """The bits of an array, all NaN alike, so that -0 differs from +0."""
    if array.dtype.kind in "iub":
        return array
    wide = array.astype(np.float64)
    return np.where(np.isnan(wide), np.nan, wide).view(np.int64)


def assert_same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal dtype, shape and bits."""
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    np.testing.assert_array_equal(bits(found), bits(expected))

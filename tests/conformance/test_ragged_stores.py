"""The last, ragged vector of an array is written up to its last element and no further."""

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.dtypes import DTYPES

GUARD = 64
NARROW = ("i32", "i16", "i8", "u8", "bool", "f16", "bf16", "f32")


@pytest.mark.parametrize("size", [5, 9, 17, 33])
@pytest.mark.parametrize("source", ["f64", "f32", "i64", "i32"])
def test_casts_write_nothing_behind_an_array(source: str, size: int) -> None:
    names = [name for name in NARROW if name != source]
    values = ", ".join(f"cast(a, {name})" for name in names)
    kernel = wia.compile(f"kernel k(input a: tensor) {{ return {values}; }}").k
    a = np.arange(size).astype(DTYPES[source].numpy)
    guarded = [np.full((size + GUARD) * DTYPES[name].size_bytes, 0x5A, np.uint8) for name in names]
    found = [
        memory.view(DTYPES[name].numpy)[:size] for name, memory in zip(names, guarded, strict=True)
    ]
    kernel(a, out=tuple(found))
    for name, memory, result in zip(names, guarded, found, strict=True):
        behind = memory[size * DTYPES[name].size_bytes :]
        assert np.all(behind == 0x5A), f"{source} to {name}: bytes behind the array changed"
        np.testing.assert_array_equal(
            result.astype(np.float64), a.astype(DTYPES[name].numpy).astype(np.float64)
        )


@pytest.mark.parametrize("columns", [1, 7, 8, 9, 17])
def test_rows_of_a_product_in_bf16_keep_their_neighbours(columns: int) -> None:
    kernel = wia.compile("kernel k(input a: tensor, input b: tensor) { return a @ b; }").k
    random = np.random.default_rng(columns)
    a = random.normal(size=(3, 5, 7)).astype(ml_dtypes.bfloat16)
    b = random.normal(size=(3, 7, columns)).astype(ml_dtypes.bfloat16)
    memory = np.full((3 * 5 * columns + GUARD) * 2, 0x5A, np.uint8)
    found = memory.view(ml_dtypes.bfloat16)[: 3 * 5 * columns].reshape(3, 5, columns)
    kernel(a, b, out=found)
    assert np.all(memory[3 * 5 * columns * 2 :] == 0x5A)
    expected = wia.reference(kernel, a, b).astype(np.float64)
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=2**-7, atol=2**-7)

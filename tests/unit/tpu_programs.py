"""Assembly texts for tests, and a plain reading of what they must compute."""

from __future__ import annotations

import ml_dtypes
import numpy as np


def matmul_text(rows: int, columns: int, depth: int, dtype: str = "f32") -> str:
    """C = A @ B in tiles of the array, all rows past each tile of weights."""
    return f"""
.kernel matmul tpu:spec
.hbm A {dtype} {rows}x{depth} input
.hbm B {dtype} {depth}x{columns} input
.hbm C {dtype} {rows}x{columns} output
.vmem input_buffer bf16 {rows}x128 slots 2
.vmem weight_buffer bf16 128x128 slots 2
.accumulators sums {rows}x128 slots 2
loop %j, {columns}, 128
  clear sums, C[0 : {rows}, %j : 128 clip]
  loop %k, {depth}, 128
    dma_in weight_buffer, B[%k : 128 clip, %j : 128 clip]
    load_weights array, weight_buffer
    dma_in input_buffer, A[0 : {rows}, %k : 128 clip]
    stream_input array, input_buffer
    systolic_execute 128x128, sums
  end
  store_output C[0 : {rows}, %j : 128 clip], sums
end
"""


def systolic_matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the array gives, element by element: bf16 products, f32 sums down a column of 128."""
    left = a.astype(ml_dtypes.bfloat16).astype(np.float32)
    right = b.astype(ml_dtypes.bfloat16).astype(np.float32)
    out = np.zeros((a.shape[0], b.shape[1]), np.float32)
    for first in range(0, a.shape[1], 128):
        for row in range(out.shape[0]):
            for column in range(out.shape[1]):
                total = np.float32(0)
                for k in range(first, min(first + 128, a.shape[1])):
                    total = np.float32(total + np.float32(left[row, k] * right[k, column]))
                out[row, column] = np.float32(out[row, column] + total)
    return out

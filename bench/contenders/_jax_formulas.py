"""The families in JAX, for its own compiler and for IREE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def formulas() -> dict[str, Callable[..., Any]]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def layer_norm(x: Any, g: Any, b: Any) -> Any:
        centred = x - x.mean(1, keepdims=True)
        variance = (centred**2).mean(1, keepdims=True)
        return centred * lax.rsqrt(variance + 1e-5) * g + b

    def convolution(x: Any, w: Any, stride: int, padding: int) -> Any:
        return lax.conv_general_dilated(
            x,
            w,
            (stride, stride),
            [(padding, padding)] * 2,
            dimension_numbers=("NCHW", "OIHW", "NCHW"),
        )

    def batch_norm_relu(x: Any, m: Any, v: Any, g: Any, b: Any) -> Any:
        scale = g * lax.rsqrt(v + 1e-5)
        return jnp.maximum(x * scale[:, None, None] + (b - m * scale)[:, None, None], 0)

    def pool(x: Any, window: int, stride: int, padding: int) -> Any:
        border = [(0, 0), (0, 0), (padding, padding), (padding, padding)]
        sizes, strides = (1, 1, window, window), (1, 1, stride, stride)
        return lax.reduce_window(x, -jnp.inf, lax.max, sizes, strides, border)

    def small_cnn(x: Any, w1: Any, *others: Any) -> Any:
        *first, w2, m2, v2, g2, b2, fw, fb = others
        a = pool(batch_norm_relu(convolution(x, w1, 1, 1), *first), 2, 2, 0)
        c = batch_norm_relu(convolution(a, w2, 1, 1), m2, v2, g2, b2)
        return jax.nn.softmax(c.reshape(c.shape[0], -1) @ fw + fb, axis=-1)

    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("hqd,hkd->hqk", q * q.shape[-1] ** -0.5, k)
        return jax.nn.softmax(scores, axis=-1) @ v

    return {
        "elementwise": lambda x, z: (
            (jnp.minimum(jnp.maximum(1.7 * x - 0.3, 0) * z + 0.5, 6) - x) * 0.25
        ),
        "transcendental": lambda x: (
            jax.nn.gelu(x, approximate=True) * jax.nn.sigmoid(x) + jnp.exp(-x * x)
        ),
        "softmax": lambda x: jax.nn.softmax(x, axis=1),
        "layer_norm": layer_norm,
        "matmul": lambda a, b: a @ b,
        "matmul_bias_relu": lambda a, b, c: jnp.maximum(a @ b + c, 0),
        "conv_bias_relu": lambda x, w, b, stride, padding: jnp.maximum(
            convolution(x, w, stride, padding) + b[:, None, None], 0
        ),
        "batch_norm_relu": batch_norm_relu,
        "max_pool": lambda x: pool(x, 3, 2, 1),
        "small_cnn": small_cnn,
        "attention": attention,
        "sum": lambda x: x.sum(),
        "int8_matmul": lambda a, b: lax.dot(a, b, preferred_element_type=jnp.int32),
        "f16_weights": lambda a, b: a @ b.astype(jnp.float32),
    }

"""tinygrad's CPU device (clang) through TinyJit, without search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contenders import Contender

REQUIRES = ("tinygrad", "numpy")


def environment(threads: int) -> dict[str, str]:
    return {"CPU_COUNT": str(threads), "DEV": "CPU"}


def cache_environment(folder: str) -> dict[str, str]:
    return {"XDG_CACHE_HOME": folder, "CACHEDB": f"{folder}/cache.db"}


def _formulas(dtypes: Any) -> dict[str, Callable[..., Any]]:
    def batch_norm_relu(x: Any, m: Any, v: Any, g: Any, b: Any) -> Any:
        scale = g * (v + 1e-5).rsqrt()
        shift = b - m * scale
        return (x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)).relu()

    def small_cnn(x: Any, w1: Any, *others: Any) -> Any:
        *first, w2, m2, v2, g2, b2, fw, fb = others
        a = batch_norm_relu(x.conv2d(w1, padding=1), *first).max_pool2d((2, 2))
        c = batch_norm_relu(a.conv2d(w2, padding=1), m2, v2, g2, b2)
        return (c.flatten(1) @ fw + fb).softmax(-1)

    return {
        "elementwise": lambda x, z: (((1.7 * x - 0.3).relu() * z + 0.5).minimum(6) - x) * 0.25,
        "transcendental": lambda x: (
            0.5 * x * (1 + (0.7978845608028654 * (x + 0.044715 * x * x * x)).tanh()) * x.sigmoid()
            + (-x * x).exp()
        ),
        "softmax": lambda x: x.softmax(1),
        "layer_norm": lambda x, g, b: x.layernorm(eps=1e-5) * g + b,
        "matmul": lambda a, b: a @ b,
        "matmul_bias_relu": lambda a, b, c: (a @ b + c).relu(),
        "conv_bias_relu": lambda x, w, b, stride, padding: x.conv2d(
            w, b, stride=stride, padding=padding
        ).relu(),
        "batch_norm_relu": batch_norm_relu,
        "max_pool": lambda x: x.max_pool2d((3, 3), 2, padding=1),
        "small_cnn": small_cnn,
        "attention": lambda q, k, v: (q @ k.transpose(1, 2) * q.shape[-1] ** -0.5).softmax(-1) @ v,
        "sum": lambda x: x.sum(),
        "int8_matmul": lambda a, b: a.matmul(b, dtype=dtypes.int32),
        "f16_weights": lambda a, b: a @ b.cast(dtypes.float32),
    }


def make(threads: int) -> Contender:
    from importlib.metadata import version

    from tinygrad import Device, Tensor, TinyJit, dtypes

    device = Device[Device.DEFAULT]

    def compile(function: Any, arrays: list[Any]) -> Any:
        jitted = TinyJit(lambda *tensors: function(*tensors).realize())
        for _ in range(3):  # the first run traces, the second captures
            jitted(*arrays)
        return jitted

    def finish(result: Any) -> Any:
        device.synchronize()
        return result

    return Contender(
        f"{version('tinygrad')} {Device.DEFAULT}",
        _formulas(dtypes),
        adopt=lambda array: Tensor(array).realize(),
        to_numpy=lambda result: result.numpy(),
        compile=compile,
        finish=finish,
    )

"""PyTorch, eager."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from contenders import Contender

REQUIRES = ("torch",)


def formulas(torch: Any) -> dict[str, Callable[..., Any]]:
    """The families as a user of PyTorch writes them."""
    functional = torch.nn.functional

    def batch_norm_relu(x: Any, m: Any, v: Any, g: Any, b: Any) -> Any:
        return functional.batch_norm(x, m, v, g, b).relu_()

    def small_cnn(x: Any, w1: Any, *others: Any) -> Any:
        *first, w2, m2, v2, g2, b2, fw, fb = others
        a = functional.max_pool2d(batch_norm_relu(functional.conv2d(x, w1, padding=1), *first), 2)
        c = batch_norm_relu(functional.conv2d(a, w2, padding=1), m2, v2, g2, b2)
        return torch.softmax(c.flatten(1) @ fw + fb, -1)

    return {
        "elementwise": lambda x, z: (
            (torch.clamp_max(torch.relu(1.7 * x - 0.3) * z + 0.5, 6) - x) * 0.25
        ),
        "transcendental": lambda x: (
            functional.gelu(x, approximate="tanh") * torch.sigmoid(x) + torch.exp(-x * x)
        ),
        "softmax": lambda x: torch.softmax(x, 1),
        "layer_norm": lambda x, g, b: functional.layer_norm(x, x.shape[1:], g, b),
        "matmul": torch.matmul,
        "matmul_bias_relu": lambda a, b, c: torch.addmm(c, a, b).relu_(),
        "conv_bias_relu": lambda x, w, b, stride, padding: functional.conv2d(
            x, w, b, stride, padding
        ).relu_(),
        "batch_norm_relu": batch_norm_relu,
        "max_pool": lambda x: functional.max_pool2d(x, 3, 2, 1),
        "small_cnn": small_cnn,
        "attention": lambda q, k, v: functional.scaled_dot_product_attention(
            q[None], k[None], v[None]
        )[0],
        "sum": torch.sum,
        "int8_matmul": torch._int_mm,
        "f16_weights": lambda a, b: a @ b.float(),
    }


def load(threads: int) -> Any:
    """PyTorch on so many threads, without gradients."""
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return torch


def make(threads: int) -> Contender:
    torch = load(threads)
    return Contender(
        f"{torch.__version__} {torch.backends.cpu.get_cpu_capability()}",
        formulas(torch),
        adopt=torch.from_numpy,
        to_numpy=lambda result: result.numpy(),
    )

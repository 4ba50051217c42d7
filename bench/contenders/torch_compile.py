"""PyTorch through ``torch.compile``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from contenders import Contender
from contenders import torch as eager

REQUIRES = eager.REQUIRES
SHARES = "torch"
"""Whose environment it runs in."""


def cache_environment(folder: str) -> dict[str, str]:
    return {"TORCHINDUCTOR_CACHE_DIR": folder}


def make(threads: int) -> Contender:
    torch = eager.load(threads)

    def compile(function: Any, arrays: list[Any]) -> Any:
        torch._dynamo.reset()
        return torch.compile(function, dynamic=False)

    return replace(eager.make(threads), compile=compile)

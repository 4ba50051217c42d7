"""JAX's XLA on the CPU, jitted."""

from __future__ import annotations

import os
from typing import Any

from contenders import Contender
from contenders._jax_formulas import formulas

REQUIRES = ("jax[cpu]",)


def environment(threads: int) -> dict[str, str]:
    return {"JAX_PLATFORMS": "cpu"}


def cache_environment(folder: str) -> dict[str, str]:
    return {
        "JAX_COMPILATION_CACHE_DIR": folder,
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def make(threads: int) -> Contender:
    # XLA takes as many threads as it sees cores, and has no setting that is obeyed throughout.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])
    import jax

    def compile(function: Any, arrays: list[Any]) -> Any:
        return jax.jit(function)

    return Contender(
        jax.__version__,
        formulas(),
        adopt=jax.device_put,
        compile=compile,
        finish=lambda result: result.block_until_ready(),
    )

"""The GPU of this machine, or the stand-in that a rehearsal runs on."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from device import stand_in
from wia_compiler.backends.gpu.architecture import ARCHITECTURES


def device_of(*, rehearse: bool) -> tuple[Any, str]:
    """cupy and the newest architecture that the GPU runs; ``LookupError`` where there is none."""
    if rehearse:
        stand_in.install()
    elif importlib.util.find_spec("cupy") is None:
        raise LookupError("cupy is not installed: pip install cupy-cuda13x")
    cupy: Any = importlib.import_module("cupy")
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        raise LookupError(f"no GPU: {error}") from error
    if count == 0:
        raise LookupError("no GPU: cupy sees no device")
    have = int(cupy.cuda.Device().compute_capability)
    return cupy, [name for name, row in ARCHITECTURES.items() if row.runs_on(have)][-1]


def is_lost(cupy: Any) -> bool:
    """Whether a fault of a kernel ended the context: nothing runs in this process any more."""
    try:
        cupy.cuda.get_current_stream().synchronize()
    except Exception:
        return True
    return False

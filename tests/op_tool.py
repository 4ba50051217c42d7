"""tools/op_reference.py as a module: the examples of ops as kernels and arrays."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("op_reference", ROOT / "tools/op_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TOOL = _loaded()

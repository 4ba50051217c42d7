"""llvmlite, imported when it is first needed: it loads all of LLVM."""

from __future__ import annotations

from typing import Any


def llvm_binding() -> Any:
    """``llvmlite.binding``, which has no types of its own."""
    import llvmlite.binding as binding  # pyright: ignore[reportMissingTypeStubs]

    return binding

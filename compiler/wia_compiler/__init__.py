"""Source text in; a runnable kernel and a record of how it came about out.

    import wia_compiler as wia

    program = wia.compile("kernel scale(input A: tensor, output B: tensor) { B = A * 2.0; }")
    B = program.scale(A)

Everything is imported when it is first used, so that importing this package is quick.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import TYPE_CHECKING, Any

from wia_compiler.base.errors import (
    ArgumentError,
    CompileError,
    Diagnostic,
    OutOfRangeError,
    TargetError,
    VerificationError,
    WiaError,
)

if TYPE_CHECKING:
    import wia_compiler.runtime.ptx as ptx
    from wia_compiler.runtime.build import Build
    from wia_compiler.runtime.cache import cache
    from wia_compiler.runtime.doctor import doctor
    from wia_compiler.runtime.formatting import format
    from wia_compiler.runtime.kernel import Kernel
    from wia_compiler.runtime.program import Program, compile
    from wia_compiler.runtime.python_kernel import Inout, Output, Tensor, kernel
    from wia_compiler.runtime.reference_call import reference
    from wia_compiler.runtime.schedules import Schedule
    from wia_compiler.runtime.specs import Spec, spec
    from wia_compiler.runtime.targets import targets

__version__ = "0.1.0"

_LAZY = {
    "Build": "build",
    "Kernel": "kernel",
    "Program": "program",
    "Schedule": "schedules",
    "Spec": "specs",
    "cache": "cache",
    "compile": "program",
    "doctor": "doctor",
    "format": "formatting",
    "kernel": "python_kernel",
    "Inout": "python_kernel",
    "Output": "python_kernel",
    "Tensor": "python_kernel",
    "reference": "reference_call",
    "spec": "specs",
    "targets": "targets",
}

_MODULES = {"ptx": "runtime.ptx"}

__all__ = [
    "ArgumentError",
    "Build",
    "CompileError",
    "Diagnostic",
    "Inout",
    "Kernel",
    "OutOfRangeError",
    "Output",
    "Program",
    "Schedule",
    "Spec",
    "TargetError",
    "Tensor",
    "VerificationError",
    "WiaError",
    "__version__",
    "cache",
    "compile",
    "doctor",
    "format",
    "kernel",
    "ptx",
    "reference",
    "spec",
    "targets",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = importlib.import_module(f"{__name__}.{_MODULES[name]}")
    elif name in _LAZY:
        value = getattr(importlib.import_module(f"{__name__}.runtime.{_LAZY[name]}"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(types.ModuleType):
    """This package, in which ``reference`` stays the function.

    A room has that name too, and importing it would put the module in the function's place.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name == "reference" and isinstance(value, types.ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package

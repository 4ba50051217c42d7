"""``wia.reference``: what a kernel means, computed op by op on numpy."""

from __future__ import annotations

from typing import Any

from wia_compiler.runtime.arguments import array_specs, read_arguments
from wia_compiler.runtime.kernel import Kernel


def reference(kernel: Kernel, *arrays: Any, **keywords: Any) -> Any:
    """The result that every target is tested against; slow, and exact to the numerics contract.

    The kernel as written runs op by op on numpy, with the types that it has for these arguments.
    Takes arrays and numbers as the kernel does and gives new arrays: one, or a tuple of them. Inout
    arguments are left as they are. Raises ``ArgumentError`` and ``CompileError`` as a call does.
    """
    from wia_compiler.passes.pipeline import specialized
    from wia_compiler.reference.interpret import run_module

    arguments = read_arguments(kernel.signature, arrays, keywords, kernel.unit.bindings)
    specs = array_specs(kernel.signature, arguments.specs)
    module = specialized(kernel.unit.program, kernel.name, specs)
    results = run_module(module, kernel.name, arguments.arrays)
    return results[0] if len(results) == 1 else results

"""``wia.reference``: what a kernel means, computed op by op on numpy."""

from __future__ import annotations

from typing import Any

from wia_compiler.runtime.arguments import read_arguments
from wia_compiler.runtime.kernel import Kernel


def reference(kernel: Kernel, *arrays: Any, **keywords: Any) -> Any:
    """The result that every target is tested against; slow, and exact to the numerics contract.

    Takes arrays and numbers as the kernel does and gives new arrays: one, or a tuple of them. Inout
    arguments are left as they are. Raises ``ArgumentError`` as the kernel does.
    """
    from wia_compiler.reference.interpret import run

    arguments = read_arguments(kernel.signature, arrays, keywords, kernel.unit.bindings)
    results = run(kernel.unit.program, kernel.name, arguments.arrays)
    return results[0] if len(results) == 1 else results

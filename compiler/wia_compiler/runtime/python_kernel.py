"""``@wia.kernel``: a Python function as a kernel."""

from __future__ import annotations

import dataclasses
import types
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from wia_compiler.base.errors import ArgumentError, CompileError, Diagnostic
from wia_compiler.frontend import syntax
from wia_compiler.frontend.python.annotations import Inout as Inout
from wia_compiler.frontend.python.annotations import Output as Output
from wia_compiler.frontend.python.annotations import Tensor as Tensor
from wia_compiler.runtime.cache_key import KernelText
from wia_compiler.runtime.kernel import Kernel
from wia_compiler.runtime.program import kernel_units
from wia_compiler.runtime.session import Session, default_session


def kernel(function: object) -> Kernel:
    """The kernel that a Python function describes: a decorator.

    The function's text is read, never run: names of numpy and torch are ops, ``x @ w`` a matrix
    product, ``for i in range(N)`` a loop over elements. Numbers and arrays around the function are
    looked up when it is decorated; an array is looked up again at each call. Other kernels can be
    called. Raises ``CompileError`` with every fault, at its line of the file or cell.

    ::

        @wia.kernel
        def dense(x, w, bias):
            return torch.relu(x @ w + bias)
    """
    if not isinstance(function, types.FunctionType):
        raise ArgumentError(
            f"wia.kernel: got a {type(function).__name__}, expected a function\n"
            "  help: write @wia.kernel above def"
        )
    try:
        return kernel_of(function, default_session())
    except CompileError as error:
        raise error.with_traceback(None) from None  # the last frame is the user's own line


def kernel_of(function: types.FunctionType, session: Session) -> Kernel:
    """As ``kernel``, building in ``session``."""
    from wia_compiler.frontend.python.function import read_function
    from wia_compiler.frontend.python.merge import with_callees

    read = read_function(function, lambda value: isinstance(value, Kernel))
    own = syntax.Program(read.text.source, (read.kernel,))
    callees: list[Kernel] = list(read.callees.values())
    trees = [each.unit.tree for each in callees]
    program = with_callees(own, [tree for tree in trees if tree is not None])
    bindings = _bindings(read.known.names, callees, read.kernel)
    unit = kernel_units(program, bindings, "python")[read.kernel.name.text]
    how = ", ".join(f"{name} = {what}" for name, what in sorted(read.known.resolved.items()))
    key = KernelText("names", "", how)
    types_ = KernelText("signature", "", str(unit.signature))
    unit = dataclasses.replace(unit, texts=(*unit.texts, types_, key))
    made = Kernel(unit, session)
    made.__doc__ = function.__doc__
    made.__module__ = function.__module__
    return made


def _bindings(
    names: Mapping[str, Any], callees: list[Kernel], kernel: syntax.Kernel
) -> Mapping[str, Any]:
    """The function's own names first, then those that the kernels it calls were bound to.

    A name that stands for two things at once is refused.
    """
    for callee in callees:
        bound = {p.name.partition(".")[0] for p in callee.signature.parameters if p.role == "bound"}
        bound |= {number.name.partition(".")[0] for number in callee.unit.numbers}
        for name in bound:
            if name in names and not _same(names[name], callee.unit.bindings.get(name)):
                raise CompileError(
                    [
                        Diagnostic(
                            f"{name!r} is one thing in {kernel.name.text} and another in "
                            f"{callee.name}, which it calls",
                            hint="give one of them another name",
                        )
                    ]
                )
    return ChainMap(dict[str, Any](), names, *(callee.unit.bindings for callee in callees))  # pyright: ignore[reportArgumentType]


def _same(first: object, second: object) -> bool:
    """Whether two bound values are one array, or equal numbers."""
    if isinstance(first, int | float) and isinstance(second, int | float):
        return first == second
    return first is second

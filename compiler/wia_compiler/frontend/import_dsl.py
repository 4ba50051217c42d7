"""Syntax trees to the high level: one function a kernel, values named as in the text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.signature import KernelSignature
from wia_compiler.dialects.location import Origin, location
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.call_order import callees_first
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.signatures import signature_of
from wia_compiler.frontend.statements import import_kernel


@dataclass(frozen=True)
class ImportedProgram:
    """The functions of a program, what each kernel takes and gives, and its patterns."""

    module: ModuleOp
    kernels: dict[str, KernelSignature]
    patterns: tuple[PatternDeclaration, ...] = ()


def import_program(
    program: syntax.Program, bindings: Mapping[str, object] | None = None
) -> ImportedProgram:
    """The high-level IR of a program; ``CompileError`` carries the faults of all its kernels.

    ``kernel k(input A: tensor, output C: tensor) { C = relu(A); }`` becomes
    ``func.func @k(%A : !wia.tensor) -> !wia.tensor { %C = wia.relu %A … func.return %C }``.
    Values keep the user's names, a name that is set again becomes a value of its own, and every
    op has a location with its own token and the span of its text.
    """
    problems = Problems(program.source)
    for each in program.functions:
        problems.report("'func' is not available yet", each.span)
    for each in program.patterns:
        problems.report("'pattern' is not available yet", each.name.span)
    for each in program.schedules:
        problems.report(
            "'schedule' is not available yet",
            each.kernel.span,
            "remove the block; every target schedules its kernels by itself",
        )
    kernels = _by_name(program.kernels, problems)
    signatures = {
        name: signature_of(kernel, _count_returned(kernel), problems)
        for name, kernel in kernels.items()
    }
    functions: dict[str, func.FuncOp | None] = {}
    tokens = itertools.count()
    for kernel in callees_first(kernels, problems):
        name = kernel.name.text
        body = Body(signatures[name], signatures, functions, problems, tokens)
        functions[name] = import_kernel(kernel, body)
        _locate(functions[name], kernel, tokens)
    problems.raise_any()
    made = [functions[name] for name in kernels]
    return ImportedProgram(ModuleOp([each for each in made if each is not None]), signatures)


def _by_name(kernels: Sequence[syntax.Kernel], problems: Problems) -> dict[str, syntax.Kernel]:
    found: dict[str, syntax.Kernel] = {}
    for kernel in kernels:
        first = found.setdefault(kernel.name.text, kernel)
        if first is not kernel:
            problems.report(
                f"kernel {kernel.name.text!r} stands twice; the first is on line "
                f"{first.name.span.line}",
                kernel.name.span,
                "give one of them another name",
            )
    return found


def _count_returned(kernel: syntax.Kernel) -> int:
    returns = (each for each in kernel.body if isinstance(each, syntax.Return))
    return max((len(each.values) for each in returns), default=0)


def _locate(
    function: func.FuncOp | None, kernel: syntax.Kernel, tokens: itertools.count[int]
) -> None:
    if function is not None:
        function.location = location(Origin(next(tokens), kernel.name.span))

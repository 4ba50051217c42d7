"""Syntax trees to the high level: one function a kernel or func, values named as in the text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.schedule import Schedule
from wia_compiler.base.signature import KernelSignature
from wia_compiler.dialects.location import Origin, location
from wia_compiler.dialects.patterns import PatternDeclaration
from wia_compiler.dialects.wia.ops import DECLARATIONS
from wia_compiler.frontend import syntax
from wia_compiler.frontend.body import Body
from wia_compiler.frontend.bound_names import BoundNames
from wia_compiler.frontend.call_order import callees_first
from wia_compiler.frontend.calls import names_called
from wia_compiler.frontend.functions import with_bound
from wia_compiler.frontend.kernels import count_returned, import_kernel
from wia_compiler.frontend.notation import import_function
from wia_compiler.frontend.patterns import fused_functions, import_pattern
from wia_compiler.frontend.problems import Problems
from wia_compiler.frontend.schedules import import_schedules
from wia_compiler.frontend.signatures import signature_of
from wia_compiler.frontend.snippets import complete_snippet

Written = syntax.Kernel | syntax.Function


@dataclass(frozen=True)
class ImportedProgram:
    """The functions of a program, what each kernel takes and gives, patterns and schedules."""

    module: ModuleOp
    kernels: dict[str, KernelSignature]
    patterns: tuple[PatternDeclaration, ...] = ()
    schedules: tuple[Schedule, ...] = ()


def import_program(
    program: syntax.Program, bindings: Mapping[str, object] | None = None
) -> ImportedProgram:
    """The high-level IR of a program; ``CompileError`` carries the faults of all its kernels.

    ``kernel k(input A: tensor, output C: tensor) { C = relu(A); }`` becomes
    ``func.func @k(%A : !wia.tensor) -> !wia.tensor { %C = wia.relu %A … func.return %C }``, and so
    does ``func @k(%A: tensor) -> tensor { %C = relu(%A)  return %C }``. Values keep the user's
    names, a name that is set again becomes a value of its own, and every op has a location with its
    own token and the span of its text. ``bindings`` gives free names their values: arrays become
    arguments of role ``bound`` behind the others, numbers become literals, tuples stand for their
    elements.
    """
    return _Import(program, bindings or {}).run()


class _Import:
    """One program on its way to IR."""

    def __init__(self, program: syntax.Program, bindings: Mapping[str, object]):
        self.program = program
        self.bindings = bindings
        self.problems = Problems(program.source)
        self.tokens = itertools.count()
        self.signatures: dict[str, KernelSignature] = {}
        self.functions: dict[str, func.FuncOp | None] = {}

    def run(self) -> ImportedProgram:
        """Import everything; faults are raised together."""
        written = self._written()
        schedules = import_schedules(self.program.schedules, written, self.problems)
        helpers = self._helpers(written)
        everything = {**written, **helpers}
        for name, each in everything.items():
            self.signatures[name] = signature_of(each, _count_returned(each), self.problems)
        for each in callees_first(everything, self.problems):
            self._import(each)
        found = (
            import_pattern(pattern, self.problems, self.tokens) for pattern in self.program.patterns
        )
        patterns = tuple(each for each in found if each is not None)
        self.problems.raise_any()
        made = [self.functions[name] for name in everything]
        module = ModuleOp([each for each in made if each is not None])
        kernels = {name: self.signatures[name] for name in written}
        return ImportedProgram(module, kernels, patterns, schedules)

    def _written(self) -> dict[str, Written]:
        """Kernels and funcs by name, in order of the text."""
        bound = BoundNames(self.bindings)
        functions = [
            complete_snippet(each, bound) if each.snippet else each
            for each in self.program.functions
        ]
        found: dict[str, Written] = {}
        both: Sequence[Written] = [*self.program.kernels, *functions]
        for each in sorted(both, key=lambda one: one.span):
            first = found.setdefault(each.name.text, each)
            if first is not each:
                self.problems.report(
                    f"kernel {each.name.text!r} stands twice; the first is on line "
                    f"{first.name.span.line}",
                    each.name.span,
                    "give one of them another name",
                )
        return found

    def _helpers(self, written: Mapping[str, Written]) -> dict[str, Written]:
        """The kernels that only patterns define, where the text calls them."""
        called = {callee.text for each in written.values() for callee in names_called(each)}
        return {
            name: function
            for name, function in fused_functions(self.program.patterns).items()
            if name in called and name not in written and name not in DECLARATIONS
        }

    def _import(self, written: Written) -> None:
        name = written.name.text
        body = Body(
            self.signatures[name],
            self.signatures,
            self.functions,
            self.problems,
            self.tokens,
            BoundNames(self.bindings),
        )
        if isinstance(written, syntax.Function):
            body.in_notation = True
            function = import_function(written, body)
        else:
            function = import_kernel(written, body)
        self.functions[name] = function
        self.signatures[name] = with_bound(self.signatures[name], body)
        if function is not None:
            function.location = location(Origin(next(self.tokens), written.name.span))


def _count_returned(written: Written) -> int:
    if isinstance(written, syntax.Kernel):
        return count_returned(written)
    if written.results is not None:
        return len(written.results)
    returns = (node for node in syntax.walk(written.blocks) if isinstance(node, syntax.Return))
    return max((len(each.values) for each in returns), default=0)

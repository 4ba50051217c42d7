"""The module of a kernel as it stands after each step of the pipeline, up to a target's low level.

No machine code is made: this is what tests look at that are about the IR of every stage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import wia_compiler as wia
from wia_compiler.base.record import Stage
from wia_compiler.passes import pipeline
from wia_compiler.passes.recorder import Recorder
from wia_compiler.passes.target import ArraySpec, Artifact
from wia_compiler.runtime.arguments import array_specs, read_specs
from xdsl.dialects.builtin import ModuleOp

Visit = Callable[[Stage, ModuleOp], None]


class _NoCode:
    """A target that stops before code is made."""

    def __init__(self, target: Any):
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def generate(self, module: ModuleOp, context: object, arguments: object) -> Any:
        return Artifact(self.name, "", {}, {}), ()


def arguments_of(kernel: wia.Kernel, arguments: Sequence[Any]) -> tuple[ArraySpec, ...]:
    """Arrays or specs as the pipeline takes them."""
    specs = read_specs(kernel.signature, arguments, {}, kernel.unit.bindings)
    return array_specs(kernel.signature, specs)


def visit_stages(
    kernel: wia.Kernel, arguments: Sequence[Any], visit: Visit, target: str = "cpu"
) -> None:
    """Call ``visit`` with every stage that has a module, and that module, in order."""

    class Visiting(Recorder):
        def note(self, *arguments: Any, **keywords: Any) -> Stage:
            stage = super().note(*arguments, **keywords)
            visit(stage, self.module)
            return stage

    bound: Any = _NoCode(kernel.to(target).target)
    with mock.patch.object(pipeline, "Recorder", Visiting):
        program = kernel.unit.program
        pipeline.compile_kernel(program, kernel.name, arguments_of(kernel, arguments), bound)


def module_at(kernel: wia.Kernel, arguments: Sequence[Any], name: str) -> ModuleOp:
    """The module after one step of the CPU's pipeline, which stops there."""

    def stop(stage: Stage, module: ModuleOp) -> None:
        if stage.name == name:
            raise _Reached(module)

    try:
        visit_stages(kernel, arguments, stop)
    except _Reached as reached:
        return reached.module
    raise LookupError(f"no stage {name!r}")


class _Reached(Exception):
    """The stage that was looked for, and its module."""

    def __init__(self, module: ModuleOp):
        super().__init__()
        self.module = module

"""The stages of a kernel that exist before its shapes are known: source, import, inline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wia_compiler.base.record import Trace

if TYPE_CHECKING:
    from wia_compiler.runtime.kernel import Kernel


def preview(kernel: Kernel) -> Trace:
    """The record of a kernel as far as it goes for arguments of any shape."""
    from wia_compiler.passes.framework import PassContext
    from wia_compiler.passes.inline import Inline
    from wia_compiler.passes.recorder import Recorder

    unit, signature, target = kernel.unit, kernel.signature, kernel.target
    module = unit.program.module.clone()
    reached = {text.name for text in unit.texts}
    for function in list(module.ops):
        name = getattr(function, "sym_name", None)
        if name is not None and name.data not in reached:
            function.detach()
            function.erase()
    recorder = Recorder(module, PassContext(signature.source, kernel.name, target.facts))
    recorder.begin(signature)
    recorder.run(Inline())
    source = signature.source
    return Trace(
        kernel.name, str(signature), target.name, source.text, tuple(recorder.stages), source.name
    )

"""Dead code: removes what no result needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.wia.ops import ConstantOp, FusedOp, TensorOp, label_of
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import kernel_function


@dataclass(frozen=True)
class Dce:
    """Removes ops whose results nothing uses, from the last to the first.

    ``%1 = wia.exp %x`` with no use of ``%1`` → nothing. All ops of the level are pure.
    """

    name: ClassVar[str] = "dce"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Remove the dead ops of the context's kernel."""
        for op in reversed(list(kernel_function(module, context.kernel).body.block.ops)):
            unused = all(result.first_use is None for result in op.results)
            if not unused or not isinstance(op, ConstantOp | FusedOp | TensorOp):
                continue
            if not isinstance(op, ConstantOp):
                name = op.results[0].name_hint or label_of(op)
                subjects = tuple(filter(None, [context.id_of(op)]))
                reason = f"no result of the kernel needs {name}"
                context.decisions.append(Decision("dce", name, True, reason, {}, subjects))
            op.detach()
            op.erase()

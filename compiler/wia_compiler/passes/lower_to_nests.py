"""High to mid level: every fused group and lone op becomes a nest, called by one host function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Level
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.nests.host import HostLowering


@dataclass(frozen=True)
class LowerToNestsPass:
    """Turn the kernel over tensors into a host function over memrefs and the nests it calls.

    ``strides`` are those of the inputs in elements, ``None`` for C order; left out, all are in C
    order. Outputs and intermediates are in C order. Functions other than the kernel are dropped:
    they were inlined. Nests that are equal are one function with several calls.

    ::

        func @k(%a, %b) { %0 = wia.fused @k0 … return %0 }
          →  func @k(%a, %b, %out) { call @k0(%a, %b, %out) }   func @k0(…) { tile.for … }
    """

    strides: Sequence[tuple[int, ...] | None] = ()

    name: ClassVar[str] = "loops"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite ``module`` in place."""
        functions = [op for op in module.ops if isinstance(op, func.FuncOp)]
        named = [op for op in functions if op.sym_name.data == context.kernel]
        (kernel,) = named or functions[:1]
        host, nests = HostLowering(kernel, self.strides, context).run()
        for op in functions:
            op.detach()
            op.erase()
        module.body.block.add_ops([host, *nests])

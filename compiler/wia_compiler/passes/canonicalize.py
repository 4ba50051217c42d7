"""Brings ops into one preferred form with the same value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Level
from wia_compiler.passes.block_rules import simplify_blocks
from wia_compiler.passes.canonical_rules import CANONICAL
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.kernel_function import kernel_function, update_function_type
from wia_compiler.passes.rules import apply_rules


@dataclass(frozen=True)
class Canonicalize:
    """Applies the rows of ``canonical_rules`` to ops and ``block_rules`` to blocks.

    ``%1 = wia.neg %x``, ``%2 = wia.neg %1`` → ``%x``. Every rule keeps the value bit for bit;
    each rewrite is a decision of kind ``rewrite`` or ``branch``.
    """

    name: ClassVar[str] = "canonicalize"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite the context's kernel."""
        function = kernel_function(module, context.kernel)
        simplify_blocks(function, context)
        apply_rules(function, CANONICAL, context)
        update_function_type(function)

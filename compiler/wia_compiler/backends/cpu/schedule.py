"""The default schedule of a CPU."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Level
from wia_compiler.passes.framework import PassContext


@dataclass(frozen=True)
class SchedulePass:
    """Nests in the form in which their inner loops vectorise."""

    name: str = "schedule"
    level: Level = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Schedule every nest of the module in place."""

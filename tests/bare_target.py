"""A target without passes of its own, for tests of what all targets share."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from wia_compiler.base.record import Stage
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.framework import Pass, PassContext
from wia_compiler.passes.target import ArraySpec, Artifact
from xdsl.dialects.builtin import ModuleOp

BARE_FACTS = TargetFacts(
    "bare", register_capacity=64, bytes_per_flop=0.1, launch_cost_bytes=100_000
)


@dataclass(frozen=True)
class BareTarget:
    """Leaves unscheduled nests and makes no code."""

    facts: TargetFacts = BARE_FACTS
    own_passes: tuple[Pass, ...] = ()
    name: str = "bare"
    options: tuple[str, ...] = ()
    asked: list[tuple[ArraySpec, ...]] = field(default_factory=list[tuple[ArraySpec, ...]])

    def passes(self) -> Sequence[Pass]:
        """Those the test gives it."""
        return self.own_passes

    def generate(
        self, module: ModuleOp, context: PassContext, arguments: Sequence[ArraySpec]
    ) -> tuple[Artifact, Sequence[Stage]]:
        """Nothing; notes for what it was asked."""
        self.asked.append(tuple(arguments))
        return Artifact(self.name, context.kernel, {}, {}), [Stage("text", "machine", "x86", "")]

    def load(self, artifact: Artifact) -> Any:
        """Cannot run."""
        raise NotImplementedError

"""What a pass is, what it is given, and how running it is recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from xdsl.dialects.builtin import ModuleOp

from wia_compiler.base.record import Decision, Level
from wia_compiler.base.source import Source
from wia_compiler.passes.facts import TargetFacts
from wia_compiler.passes.options import DEFAULT_OPTIONS, CompileOptions


@dataclass
class PassContext:
    """What every pass may ask: the text it came from, the kernel, facts of the target, options.

    A pass appends its choices to ``decisions``. ``ids`` gives the id that the stage before the
    pass has for an op (for ``Decision.subjects``). A pass that gives ops new location tokens notes
    in ``copied_tokens`` which tokens of the stage before each of them stands for.
    """

    source: Source
    kernel: str
    facts: TargetFacts
    decisions: list[Decision] = field(default_factory=list[Decision])
    ids: dict[int, str] = field(default_factory=dict[int, str])
    copied_tokens: dict[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    options: CompileOptions = DEFAULT_OPTIONS

    def id_of(self, op: object) -> str:
        """The id of an op in the stage before the pass; empty where it did not exist."""
        return self.ids.get(id(op), "")


class Pass(Protocol):
    """One step: takes valid IR, leaves valid IR. A frozen dataclass whose fields are its options.

    ``name`` is the stage's: what dumps, cache and widgets call it. ``level`` is that of the IR that
    the pass leaves.
    """

    name: ClassVar[str]
    level: ClassVar[Level]

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite ``module`` in place; a program that is wrong raises ``CompileError``."""
        ...

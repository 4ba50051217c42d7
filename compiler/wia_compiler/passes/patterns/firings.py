"""A budget on firings: patterns that feed themselves are an error, never a hang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation

from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.patterns.pattern import Pattern


@dataclass
class Firings:
    """What patterns did to one kernel so far, and how much more they may do.

    ``generation`` says of an op how many firings lie behind it, one working on what another made.
    A program of n ops has little more than n of them in a row, unless patterns feed themselves.
    """

    most_in_a_row: int
    most: int
    generation: dict[Operation, int] = field(default_factory=dict[Operation, int])
    count: int = 0
    names: list[str] = field(default_factory=list[str])
    kept: list[Operation] = field(default_factory=list[Operation])

    @staticmethod
    def of(ops: int, patterns: int) -> Firings:
        """The budget of a kernel with that many ops and patterns."""
        return Firings(most_in_a_row=ops + 2 * patterns + 8, most=4 * ops + 64)

    def note(
        self,
        pattern: Pattern,
        matched: Sequence[TensorOp],
        made: Sequence[Operation],
        what: str,
    ) -> None:
        """Count a firing that did ``what``; ``CompileError`` at the pattern if it is one too many.

        The ops that went are kept, so that nothing new is taken for one of them.
        """
        behind = 1 + max(self.generation.get(op, 0) for op in matched)
        self.generation |= dict.fromkeys(made, behind)
        self.count += 1
        self.names.append(pattern.name)
        self.kept += matched
        if behind <= self.most_in_a_row and self.count <= self.most:
            return
        cycle = list(dict.fromkeys(self.names[-self.most_in_a_row :]))
        others = [name for name in cycle if name != pattern.name]
        beside = f", with {', '.join(repr(name) for name in others)}," if others else ""
        raise pattern.fault(
            f"it{beside} fires on what it made ({what}), {behind} times in a row",
            "write a rewrite that the match does not match again; "
            "operands of commutative ops match in either order",
        )

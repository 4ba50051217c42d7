"""What a schedule asked of leaves and the code of these leaves does not do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wia_compiler.base.record import Decision
from wia_compiler.dialects.leaf_hints import noted_lanes, streamed_outputs
from wia_compiler.dialects.loop_hints import lost_hints
from wia_compiler.dialects.tile import ComputeOp

Spelling = Literal["tile", "lanes", "scalars"]
"""As a register tile, as vectors along a row, point by point."""

_NO_VECTORS = (
    "its points are computed one by one: an array has no element beside the next along the axis, "
    "or an op of the body has no form for vectors"
)
_NO_STREAM = (
    "what it writes goes through the caches: stores past them take whole vectors along the rows of "
    "an array"
)


@dataclass
class Unmet:
    """Directives of one nest that found nothing to act on, each once.

    ``axes`` are those whose loops were written out before a hint of theirs could be.
    """

    axes: dict[str, None] = field(default_factory=dict[str, None])
    lines: dict[str, None] = field(default_factory=dict[str, None])

    def note(self, leaf: ComputeOp, spelling: Spelling) -> None:
        """Note what a leaf that was lowered that way was asked for in vain."""
        self.axes |= dict.fromkeys(lost_hints(leaf))
        lanes = noted_lanes(leaf)
        if lanes is not None and spelling == "scalars":
            self.lines |= {f"vectorize {lanes[0]} {lanes[1]}: {_NO_VECTORS}": None}
        if spelling != "lanes":
            for output in sorted(streamed_outputs(leaf)):
                name = leaf.outputs[output].name_hint or "a result"
                self.lines |= {f"stream {name}: {_NO_STREAM}": None}

    def decisions(self, nest: str) -> list[Decision]:
        """A decision for each."""
        reason = "no loop is left for it: its points are written out"
        return [
            *(Decision("expand", f"{nest}: {axis}", False, reason) for axis in self.axes),
            *(Decision("warning", nest, True, line) for line in self.lines),
        ]

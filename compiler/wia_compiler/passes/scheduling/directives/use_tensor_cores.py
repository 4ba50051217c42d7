"""``use_tensor_cores``: products by units that multiply whole tiles."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "use_tensor_cores"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Refused by every target so far: none spells a contraction with such a unit from nests."""
    raise IllegalRewrite(
        f"{nest.facts.name} spells no leaf with tensor cores",
        hint="leave the line out: products run on its vector or scalar units",
    )

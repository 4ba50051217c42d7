"""``use_tensor_cores``: products by units that multiply whole tiles."""

from __future__ import annotations

from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite

SYNTAX = "use_tensor_cores [tf32]"


def apply(nest: ScheduledNest, directive: Directive) -> None:
    """Refused here: a target with such units follows the whole schedule of a product by itself."""
    raise IllegalRewrite(
        f"{nest.facts.name} spells no leaf with tensor cores",
        hint="leave the line out: products run on its vector or scalar units",
    )

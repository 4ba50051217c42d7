"""A user's schedule of a product by warpgroups.

::

    tile i 128, j 256, k 64;      rows 64 or 128, columns 64, 128 or 256, 128 bytes of k
    pipeline k 4;                 tiles in shared memory
    use_tensor_cores

Sizes that ``wgmma`` has not, a tile of warps (``tile i 64 @warp``) and operands that no tensor map
takes are for ``mma.sync``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.hopper_product import HopperProduct, NoHopperProduct, hopper_product
from wia_compiler.backends.gpu.hopper_schedule import COLUMN_TILES, ROW_TILES, hopper_as_written
from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.apply import without_units
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite

_LEVELS = (None, "grid", "block")


def warpgroups_as_written(
    nest: ScheduledNest, directives: Sequence[Directive], architecture: Architecture
) -> Choice | None:
    """Schedule a product as lines with ``use_tensor_cores`` say; ``None`` where it is no wgmma's.

    ``IllegalRewrite`` for stages that shared memory does not hold.
    """
    if not architecture.is_specific:
        return None
    try:
        product = hopper_product(nest.function)
    except NoHopperProduct:
        return None
    lines = [line for each in directives if (line := without_units(nest, each)) is not None]
    if any(not _is_known(line) for line in lines):
        return None
    tiles = _numbers(nest, lines, "tile")
    stages = _numbers(nest, lines, "pipeline")
    if not _fits(tiles, product) or not set(stages) <= {product.fold}:
        return None
    made = hopper_as_written(nest.function, product, tiles, stages.get(product.fold), architecture)
    return replace(made, reason=f"as the schedule says: {made.reason}")


def _is_known(line: Directive) -> bool:
    match line.name:
        case "tile":
            return line.level in _LEVELS
        case "use_tensor_cores":
            return not line.entries
        case _:
            return line.name == "pipeline"


def _numbers(nest: ScheduledNest, lines: Sequence[Directive], name: str) -> dict[str, int]:
    """Sizes or stages by axis."""
    found: dict[str, int] = {}
    for line in lines:
        for entry in line.entries if line.name == name else ():
            axis = nest.check_axis(entry)
            if axis in found:
                raise IllegalRewrite(f"{name} of axis {axis!r} stands twice", span=entry.span)
            found[axis] = number_of(line, entry, "number")
    return found


def _fits(tiles: dict[str, int], product: HopperProduct) -> bool:
    """Whether tiles are some that ``wgmma`` has."""
    choices = {
        product.rows: ROW_TILES,
        product.columns: COLUMN_TILES,
        product.fold: (product.row_elements,),
    }
    return all(size in choices.get(axis, ()) for axis, size in tiles.items())

"""A user's schedule of a product on tensor cores: tiles of blocks and of warps, and stages.

::

    tile i 128, j 128, k 32;      what a block takes of each axis; of k, at a time
    tile i 64, j 32 @warp;        what a warp takes of that
    pipeline k 3;                 tiles in shared memory: one in use, two on their way
    use_tensor_cores

What a line leaves open is chosen as it is without a schedule.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.matrix_choice import choose_tiles
from wia_compiler.backends.gpu.matrix_tiles import (
    ASYNC_SINCE,
    STAGES_OF_REGISTERS,
    fault_of,
)
from wia_compiler.backends.gpu.matrix_units import NoMatrixUnit
from wia_compiler.backends.gpu.product_sides import sides_of
from wia_compiler.backends.gpu.schedule_contraction import schedule_contraction
from wia_compiler.backends.gpu.schedule_elementwise import schedule_elementwise
from wia_compiler.backends.gpu.schedule_tensor_cores import (
    ROUNDED,
    TENSOR_CORES,
    Product,
    product_of,
    product_sizes,
    tile_for_tensor_cores,
)
from wia_compiler.base.schedule import Directive
from wia_compiler.passes.scheduling.apply import without_units
from wia_compiler.passes.scheduling.hints import has_empty_array
from wia_compiler.passes.scheduling.nest import ScheduledNest, number_of
from wia_compiler.passes.tile_rewrites import IllegalRewrite

_BLOCK_LEVELS = (None, "grid", "block")


def asks_for_tensor_cores(directives: tuple[Directive, ...]) -> bool:
    """Whether a schedule says ``use_tensor_cores``."""
    return any(line.name == TENSOR_CORES for line in directives)


def tensor_cores_as_written(
    nest: ScheduledNest, directives: tuple[Directive, ...], architecture: Architecture
) -> Choice:
    """Schedule a product as a user says; ``IllegalRewrite`` where tensor cores cannot do that."""
    (asked,) = [line for line in directives if line.name == TENSOR_CORES][:1]
    if (left := _without_a_product(nest, architecture)) is not None:
        return left
    try:
        product = product_of(nest.function, architecture, tf32=_asks_for_tf32(asked))
    except NoMatrixUnit as why:
        raise IllegalRewrite(str(why), hint=why.hint, span=asked.span) from None
    written = _read(nest, directives, product)
    sizes = product_sizes(nest.function, product)
    tiles = choose_tiles(sizes, product.unit, architecture, **written.fields)
    fault = fault_of(tiles, product.unit, architecture)
    if fault is not None:
        chosen = choose_tiles(sizes, product.unit, architecture)
        shown = f"{tiles.rows} × {tiles.columns} × {tiles.depth}"
        raise IllegalRewrite(
            f"a block cannot take {shown} in warps of {tiles.warp_rows} × {tiles.warp_columns}: "
            f"{fault}",
            hint=f"the target would take {chosen.rows} × {chosen.columns} × {chosen.depth} in "
            f"warps of {chosen.warp_rows} × {chosen.warp_columns}",
        )
    if architecture.capability < ASYNC_SINCE and tiles.stages > STAGES_OF_REGISTERS:
        raise IllegalRewrite(
            f"{tiles.stages} stages on {architecture.name}: without asynchronous copies, threads "
            "carry one tile ahead in registers",
            hint=f"pipeline {product.sides.fold} {STAGES_OF_REGISTERS}",
        )
    made = tile_for_tensor_cores(nest.function, product, tiles)
    return replace(made, reason=f"as the schedule says: {made.reason}")


def _without_a_product(nest: ScheduledNest, architecture: Architecture) -> Choice | None:
    """The target's own choice where an axis of a product has one point, or none for these arrays.

    One schedule then serves arguments of every size. ``None`` for a nest with a product.
    """
    folding = [leaf for leaf in nest.leaves() if leaf.folds]
    if len(folding) == 1 and sides_of(nest.function, folding[0]) is not None:
        return None
    if nest.unit_axes() and folding:
        units = ", ".join(nest.unit_axes())
        nest.warn(f"with one point of {units} there is no tile to share: the target chose")
        return schedule_contraction(nest.function, architecture)
    if not folding and has_empty_array(nest):
        nest.warn("of nothing there is no tile to share: the target chose")
        return schedule_elementwise(nest.function, architecture)
    return None


def _asks_for_tf32(line: Directive) -> bool:
    words = list(map(str, line.entries))
    if words not in ([], [ROUNDED]):
        raise IllegalRewrite(
            f"{TENSOR_CORES} takes the word {ROUNDED} or none, found {', '.join(words)}",
            hint=f"write {TENSOR_CORES}, or {TENSOR_CORES} {ROUNDED} for f32",
        )
    return words == [ROUNDED]


@dataclass(frozen=True)
class _Written:
    """Sizes by axis: of blocks (and of the folded axis), of warps; and the number of stages."""

    product: Product
    blocks: dict[str, int] = field(default_factory=dict[str, int])
    warps: dict[str, int] = field(default_factory=dict[str, int])
    stages: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def fields(self) -> dict[str, int]:
        """What is written, as fields of ``MatrixTiles``."""
        sides = self.product.sides
        places = (
            ("rows", self.blocks, sides.rows),
            ("columns", self.blocks, sides.columns),
            ("depth", self.blocks, sides.fold),
            ("warp_rows", self.warps, sides.rows),
            ("warp_columns", self.warps, sides.columns),
            ("stages", self.stages, sides.fold),
        )
        return {name: sizes[axis] for name, sizes, axis in places if axis in sizes}


def _read(nest: ScheduledNest, directives: tuple[Directive, ...], product: Product) -> _Written:
    written = _Written(product)
    for each in directives:
        line = without_units(nest, each)
        if line is None or line.name == TENSOR_CORES:
            continue
        if line.name not in ("tile", "pipeline"):
            raise IllegalRewrite(
                f"{line.name} beside {TENSOR_CORES}: a warp holds what its matrix unit gives it",
                hint="tile AXIS SIZE @warp says what a warp takes",
                span=each.span,
            )
        _read_line(nest, line, written)
    return written


def _read_line(nest: ScheduledNest, line: Directive, written: _Written) -> None:
    sides = written.product.sides
    is_warp = line.name == "tile" and line.level == "warp"
    if not is_warp and line.level not in _BLOCK_LEVELS:
        raise IllegalRewrite(
            f"{line.name} @{line.level}: tensor cores have tiles of blocks and of warps",
            hint="write @warp, or no level",
            span=line.span,
        )
    places: Mapping[str, dict[str, int]] = {
        "tile": written.warps if is_warp else written.blocks,
        "pipeline": written.stages,
    }
    kept = (sides.rows, sides.columns)
    allowed = {"tile": kept if is_warp else (*kept, sides.fold), "pipeline": (sides.fold,)}
    for entry in line.entries:
        axis = nest.check_axis(entry)
        if axis not in allowed[line.name]:
            raise IllegalRewrite(
                _why_not(axis, line.name, is_warp, sides.fold),
                hint=f"{line.name} is for {', '.join(allowed[line.name])} here",
                span=entry.span,
            )
        sizes = places[line.name]
        if axis in sizes:
            raise IllegalRewrite(
                f"{line.name} of axis {axis!r} stands twice",
                hint="a block has one tile, and by tile … @warp a warp",
                span=entry.span,
            )
        sizes[axis] = number_of(line, entry, "size" if line.name == "tile" else "number of stages")


def _why_not(axis: str, name: str, is_warp: bool, fold: str) -> str:
    if name == "pipeline":
        return f"blocks run along {axis!r} at once: stages are those of the folded axis"
    if is_warp and axis == fold:
        return f"axis {axis!r} is folded: a warp takes all of it that its block has at a time"
    return f"each block takes one point of axis {axis!r}"

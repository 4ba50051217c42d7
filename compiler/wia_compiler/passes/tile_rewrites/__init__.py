"""Legality-checked rewrites of nests: what every schedule is written with.

Each takes ops of a nest, changes the nest in place and gives back what it made; a rewrite that
would change results raises ``IllegalRewrite`` with the reason and leaves the nest as it was.
"""

from wia_compiler.passes.tile_rewrites.blocked_folds import block_fold
from wia_compiler.passes.tile_rewrites.folds import drop_bounds, tile_reduction
from wia_compiler.passes.tile_rewrites.leaves import tile_leaf, tile_leaves
from wia_compiler.passes.tile_rewrites.levels import set_leaf_level, set_level
from wia_compiler.passes.tile_rewrites.loops import (
    innermost_loops,
    remove_unit_loops,
    split_loop,
    tile_axis,
)
from wia_compiler.passes.tile_rewrites.nest import (
    IllegalRewrite,
    axis_of,
    find_loop,
    is_folded,
    leaves_of,
    loops_around,
    loops_of,
    replace_leaf,
    scope_of,
)
from wia_compiler.passes.tile_rewrites.order import interchange, reorder_loops
from wia_compiler.passes.tile_rewrites.panels import split_panels
from wia_compiler.passes.tile_rewrites.sharing import share_values
from wia_compiler.passes.tile_rewrites.staging import stage_operand

__all__ = [
    "IllegalRewrite",
    "axis_of",
    "block_fold",
    "drop_bounds",
    "find_loop",
    "innermost_loops",
    "interchange",
    "is_folded",
    "leaves_of",
    "loops_around",
    "loops_of",
    "remove_unit_loops",
    "reorder_loops",
    "replace_leaf",
    "scope_of",
    "set_leaf_level",
    "set_level",
    "share_values",
    "split_loop",
    "split_panels",
    "stage_operand",
    "tile_axis",
    "tile_leaf",
    "tile_leaves",
    "tile_reduction",
]

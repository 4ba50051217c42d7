"""Which axes of a nest become the rows, the columns and the depth of the machine's tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir.affine import AffineDimExpr, AffineMap

from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import atoms


@dataclass(frozen=True)
class TileAxes:
    """Names of the axes that are a tile's rows and columns; ``None``: it has one."""

    rows: str | None
    columns: str | None


@dataclass(frozen=True)
class Product:
    """A contraction as the array does it: inputs are rows × depth, weights depth × columns."""

    axes: TileAxes
    depth: str | None
    inputs: int = 0
    weights: int = 1


def product_of(leaf: ComputeOp) -> Product:
    """The roles of a contract leaf's axes.

    Axes of the first operand alone are rows, of the second alone columns, of both batches, and
    folded ones depth. Where a role has several axes, the last one is tiled.
    """
    first, second = (axes_in(leaf, each) for each in leaf.input_maps)
    rows: list[str] = []
    columns: list[str] = []
    depth: list[str] = []
    for name, folded in zip(leaf.axis_names, leaf.reductions, strict=True):
        if folded:
            depth.append(name)
        elif name in first and name not in second:
            rows.append(name)
        elif name in second and name not in first:
            columns.append(name)
    return Product(TileAxes(_last(rows), _last(columns)), _last(depth))


def tile_axes_of(leaves: Sequence[ComputeOp]) -> TileAxes:
    """Rows and columns of a nest's tiles: a contraction's, else the last two axes it writes."""
    for leaf in leaves:
        if leaf.kind.data == "contract":
            return product_of(leaf).axes
    leaf = leaves[-1]
    written = [
        leaf.axis_names[atom.position]
        for result in leaf.output_maps[0].results
        for atom in atoms(result)
        if isinstance(atom, AffineDimExpr)
    ]
    return TileAxes(written[-2] if len(written) > 1 else None, _last(written))


def axes_in(leaf: ComputeOp, affine: AffineMap) -> set[str]:
    """The axes of a leaf that a map's results depend on."""
    found = {atom for result in affine.results for atom in atoms(result)}
    return {leaf.axis_names[each.position] for each in found if isinstance(each, AffineDimExpr)}


def extent_of(leaf: ComputeOp, axis: str | None) -> int:
    """Points along an axis; 1 where the leaf has it not."""
    if axis is None or axis not in leaf.axis_names:
        return 1
    return leaf.sizes[leaf.axis_names.index(axis)]


def _last(names: Sequence[str]) -> str | None:
    return names[-1] if names else None

"""Schedules of convolutions and pools on a CPU: lanes along filters, or along windows.

::

    schedule conv {                          all weights laid out for vectors, once
        tile f 64, y 14;                       each image, each 14 rows of the result:
        thread_tile x 8, f 32;                   their pixels copied with the padding, once
        vectorize f 16;                          each 32 filters, each row, each 8 pixels of it:
        reorder f.0, n, y.0, f.1, y.1, x;          8 × 2 vectors of sums in registers
        pack w at f.0;                             each c, r, s: 2 vectors of weights, 8 pixels
        cache x at y.0;                            the sums are turned: filters become rows
    }

Pixels are read where they lie, so that a window costs no copy of its elements for each tap; only
the weights are laid out for vectors.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.dialects import func
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.cpu.slide_plan import sliding_axis
from wia_compiler.backends.cpu.vector_plan import element_bytes
from wia_compiler.base.schedule import Directive, Entry, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import atoms, linear_form, range_of
from wia_compiler.passes.emit_index import range_of_value
from wia_compiler.passes.schedule import Chosen
from wia_compiler.passes.scheduling.operands import operand_name
from wia_compiler.passes.tile_rewrites import axis_of, loops_of

_SHORT_SUM = 32
"""Up to so many products in a sum (3 channels of 3 × 3), turning eight pixels of 32 filters takes a
tenth of the time or more."""
_FEWEST_PIXELS = 4
"""Fewer pixels do not pay for laying out the weights that they are multiplied with."""


@dataclass(frozen=True)
class Window:
    """The roles of a convolution's axes.

    ``filters`` are the results for one pixel; ``rows`` (absent where there is one) and ``columns``
    walk pixels; ``groups`` have weights of their own, ``images`` share them. ``pixels`` and
    ``weights`` are the operands.
    """

    filters: str
    rows: str | None
    columns: str
    images: tuple[str, ...]
    groups: tuple[str, ...]
    pixels: int
    weights: int


def choose_window(
    nest: func.FuncOp,
    leaf: ComputeOp,
    vector_bytes: int,
    vector_registers: int,
    l2: int = 256 << 10,
) -> Chosen | None:
    """The directives for a convolution with enough filters to fill vectors; else ``None``.

    ``l2`` are the bytes of the second cache.
    """
    window = _roles(nest, leaf)
    if window is None:
        return None
    sizes = {axis_of(loop): loop.extent.value.data for loop in loops_of(nest)}
    lanes = vector_bytes // element_bytes(leaf)
    filters = sizes[window.filters]
    if filters < lanes or math.prod(sizes.values()) // filters < _FEWEST_PIXELS:
        return None
    if _is_shallow(leaf, window, sizes, lanes):
        return _choose_shallow(nest, leaf, window, sizes, lanes)
    vectors = _vectors(filters, lanes)
    columns, rows = _pixels(sizes, window, vectors, vector_registers)
    tile = {window.columns: columns, window.filters: vectors * lanes}
    if window.rows is not None and rows > 1:
        tile = {window.rows: rows, **tile}
    before, after = _blocks(nest, leaf, window, sizes, rows, l2)
    directives = [
        *before,
        directive("thread_tile", {axis: size for axis, size in tile.items() if size > 1}),
        directive("vectorize", {window.filters: lanes}),
        *after,
    ]
    numbers = {"filters": vectors * lanes, "pixels": columns * rows, "lanes": lanes}
    reason = "vectors run along the filters: pixels are read where they lie"
    return Chosen(tuple(directives), reason, numbers)


def _is_shallow(leaf: ComputeOp, window: Window, sizes: dict[str, int], lanes: int) -> bool:
    """Whether sums are so short that turning them would cost a good part of adding them up."""
    folded = [n for n, reduced in enumerate(leaf.reductions) if reduced]
    own = AffineDimExpr(leaf.axis_names.index(window.columns))
    step = linear_form(leaf.input_maps[window.pixels].results[-1]).terms.get(own)
    dense = step == 1 and sizes[window.columns] % (2 * lanes) == 0
    return dense and math.prod(leaf.sizes[n] for n in folded) <= _SHORT_SUM


def _choose_shallow(
    nest: func.FuncOp, leaf: ComputeOp, window: Window, sizes: dict[str, int], lanes: int
) -> Chosen:
    """Vectors along the pixels of a row, eight filters at a time: the result needs no turn."""
    filters, columns = window.filters, window.columns
    rows = [] if window.rows is None else [window.rows]
    outer = [*window.groups, *window.images]
    tile = {filters: _even(sizes[filters], 8, 8), columns: 2 * lanes}
    place = outer[-1] if outer else filters
    pixels = operand_name(nest, leaf, window.pixels)
    directives = (
        directive("thread_tile", tile),
        directive("reorder", *outer, filters, *rows, columns),
        directive("cache", Entry(pixels, at=place)),
    )
    reason = "vectors run along the pixels: sums are too short to be turned"
    return Chosen(directives, reason, {"filters": tile[filters], "pixels": 2 * lanes})


def _roles(nest: func.FuncOp, leaf: ComputeOp) -> Window | None:
    """Which axis does what; ``None`` for a leaf that is no convolution of pixels with weights."""
    kept = [axis_of(loop) for loop in loops_of(nest)]
    if leaf.kind.data != "window" or not set(kept) <= set(leaf.axis_names):
        return None
    reads = [_axes_read(leaf, operand) for operand in range(2)]
    sliding = [axis for axis in kept if _slides(leaf, axis)]
    for pixels, weights in ((0, 1), (1, 0)):
        filters = [axis for axis in kept if axis in reads[weights] - reads[pixels]]
        walked = [axis for axis in kept if axis in reads[pixels] - reads[weights]]
        places = [axis for axis in walked if axis in sliding] or walked[-1:]
        if not filters or not places or not set(places) <= set(walked):
            continue
        *rest, columns = places
        rows = rest[-1] if rest else None
        inner = {filters[-1], columns, rows}
        outer = [axis for axis in kept if axis not in inner]
        images = tuple(axis for axis in outer if axis not in reads[weights])
        groups = tuple(axis for axis in outer if axis in reads[weights])
        return Window(filters[-1], rows, columns, images, groups, pixels, weights)
    return None


def _axes_read(leaf: ComputeOp, operand: int) -> set[str]:
    """The axes that an operand depends on."""
    dims = {atom for result in leaf.input_maps[operand].results for atom in atoms(result)}
    return {leaf.axis_names[dim.position] for dim in dims if isinstance(dim, AffineDimExpr)}


def _slides(leaf: ComputeOp, axis: str) -> bool:
    """Whether an operand's index adds the axis to a folded one, or multiplies it."""
    own = AffineDimExpr(leaf.axis_names.index(axis))
    results = [result for each in leaf.input_maps for result in each.results]
    return any(own in atoms(result) and result != own for result in results)


def _vectors(filters: int, lanes: int) -> int:
    """One vector or two of filters at a time: two, unless that computes more for nothing."""
    if filters < 2 * lanes:
        return 1
    wasted = {count: -filters % (count * lanes) for count in (2, 1)}
    return 2 if wasted[2] <= wasted[1] + filters // 16 else 1


def _pixels(sizes: dict[str, int], window: Window, vectors: int, registers: int) -> tuple[int, int]:
    """Columns and rows of pixels whose sums registers hold.

    A vector of weights is loaded for all of them, a pixel for all vectors: some eight sums in
    flight hide the time of a product, more only help where they divide the row evenly.
    """
    most = (registers - 4 if registers >= 32 else registers - 3) // vectors
    usual = min(most, 16 // vectors if registers >= 32 else 12 // vectors)
    width = sizes[window.columns]
    if width >= usual // 2 + 1:
        return _even(width, usual, most), 1
    height = sizes.get(window.rows, 1) if window.rows is not None else 1
    return width, _even(height, max(1, usual // width), max(1, most // width))


def _even(extent: int, usual: int, most: int) -> int:
    """The size of parts that cover an extent with the fewest points over, ``usual`` preferred."""
    if extent <= usual:
        return extent
    sizes = range(max(1, usual // 2 + 1), most + 1)
    return min(sizes, key=lambda size: (-(-extent // size) * size, abs(size - usual), -size))


def _blocks(
    nest: func.FuncOp, leaf: ComputeOp, window: Window, sizes: dict[str, int], step: int, l2: int
) -> tuple[list[Directive], list[Directive]]:
    """What stands before and after the register tile: blocks and the order of loops, and copies.

    All weights are laid out once, in a loop around everything else; the pixels of some rows of the
    result, as many as a quarter of the second cache holds, once for each image. ``step`` rows of
    the result are computed at a time.
    """
    pixels, weights = (
        operand_name(nest, leaf, number) for number in (window.pixels, window.weights)
    )
    filters, rows, columns = window.filters, window.rows, window.columns
    tile = {filters: sizes[filters]}
    strips = 1
    if rows is not None:
        row_bytes = _box(leaf, {**sizes, rows: 1}, window) * element_bytes(leaf)
        next_bytes = _box(leaf, {**sizes, rows: 2}, window) * element_bytes(leaf) - row_bytes
        held = max(1, (l2 // 4 - row_bytes) // max(next_bytes, 1) + 1)
        strips = -(-sizes[rows] // held)
    inside = [rows, columns] if rows is not None else [columns]
    order = [*window.groups, f"{filters}.0", *window.images]
    if rows is not None and strips > 1:
        tile[rows] = -(-sizes[rows] // (strips * step)) * step
        order.append(f"{rows}.0")
        inside = [f"{rows}.1", columns]
    place = order[-1]
    order += [f"{filters}.1", *inside]
    before = [directive("tile", tile)]
    after = [
        directive("reorder", *order),
        directive("pack", Entry(weights, at=f"{filters}.0")),
        directive("cache", Entry(pixels, at=place)),
    ]
    return before, after


def _box(leaf: ComputeOp, sizes: dict[str, int], window: Window) -> int:
    """Elements of the pixels that one image (or group) reads."""
    total = 1
    dims = [
        (0, (sizes[name] if name in (window.rows, window.columns) else size) - 1)
        for name, size in zip(leaf.axis_names, leaf.sizes, strict=True)
    ]
    symbols = [range_of_value(iv) for iv in leaf.ivs]
    for result in leaf.input_maps[window.pixels].results:
        found = range_of(result, dims, [(0, 0) if each is not None else None for each in symbols])
        total *= found[1] - found[0] + 1 if found is not None else 1
    return total


def choose_slide(
    nest: func.FuncOp, leaf: ComputeOp, vector_bytes: int, vector_registers: int
) -> Chosen | None:
    """The directives for windows that slide along memory (pools, convolutions of each channel).

    ``None`` where they do not: where windows beside one another do not share rows of an input.
    """
    loops = loops_of(nest)
    sliding = sliding_axis(leaf)
    if sliding is None or not loops or axis_of(loops[-1]) != leaf.axis_names[sliding]:
        return None
    sizes = {axis_of(loop): loop.extent.value.data for loop in loops}
    axis, lanes = leaf.axis_names[sliding], vector_bytes // element_bytes(leaf)
    window = _roles(nest, leaf)
    rows = window.filters if window is not None else _rows_beside(leaf, axis, sizes)
    sums = vector_registers // 2
    vectors = -(-sizes[axis] // lanes)
    columns = sizes[axis] if vectors <= sums // 4 else min(sums // 4, 2) * lanes
    if rows is None:
        columns = sizes[axis] if vectors <= sums // 2 else sums // 4 * lanes
    most = max(1, sums // -(-columns // lanes))
    height = _even(sizes[rows], min(most, 8), min(most, 8)) if rows is not None else 1
    tile = {axis: columns} if rows is None else {rows: height, axis: columns}
    tile = {name: size for name, size in tile.items() if size > 1}
    directives = [directive("thread_tile", tile)] if tile else []
    if window is not None and len(sizes) > 1:
        others = [name for name in sizes if name != window.filters]
        directives.append(directive("reorder", *others, window.filters))
    numbers = {"columns": columns, "rows": height, "lanes": lanes}
    reason = "windows beside one another are lanes: every tap is read where it lies"
    return Chosen(tuple(directives), reason, numbers)


def _rows_beside(leaf: ComputeOp, axis: str, sizes: dict[str, int]) -> str | None:
    """The axis across whose windows rows of the input overlap, so that several share a load."""
    for name in reversed(list(sizes)):
        if name != axis and sizes[name] > 1 and name in leaf.axis_names:
            own = AffineDimExpr(leaf.axis_names.index(name))
            folded = {AffineDimExpr(n) for n, reduced in enumerate(leaf.reductions) if reduced}
            for each in leaf.input_maps:
                for result in each.results:
                    terms = linear_form(result).terms
                    if terms.get(own) == 1 and folded & set(terms):
                        return name
    return None

"""Schedules of matrix products: blocks for the caches, streams past few rows, register tiles.

::

    schedule mm {                     a block of B that fits half the second cache,
        tile j 128, k 1024;             copied to panels of 32 columns, once for all rows
        thread_tile i 8, j 32;        each panel, each 8 rows of A:
        reorder j.1, i;                 8 × 2 vectors of sums in registers
        pack B at k;
    }
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import func
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute
from xdsl.ir.affine import AffineDimExpr

from wia_compiler.backends.cpu.caches import Caches
from wia_compiler.backends.cpu.vector_plan import element_bytes
from wia_compiler.base.schedule import Directive, Entry, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.passes.affine import atoms
from wia_compiler.passes.llvm.types import size_bytes, strides_of
from wia_compiler.passes.schedule import Chosen
from wia_compiler.passes.scheduling.operands import operand_name
from wia_compiler.passes.tile_rewrites.integer_products import NEIGHBOURS, integer_product

_LATENCY = 8
"""Sums in flight that keep the multipliers busy: 4 cycles of latency, 2 results a cycle."""
_TILE_OVERHEAD = 40
"""Steps of the fold that filling and writing a tile's sums takes as long as."""
_DEEPEST_BLOCK = 1024
"""Points of a folded axis in a block: from there on, sums are fetched and put away rarely."""
_SHARED_BYTES = 2 << 20
"""From so much of a matrix on threads share it: some 40 µs of one core."""
_SLAB_BYTES = 8 << 10
"""What a thread reads of each row: 2048 numbers in f32 are 3 % slower than whole rows of 4096, 1024
are 20 % slower (Zen 4)."""
_FEW_ROWS = 8
"""Up to so many rows a matrix is streamed past sums instead of copied for registers (8 × 4096 times
4096 × 4096 on a Zen 4: 3.6 ms for 7.2)."""
_TURNED_ROWS = 3
"""From so many rows on, a matrix that lies across the vectors is turned as it is copied (4 × 2048
times a transposed 2048 × 2048: 1.4 ms, 4.0 as dot products)."""
_MANY_ROWS = 128
"""From so many rows on, the time to copy the matrix does not matter."""
_SHALLOW_BLOCK = 128
"""Points of a folded axis in a block of whole rows: the longer the rows that are copied, the faster
memory is (32 × 4096 times 4096 × 4096: 13.8 ms, 16.1 in blocks of 256 columns)."""
_LINE_BYTES = 64
_WAYS = 8
"""Lines of one set of a first cache: of every x86 with 32 or 48 KiB, or fewer sets than thought."""
_FOLDED_AT_ONCE = 8
"""Rows of a matrix streamed side by side: memory is fastest with so many streams (Zen 4: 8 rows
take 1.8 ms for 64 MB, 4 take 2.2, 16 take 2.4)."""


@dataclass(frozen=True)
class Product:
    """A contraction's axes by their role, and their sizes.

    ``vectors`` lies along the lanes, ``rows`` (absent for one row) uses each vector again,
    ``folded`` is summed over; ``matrix`` is the number of the operand that vectors are read from,
    ``is_dense`` says that it lies along them in memory.
    """

    leaf: ComputeOp
    sizes: Mapping[str, int]
    vectors: str
    rows: str | None
    folded: str
    matrix: int
    is_dense: bool

    @property
    def depth(self) -> int:
        """Points of the folded axis."""
        return self.leaf.sizes[self.leaf.axis_names.index(self.folded)]

    @property
    def width(self) -> int:
        """Points along the vectors."""
        return self.sizes[self.vectors]

    @property
    def height(self) -> int:
        """Points of the rows."""
        return 1 if self.rows is None else self.sizes[self.rows]

    @property
    def outer(self) -> list[str]:
        """The other axes: products of their own."""
        return [axis for axis in self.sizes if axis not in (self.vectors, self.rows)]

    @property
    def matrix_bytes(self) -> int:
        """Bytes of the matrix that one product reads."""
        type_ = cast("MemRefType[Attribute]", self.leaf.inputs[self.matrix].type)
        return self.depth * self.width * size_bytes(type_.element_type)


def tile_shape(
    height: int,
    width: int,
    lanes: int,
    registers: int,
    most_chunks: int = 4,
    *,
    wide: bool = False,
) -> tuple[int, int]:
    """Rows and vectors of the register tile that takes the fewest steps for a product.

    A step multiplies one point of the folded axis: it takes as long as its multiplications, its
    loads, or the latency of the sums, whichever is longest. Sums, the vectors of one row and one
    broadcast fit in the registers. Of equal shapes the one with about half the registers as sums
    is taken: more leave LLVM too few for addresses, fewer load more for each product (a sum more or
    less than those costs about 1 in 100). ``wide`` shapes are preferred where numbers of rows cost
    an instruction of their own each, to spread them over the lanes.
    """
    wanted, most = (16, 20) if registers >= 32 else (12, 12)
    best: tuple[float, int, int, int] | None = None
    for rows in range(1, min(height, 16) + 1):
        for chunks in (each for each in (1, 2, 4) if each <= most_chunks):
            sums = rows * chunks
            fits = sums <= most and sums + chunks + 1 <= registers
            if not fits or (chunks > 1 and chunks * lanes > width):
                continue
            tiles = -(-height // rows) * -(-width // (chunks * lanes))
            steps = tiles * (max(sums, rows + chunks, _LATENCY) + _TILE_OVERHEAD / 64)
            away = abs(sums - wanted) + (most_chunks - chunks if wide else 0)
            key = (round(steps / (height * width) * (1 + away / 100), 6), away, -rows, chunks)
            if best is None or key < best:
                best = key
    assert best is not None
    return -best[2], best[3]


def adds_neighbours(product: Product) -> bool:
    """Whether four products along the folded axis can be added at a time: integers of 8 bits, of
    which the operand that is not the matrix lies dense along it."""
    leaf, found = product.leaf, integer_product(product.leaf)
    if found is None:
        return False
    other = found.other(product.matrix)
    fold = AffineDimExpr(leaf.axis_names.index(product.folded))
    *before, last = leaf.input_maps[other].results
    strides = strides_of(cast("MemRefType[Attribute]", leaf.inputs[other].type))
    is_last = last == fold and not any(fold in atoms(each) for each in before)
    return is_last and strides[-1] == 1


def block_product(
    nest: func.FuncOp,
    product: Product,
    lanes: int,
    registers: int,
    caches: Caches,
    *,
    dots: bool = False,
) -> Chosen | None:
    """Blocks whose panels stay in the second cache; ``None`` where a register tile is all it takes.

    Few rows make the copy of the matrix the larger part of the work: the block is then wider, for
    memory is read faster in longer rows.
    """
    height, width, depth = product.height, product.width, product.depth
    element = 1 if dots else element_bytes(product.leaf)
    turned = not product.is_dense and height >= _TURNED_ROWS and product.matrix_bytes > caches.l1
    if product.rows is None or (height < _FEW_ROWS and not turned):
        return None
    rows, chunks = tile_shape(height, width, lanes, registers, wide=dots)
    columns = chunks * lanes
    stays = product.is_dense and not dots
    if stays and (product.matrix_bytes <= caches.l1 or width <= columns):
        return None
    if stays and height < 4 * rows and product.matrix_bytes <= caches.l2:
        return None
    if stays and height < _MANY_ROWS and _stays_in_l1(product, columns * element, caches):
        directives = [
            directive("thread_tile", {product.rows: rows, product.vectors: columns}),
            _order(product, {}),
        ]
        reason = "a register tile: the rows of a tile stay in the first cache as they lie"
        return Chosen(tuple(directives), reason, {"rows": rows, "columns": columns})
    many = height >= _MANY_ROWS
    panels = max(8 // chunks, 1)
    if turned and not many:
        panels = 1  # what is read of a row lies along the folded axis
    elif not many:
        room = caches.l2 // 2 if depth <= _SHALLOW_BLOCK else 2 * caches.l2
        panels = max(room // (min(depth, _SHALLOW_BLOCK) * columns * element), 1)
    block = min(panels * columns, -(-width // columns) * columns)
    most = _DEEPEST_BLOCK * (NEIGHBOURS if dots else 1)
    deepest = max(min(most, caches.l2 // 2 // (block * element)), 64)
    deep = _even_share(depth, deepest if many else max(_SHALLOW_BLOCK, deepest))
    if dots and deep < depth:
        deep = -(-deep // NEIGHBOURS) * NEIGHBOURS
    cut: dict[str, int] = {}
    if columns < block < width:
        cut[product.vectors] = block
    if deep < depth:
        cut[product.folded] = deep
    directives: list[Directive] = [directive("tile", cut)] if cut else []
    directives.append(directive("thread_tile", {product.rows: rows, product.vectors: columns}))
    directives.append(_order(product, cut))
    array = operand_name(nest, product.leaf, product.matrix)
    place = product.folded if deep < depth else f"{product.vectors}.0"
    if not cut and product.outer:
        place = product.outer[-1]
    if panels == 1:
        place = product.vectors
    directives.append(directive("pack", Entry(array, at=place)))
    if dots:
        directives.append(directive("dot"))
    numbers = {"rows": rows, "columns": columns, "block": block, "depth": deep, "panel": array}
    reason = "a register tile: every vector loaded is used by all rows"
    return Chosen(tuple(directives), reason, numbers)


def _stays_in_l1(product: Product, tile_bytes: int, caches: Caches) -> bool:
    """Whether what one tile reads of a matrix stays in the first cache, uncopied.

    Its rows may fall on the same sets of the cache: those of a matrix whose rows are a multiple of
    4 KiB long all do.
    """
    rows = product.depth
    if rows * tile_bytes > caches.l1 // 2:
        return False
    lines = tile_bytes // _LINE_BYTES + 1
    sets = caches.l1 // (_LINE_BYTES * _WAYS)
    step = product.matrix_bytes // rows // _LINE_BYTES
    places = sets // math.gcd(step, sets)
    return rows * lines <= (_WAYS - 2) * min(sets, places * lines)


def _order(product: Product, cut: Mapping[str, int]) -> Directive:
    """Other products outermost, then blocks, then panels, rows innermost."""
    assert product.rows is not None
    blocks = [f"{axis}.0" for axis in cut]
    panel = f"{product.vectors}.1" if product.vectors in cut else product.vectors
    return directive("reorder", *product.outer, *blocks, panel, product.rows)


def _slab(product: Product, columns: int) -> int:
    """Columns that one thread streams: all, or even shares of a row that memory is still fast in.

    A matrix that takes one core long is cut even for one thread, whose code is that of many.
    """
    if product.matrix_bytes < _SHARED_BYTES:
        return product.width
    row_bytes = product.matrix_bytes // product.depth
    shares = max(1, row_bytes // _SLAB_BYTES)
    return -(-product.width // shares // columns) * columns


def stream_product(
    nest: func.FuncOp, product: Product, lanes: int, registers: int, caches: Caches
) -> Chosen | None:
    """Rows of a matrix that pass by once, for a product with few rows; else ``None``."""
    height, element = product.height, element_bytes(product.leaf)
    if not product.is_dense or height > _FEW_ROWS or product.outer:
        return None
    chunks = max(min(4 if height == 1 else 2, (registers // 2) // height), 1)
    columns = min(chunks, product.width // lanes) * lanes
    most = max(caches.l2 // 2 // (height * element) // columns, 1) * columns
    wide = min(most, _slab(product, columns))
    cut = {product.vectors: wide} if wide < product.width else {}
    cut[product.folded] = min(_FOLDED_AT_ONCE, product.depth)
    rows = {} if product.rows is None else {product.rows: height}
    directives = [
        directive("tile", cut),
        directive("thread_tile", {**rows, product.vectors: columns}),
    ]
    if product.matrix_bytes > caches.l2:
        array = operand_name(nest, product.leaf, product.matrix)
        ahead = Entry(array, 1, at=product.folded)
        directives.append(directive("prefetch", ahead, "L2"))
    reason = "rows streamed in the order of memory past sums in the first cache"
    return Chosen(tuple(directives), reason, {"columns": columns, "rows": cut[product.folded]})


def _even_share(extent: int, most: int) -> int:
    """The size of the fewest blocks of up to ``most`` points that are about equally large."""
    blocks = -(-extent // most)
    return -(-extent // blocks)

"""The default schedule of a CPU: what its vector registers can hold, in the order caches like.

contractions  ``schedule_contraction.py``: register tiles, or rows streamed past one row of sums
convolutions  ``schedule_windows.py``: lanes along filters, pixels read where they lie; pools
columns       folds over an axis that is not the last: rows streamed past one row of results
rows          ``schedule_rows.py``: folded in vectors, what several passes compute alike is kept
maps          ``schedule_maps.py``: long pieces of a row in vectors, or squares that are turned
the rest      as it is: LLVM vectorises the innermost loop
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

from xdsl.dialects import arith, func
from xdsl.dialects.builtin import ModuleOp

from wia_compiler.backends.cpu.caches import Caches
from wia_compiler.backends.cpu.schedule_contraction import (
    ROW_BYTES,
    choose_contraction,
    rows_at_a_time,
)
from wia_compiler.backends.cpu.schedule_maps import choose_map
from wia_compiler.backends.cpu.schedule_rows import choose_rows
from wia_compiler.backends.cpu.schedule_text import choose_text_tiles, jam_rows, walks_tiles
from wia_compiler.backends.cpu.schedule_threads import column_parts, parallel_axis
from wia_compiler.backends.cpu.schedule_windows import choose_slide, choose_window
from wia_compiler.backends.cpu.vector_plan import element_bytes, runs_along_lanes
from wia_compiler.base.record import Level
from wia_compiler.base.schedule import Directive, directive
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.nests.writer import SCHEDULED
from wia_compiler.passes.nests.written_tiles import written_tiles
from wia_compiler.passes.schedule import Chosen, schedule_nests
from wia_compiler.passes.tile_rewrites import axis_of, is_folded, leaves_of, loops_of
from wia_compiler.passes.tile_rewrites.sharing import shares_values

REFUSED = {"use_tensor_cores": "a cpu has no tensor cores; its vectors multiply and add"}
"""Directives that a CPU cannot follow, and why."""


@dataclass(frozen=True)
class SchedulePass:
    """Nests in the form in which a CPU's registers and caches serve them.

    ``vector_bytes``, ``vector_registers`` and ``caches`` are those of the CPU; ``adds_dots``: how
    many products of 8-bit integers it adds in one instruction, 4, 2 or 0.
    """

    vector_bytes: int = 32
    vector_registers: int = 16
    caches: Caches = field(default_factory=Caches)
    adds_dots: int = 0

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Schedule every nest of the module in place."""
        choose = partial(self.choose, kept_elements=context.facts.kept_row_elements)
        schedule_nests(module, context, choose, finish=self.share, refused=REFUSED)

    def share(self, nest: func.FuncOp) -> tuple[Directive, ...]:
        """``parallel`` for the loops of a scheduled nest that are worth threads."""
        parallel = parallel_axis(nest, self.vector_bytes)
        return () if parallel is None else (parallel,)

    def choose(self, nest: func.FuncOp, *, kept_elements: int) -> Chosen:
        """The directives that suit a nest, which stays as it is.

        Rows of up to ``kept_elements`` may be kept between the passes over them.
        """
        chosen = self._choose(nest, kept_elements)
        jammed = None if chosen.directives or holds_point_code(nest) else jam_rows(nest)
        if jammed is not None:
            return jammed
        if chosen.directives or chosen.reason:
            return chosen
        return Chosen(reason="the innermost loop is left to LLVM's vectoriser")

    def _choose(self, nest: func.FuncOp, kept_elements: int) -> Chosen:
        if SCHEDULED in nest.attributes:
            tiles = written_tiles(nest)
            lines = (directive("tile", tiles),) if tiles else ()
            return Chosen(lines, "written in tiles that registers and caches hold")
        if holds_point_code(nest):
            return Chosen(reason="its loops run as they are written: it holds more than leaves")
        if walks_tiles(nest):
            return choose_text_tiles(nest, self.vector_bytes, self.vector_registers)
        if any(is_folded(loop) for loop in loops_of(nest)):
            return self._choose_scan(nest)
        # What costs a function is kept, and what half floats are widened to; a difference costs
        # less than a store and a load.
        widens = self._folds_rows(nest) and any(_widens(leaf) for leaf in leaves_of(nest))
        reads = "converted" if widens else "none"
        shared = shares_values(nest, kept_elements, reads=reads)
        keep = (directive("keep", *(["converted"] if widens else [])),) if shared else ()
        for leaf in leaves_of(nest):
            if leaf.multiplies:
                registers = (self.vector_bytes, self.vector_registers)
                chosen = choose_window(nest, leaf, *registers, self.caches.l2)
                if chosen is None and leaf.kind.data == "window":
                    chosen = choose_slide(nest, leaf, *registers)
                if chosen is None:
                    chosen = choose_contraction(
                        nest, leaf, *registers, self.caches, adds_dots=self.adds_dots
                    )
                if not chosen.directives:
                    chosen = choose_slide(nest, leaf, *registers) or chosen
                return replace(chosen, directives=(*keep, *chosen.directives))
            if leaf.folds:
                slid = choose_slide(nest, leaf, self.vector_bytes, self.vector_registers)
                if slid is not None:
                    return slid
            if leaf.kind.data == "reduce" and (columns := self._columns(nest, leaf)) is not None:
                tiled = _tile_columns(nest, *columns)
                parts = None if keep else column_parts(nest, *columns, self.vector_bytes)
                first = keep if parts is None else (parts,)
                return replace(tiled, directives=(*first, *tiled.directives))
        if any(leaf.kind.data == "reduce" for leaf in leaves_of(nest)):
            return choose_rows(nest, keep, self.vector_bytes, self.caches)
        return choose_map(nest, keep, self.vector_bytes, self.caches) or Chosen(
            keep, "values that several leaves need are computed once" * shared
        )

    def _folds_rows(self, nest: func.FuncOp) -> bool:
        """Whether all folds of a nest go along rows, none down columns."""
        folds = [leaf for leaf in leaves_of(nest) if leaf.kind.data == "reduce"]
        return bool(folds) and all(self._columns(nest, leaf) is None for leaf in folds)

    def _choose_scan(self, nest: func.FuncOp) -> Chosen:
        """A running fold: several columns at a time where memory is dense across them."""
        across = [loop for loop in loops_of(nest) if not is_folded(loop)]
        if not across:
            return Chosen()
        axis, extent = axis_of(across[-1]), across[-1].extent.value.data
        leaves = [leaf for leaf in leaves_of(nest) if leaf.inputs]
        along = [runs_along_lanes(leaf, axis) for leaf in leaves]
        if extent == 1 or any(each is None or not any(each) for each in along):
            return Chosen()
        columns = min(extent, ROW_BYTES // max(element_bytes(each) for each in leaves))
        reason = "a running fold down columns: vectors run across them"
        return Chosen((directive("thread_tile", {axis: columns}),), reason, {"columns": columns})

    def _columns(self, nest: func.FuncOp, leaf: ComputeOp) -> tuple[str, int] | None:
        """The axis across the columns and how many at a time, if the fold reads along it."""
        loops = loops_of(nest)
        if not loops:
            return None
        axis, extent = axis_of(loops[-1]), loops[-1].extent.value.data
        along = runs_along_lanes(leaf, axis)
        if along is None or not any(along[: len(leaf.inputs)]) or _slides(leaf):
            return None
        widest = max(element_bytes(each) for each in leaves_of(nest))
        if extent < self.vector_bytes // widest // 2:
            return None
        return axis, min(extent, ROW_BYTES // widest)


def _widens(leaf: ComputeOp) -> bool:
    """Whether a leaf reads half floats and computes in wider ones."""
    return any(isinstance(op, arith.ExtFOp) for op in leaf.body.block.ops)


def _slides(leaf: ComputeOp) -> bool:
    """Whether an input's index adds a folded axis to another: few points that neighbours share."""
    folded = {axis for axis, reduced in enumerate(leaf.reductions) if reduced}
    used = [set(result.used_dims()) for each in leaf.input_maps for result in each.results]
    return any(dims & folded and dims - folded for dims in used)


def _tile_columns(nest: func.FuncOp, axis: str, columns: int) -> Chosen:
    sizes = {axis: columns} if columns > 1 else {}
    for leaf in leaves_of(nest):
        if leaf.kind.data == "reduce":
            folded = [name.data for name in leaf.reduce_axes]
            sizes |= dict.fromkeys(folded[:-1], 1)
            sizes |= {last: rows_at_a_time(leaf, last) for last in folded[-1:]}
    reason = "folds down columns: vectors run across them"
    return Chosen((directive("thread_tile", sizes),), reason, {"columns": columns})

"""The default schedule: tiles of the array's size, as many rows past each as the sums can hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects import func, memref
from xdsl.dialects.builtin import ModuleOp

from wia_compiler.backends.tpu.buffers import SLOTS
from wia_compiler.backends.tpu.spelling import check_branches, check_nest, refuse
from wia_compiler.backends.tpu.tile_axes import TileAxes, product_of, tile_axes_of
from wia_compiler.backends.tpu.vector_body import result_buffers
from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.tile import ComputeOp
from wia_compiler.dialects.tpu.machine import SPEC, SystolicMachine
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.schedule import nests_of, refuse_directives, user_schedules
from wia_compiler.passes.scheduling.register import directive_names
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    leaves_of,
    loops_of,
    remove_unit_loops,
    tile_axis,
    tile_reduction,
)

REFUSED = dict.fromkeys(
    directive_names(), "tiles of a tpu are those of its array, in the order of its program"
)
"""Directives that a TPU does not follow, which is all of them, and why."""


@dataclass(frozen=True)
class ScheduleTpuPass:
    """Cut every nest into tiles that the machine's instructions take.

    Columns and depth are cut by the array's 128. Rows are not: every row that streams past a tile
    of weights saves loading it again, so a tile takes as many rows as half of the accumulators
    hold, while the other half is drained, or fewer where the buffers would not fit VMEM.

    ::

        for %i0 in 1000, for %j0 in 130: contract [i = 1, j = 1, k = 257]
          →  for %j0 in 130 step 128, for %k0 in 257 step 128: contract [i = 1000, j = 128, k = 128]
    """

    machine: SystolicMachine = SPEC

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite ``module`` in place; ``TargetError`` for what the machine cannot spell."""
        check_branches(context, module)
        nests = nests_of(module)
        for schedule in user_schedules(nests, context).values():
            refuse_directives(schedule, context, REFUSED)
        for nest in nests:
            check_nest(context, nest)
        rows = self._rows(nests)
        for nest in nests:
            try:
                self._tile(nest, rows, context)
            except IllegalRewrite as reason:
                refuse(context, leaves_of(nest), f"tpu:spec cannot tile this kernel: {reason}")

    def _rows(self, nests: Sequence[func.FuncOp]) -> int:
        """Rows of a tile, so that all buffers of the program fit.

        Nests share buffers, tiles with tiles and long rows with long rows.
        """
        machine = self.machine
        tiles = [nest for nest in nests if not _is_row(nest)]
        long_rows = [nest for nest in nests if _is_row(nest)]
        vectors = max(map(_buffer_count, tiles), default=0)
        vectors += max(map(_buffer_count, long_rows), default=0)
        row = SLOTS * (machine.rows * 2 + vectors * machine.columns * 4)
        rows = machine.accumulator_rows // SLOTS
        weights = SLOTS * machine.rows * machine.columns * 2
        while rows > 1 and weights + rows * row > machine.vmem_bytes:
            rows //= 2
        return rows

    def _tile(self, nest: func.FuncOp, rows: int, context: PassContext) -> None:
        axes = tile_axes_of(leaves_of(nest))
        # Without a product, one row may be as long as the tile of a product has elements.
        columns = self.machine.columns * (rows if _is_row(nest) else 1)
        sizes = {axes.columns: columns, axes.rows: rows}
        for axis, size in sizes.items():
            if axis is not None and loops_of(nest, axis):
                tile_axis(nest, axis, size)
        depth = self._tile_depth(nest)
        context.decisions.append(_decision(nest, axes, depth, rows, self.machine, context))
        remove_unit_loops(nest)

    def _tile_depth(self, nest: func.FuncOp) -> str | None:
        """Cut the folded axes: the last one by the array's rows, others to single points."""
        tiled: str | None = None
        for leaf in _contractions(nest):
            tiled = product_of(leaf).depth
            folded = [
                name
                for name, reduced in zip(leaf.axis_names, leaf.reductions, strict=True)
                if reduced
            ]
            for name in folded:
                (current,) = _contractions(nest)
                tile_reduction(current, name, self.machine.rows if name == tiled else 1)
        return tiled


def _contractions(nest: func.FuncOp) -> list[ComputeOp]:
    return [leaf for leaf in leaves_of(nest) if leaf.kind.data == "contract"]


def _is_row(nest: func.FuncOp) -> bool:
    """Whether a nest works on one axis and has no product: its tiles are single long rows."""
    return not _contractions(nest) and tile_axes_of(leaves_of(nest)).rows is None


def _buffer_count(nest: func.FuncOp) -> int:
    """Buffers that the vector unit reads and writes in a nest."""
    leaves = [leaf for leaf in leaves_of(nest) if leaf.kind.data != "contract"]
    return max((_read(leaf) + result_buffers(leaf) for leaf in leaves), default=0)


def _read(leaf: ComputeOp) -> int:
    return sum(not isinstance(value.owner, memref.AllocOp) for value in leaf.inputs)


def _decision(
    nest: func.FuncOp,
    axes: TileAxes,
    depth: str | None,
    rows: int,
    machine: SystolicMachine,
    context: PassContext,
) -> Decision:
    steps = {loop.axis.data: loop for loop in loops_of(nest)}
    numbers: dict[str, float | int | str] = {
        name: loop.step.value.data for name, loop in steps.items()
    }
    numbers |= {"rows_limit": rows, "array": machine.size}
    roles = {axes.rows: "rows", axes.columns: "columns", depth: "depth"}
    said = ", ".join(f"{axis} as {role}" for axis, role in roles.items() if axis is not None)
    return Decision(
        "tile",
        nest.sym_name.data,
        True,
        f"{said or 'one element'}: weights stay, up to {rows} rows stream past each tile",
        numbers,
        tuple(filter(None, _ids(nest, context))),
    )


def _ids(nest: func.FuncOp, context: PassContext) -> Iterator[str]:
    yield context.id_of(nest)

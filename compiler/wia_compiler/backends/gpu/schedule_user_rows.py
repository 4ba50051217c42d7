"""A user's schedule of reductions on a GPU: how many blocks share a fold."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.phases import check_grid_fold, folds_over
from wia_compiler.backends.gpu.schedule_grid import Parts
from wia_compiler.backends.gpu.schedule_scan import the_scan
from wia_compiler.base.schedule import Schedule
from wia_compiler.passes.tile_rewrites import IllegalRewrite, leaves_of


def parts_as_written(nest: FuncOp, schedule: Schedule) -> Parts | None:
    """The parts of a fold that a line ``parallel AXIS SIZE`` asks for; ``None`` without one."""
    lines = [line for line in schedule.directives if line.name == "parallel"]
    if not lines:
        return None
    entries = [entry for line in lines for entry in line.entries]
    if len(entries) != 1 or len(schedule.directives) > 1:
        raise IllegalRewrite(
            "parallel: a gpu folds one axis in parts, and schedules the launches for it by itself",
            hint="parallel AXIS SIZE stands alone",
            span=lines[0].span,
        )
    (entry,) = entries
    axes = list(dict.fromkeys(name for leaf in leaves_of(nest) for name in leaf.axis_names))
    if entry.number is None:
        raise IllegalRewrite(
            "parallel: every block and thread of a gpu runs in parallel",
            hint=f"with a size it cuts a fold into parts: parallel AXIS SIZE, of {', '.join(axes)}",
            span=entry.span,
        )
    if entry.name not in axes:
        raise IllegalRewrite(
            f"parallel: no axis {entry.name!r}",
            hint=f"the nest has {', '.join(axes)}",
            span=entry.span,
        )
    folds = folds_over(nest, entry.name)
    if not folds:
        raise IllegalRewrite(
            f"parallel: no leaf folds {entry.name!r}, its points run in parallel as they are",
            hint="leave the line out",
            span=entry.span,
        )
    scan = the_scan(nest)
    if scan is None:
        check_grid_fold(nest, entry.name)
        extent = folds[0].sizes[folds[0].axis_names.index(entry.name)]
    else:
        extent = scan.trip_count
    if not 0 < entry.number < extent:
        raise IllegalRewrite(
            f"parallel: {entry.name} has {extent} points, which parts of {entry.number} do not cut",
            hint=f"choose a part of 1 to {extent - 1} points",
            span=entry.span,
        )
    return Parts(entry.name, entry.number, -(-extent // entry.number))

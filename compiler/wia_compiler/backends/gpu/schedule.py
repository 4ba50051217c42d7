"""The default schedule: how each nest is dealt out over blocks, warps and threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

from wia_compiler.backends.gpu.architecture import Architecture
from wia_compiler.backends.gpu.choice import Choice
from wia_compiler.backends.gpu.hopper_attention import (
    hopper_attention_as_written,
    is_warpgroup_attention,
    schedule_hopper_attention,
    why_no_warpgroups,
)
from wia_compiler.backends.gpu.hopper_product import NoHopperProduct
from wia_compiler.backends.gpu.hopper_schedule import schedule_hopper
from wia_compiler.backends.gpu.implicit_product import as_product
from wia_compiler.backends.gpu.launch import BLOCK_SIZE, MIN_BLOCKS
from wia_compiler.backends.gpu.phases import cut_folds
from wia_compiler.backends.gpu.scan_phases import cut_scan
from wia_compiler.backends.gpu.schedule_attention import (
    attention_as_written,
    is_attention,
    schedule_attention,
)
from wia_compiler.backends.gpu.schedule_contraction import schedule_contraction
from wia_compiler.backends.gpu.schedule_elementwise import schedule_elementwise
from wia_compiler.backends.gpu.schedule_grid import Parts, grid_parts
from wia_compiler.backends.gpu.schedule_points import schedule_points, split_phases
from wia_compiler.backends.gpu.schedule_rows import schedule_rows
from wia_compiler.backends.gpu.schedule_scan import grid_scan, the_scan
from wia_compiler.backends.gpu.schedule_tensor_cores import tensor_core_choice
from wia_compiler.backends.gpu.schedule_user import REFUSED, schedule_as_written
from wia_compiler.backends.gpu.schedule_user_rows import parts_as_written
from wia_compiler.backends.gpu.schedule_windows import schedule_windows
from wia_compiler.backends.gpu.split_product import product_parts
from wia_compiler.backends.gpu.widened_products import contract_widened_products
from wia_compiler.base.errors import Diagnostic, TargetError
from wia_compiler.base.record import Decision, Level
from wia_compiler.base.schedule import APPLIED, Schedule, directive
from wia_compiler.dialects.location import spans_of
from wia_compiler.dialects.tile_points import holds_point_code
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.schedule import nests_of, refuse_directives, user_schedules
from wia_compiler.passes.scheduling.apply import at_its_line
from wia_compiler.passes.scheduling.nest import ScheduledNest
from wia_compiler.passes.tile_rewrites import IllegalRewrite, leaves_of

Made = TypeVar("Made")


@dataclass(frozen=True)
class SchedulePass:
    """Schedule every nest by what it holds: point code, a contraction, reductions, or neither.

    Each schedule gives the number of threads of a block and says in a decision what it chose and
    from which numbers.
    """

    architecture: Architecture

    name: ClassVar[str] = "schedule"
    level: ClassVar[Level] = "mid"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Rewrite each ``wia.nest`` function in place; some become several, launched in turn."""
        split_phases(module)
        nests = nests_of(module)
        written = user_schedules(nests, context)
        for nest in nests:
            contract_widened_products(nest)
            own = written.get(nest.sym_name.data)
            own = own if own is not None and own.directives else None
            subjects = tuple(filter(None, (context.id_of(nest),)))
            if is_attention(nest):
                _note(nest, self._attention(nest, own, context), subjects, context)
                continue
            _refuse_mixed(nest, context)
            if own is None:
                parts = (
                    grid_parts(nest, self.architecture)
                    or product_parts(nest, self.architecture)
                    or grid_scan(nest, self.architecture)
                )
            else:
                refuse_directives(own, context, REFUSED)
                parts = _illegal_at_its_line(own, lambda s=own, n=nest: parts_as_written(n, s))
            if parts is not None:
                phases = _cut(nest, parts)
                for phase, chosen in zip(phases, self._phases(phases, parts), strict=True):
                    _note(phase, chosen, subjects, context)
                continue
            subject = ScheduledNest(nest, context.facts)
            if own is None:
                chosen = choose(nest, self.architecture)
            else:
                lines = own.directives
                chosen = _illegal_at_its_line(
                    own, lambda s=subject, d=lines: schedule_as_written(s, d, self.architecture)
                )
            _note(nest, chosen, subjects, context)
            context.decisions += [
                Decision("warning", subject.name, True, each, {}, subjects)
                for each in subject.warnings
            ]

    def _attention(self, nest: FuncOp, own: Schedule | None, context: PassContext) -> Choice:
        """A nest that comes in tiles, which are the user's where there is a schedule."""
        by_warpgroups = is_warpgroup_attention(nest)
        if own is None:
            if by_warpgroups:
                return schedule_hopper_attention(nest, self.architecture)
            return _without_warpgroups(nest, schedule_attention(nest, self.architecture))
        refuse_directives(own, context, REFUSED)
        subject, lines = ScheduledNest(nest, context.facts), own.directives
        if by_warpgroups:
            return _illegal_at_its_line(
                own, lambda: hopper_attention_as_written(nest, lines, self.architecture)
            )
        return _illegal_at_its_line(
            own, lambda: attention_as_written(subject, lines, self.architecture)
        )

    def _phases(self, phases: Sequence[FuncOp], parts: Parts) -> list[Choice]:
        """What each phase of a cut nest runs as; the first one tells why it was cut."""
        made = [replace(choose(each, self.architecture), directives=None) for each in phases]
        first = made[0]
        reason = (
            f"{parts.count} parts of {parts.size} points of {parts.axis} for all SMs, folded by "
            f"a launch of their own; {first.reason}"
        )
        numbers = {**first.numbers, **parts.numbers}
        line = directive("parallel", {parts.axis: parts.size})
        made[0] = replace(first, reason=reason, numbers=numbers, directives=(line,))
        return made


def _cut(nest: FuncOp, parts: Parts) -> list[FuncOp]:
    scan = the_scan(nest)
    if scan is None:
        return cut_folds(nest, parts.axis, parts.size)
    return cut_scan(nest, scan, parts.size)


def _note(nest: FuncOp, chosen: Choice, subjects: tuple[str, ...], context: PassContext) -> None:
    """Keep what was chosen for a nest: its launch, and the decision that tells of it."""
    numbers = {"threads": chosen.threads, **chosen.numbers}
    if chosen.directives is not None:
        numbers[APPLIED] = "; ".join(map(str, chosen.directives))
    name = nest.sym_name.data
    context.decisions.append(Decision("schedule", name, True, chosen.reason, numbers, subjects))
    nest.attributes[BLOCK_SIZE] = IntegerAttr(chosen.threads, i64)
    if chosen.min_blocks is not None:
        nest.attributes[MIN_BLOCKS] = IntegerAttr(chosen.min_blocks, i64)


def _illegal_at_its_line(schedule: Schedule, apply: Callable[[], Made]) -> Made:
    """What applying a user's schedule gives; ``CompileError`` for a line that is illegal."""
    try:
        return apply()
    except IllegalRewrite as refusal:
        raise at_its_line(refusal, schedule) from None


def _without_warpgroups(nest: FuncOp, chosen: Choice) -> Choice:
    """Where an attention could have gone by warpgroups, the reason says why it does not."""
    why = why_no_warpgroups(nest)
    return replace(chosen, reason=f"{chosen.reason}; not by wgmma: {why}") if why else chosen


def choose(nest: FuncOp, architecture: Architecture) -> Choice:
    """Schedule one nest by what it holds."""
    kinds = {leaf.kind.data for leaf in leaves_of(nest)}
    if holds_point_code(nest):
        return schedule_points(nest)
    if kinds & {"contract", "window"}:
        return _contraction(nest, architecture)
    if "reduce" in kinds:
        windows = schedule_windows(nest) if the_scan(nest) is None else None
        return windows or schedule_rows(nest, architecture)
    return schedule_elementwise(nest, architecture)


def _contraction(nest: FuncOp, architecture: Architecture) -> Choice:
    """By warpgroups where the architecture has products of them, and says why not elsewhere."""
    if not architecture.is_specific:
        return _by_warps(nest, architecture)
    try:
        return schedule_hopper(nest, architecture)
    except NoHopperProduct as why:
        chosen = _by_warps(nest, architecture)
        return replace(chosen, reason=f"{chosen.reason}; not by wgmma: {why}")


def _by_warps(nest: FuncOp, architecture: Architecture) -> Choice:
    """By matrix units of warps where they have products of the nest's types, else by threads."""
    collapsed = as_product(nest, architecture)
    chosen = tensor_core_choice(nest, architecture)
    return chosen or schedule_contraction(nest, architecture, collapsed)


def _refuse_mixed(nest: FuncOp, context: PassContext) -> None:
    """Raise ``TargetError`` for a nest of both sorts: its leaves' axes are not dealt out here."""
    if not holds_point_code(nest) or not leaves_of(nest):
        return
    span = next(iter(spans_of(nest)), None)
    name = nest.sym_name.data
    message = f"a gpu cannot run {name} yet: it mixes leaves with loops that compute by points"
    hint = 'build this kernel for "cpu", or keep that op in a kernel of its own'
    raise TargetError(Diagnostic(message, span, hint, context.source).render())

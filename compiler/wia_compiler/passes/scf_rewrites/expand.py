"""The hints of a function's loops, written out: the last step of a schedule on the low level."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from xdsl.dialects import func, scf
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64

from wia_compiler.base.record import Decision
from wia_compiler.dialects.loop_hints import (
    PREFIX,
    WHOLE,
    LoopHints,
    Prefetch,
    hints_of,
    note_hints,
)
from wia_compiler.dialects.tile_points import AXIS
from wia_compiler.dialects.walk import walk
from wia_compiler.passes.scf_rewrites.accumulators import split_accumulators
from wia_compiler.passes.scf_rewrites.jam import unroll_and_jam
from wia_compiler.passes.scf_rewrites.loops import CannotExpand, trip_count
from wia_compiler.passes.scf_rewrites.pipeline import pipeline
from wia_compiler.passes.scf_rewrites.prefetch import (
    Fetch,
    find_accesses,
    insert_prefetches,
)
from wia_compiler.passes.scf_rewrites.tidy import tidy_indices
from wia_compiler.passes.scf_rewrites.unroll import unroll

_LEFT_ALONE = PREFIX + "unroll"
"""With 1: LLVM leaves a loop as it is."""
_SCALAR = PREFIX + "vector_width"
"""With 1, on a loop of turns: lanes across turns would gather what one turn reads side by side."""
_ONE = IntegerAttr(1, i64)
_Step = Callable[[scf.ForOp], "scf.ForOp | None"]


def expand_hints(function: func.FuncOp) -> list[Decision]:
    """Write out what ``dialects.loop_hints`` notes on a function's loops.

    Loops are jammed first, outer ones before those inside; then, from the inside out, each loop
    gets its accumulators, its turns of several iterations, its prefetches and its stages: a stage
    is a whole turn. Where a loop has not the form that a hint needs it stays as it is, and the
    decision of kind ``expand`` says why.
    """
    decisions: list[Decision] = []
    if not _hinted(function):
        return decisions
    while jammed := [loop for loop in _hinted(function) if hints_of(loop).unroll_and_jam > 1]:
        _jam(jammed[0], function, decisions)
    while hinted := _hinted(function):
        _expand(hinted[-1], function, decisions)
    if decisions:
        for op in walk(function):
            op.attributes.pop(PREFIX + "independent", None)
        tidy_indices(function)
    return decisions


def _hinted(function: func.FuncOp) -> list[scf.ForOp]:
    """The loops with hints, each before those inside it."""
    return [op for op in walk(function) if isinstance(op, scf.ForOp) and hints_of(op)]


def _jam(loop: scf.ForOp, function: func.FuncOp, decisions: list[Decision]) -> None:
    hints = hints_of(loop)
    count = hints.unroll_and_jam
    note_hints(loop, replace(hints, unroll_and_jam=1))
    steps = _Steps(loop, function, decisions)
    steps.take(
        f"unroll_and_jam {count}",
        "iterations share the turns of the loops inside",
        lambda each: unroll_and_jam(each, count),
    )


def _expand(loop: scf.ForOp, function: func.FuncOp, decisions: list[Decision]) -> None:
    """All hints of a loop but to jam it."""
    hints = hints_of(loop)
    note_hints(loop, LoopHints(independent=hints.independent))
    steps = _Steps(loop, function, decisions)
    split = False
    if hints.accumulators > 1:
        copies = hints.unroll if hints.unroll != WHOLE else trip_count(loop) or 1
        split = steps.take(
            f"accumulators {hints.accumulators}",
            "partial results do not wait for each other",
            lambda each: split_accumulators(each, hints.accumulators, copies),
        )
    if hints.unroll != 1 and not split:
        count = "" if hints.unroll == WHOLE else f" {hints.unroll}"
        reason = "iterations run in one turn" if count else "all iterations are written out"
        steps.take(f"unroll{count}", reason, lambda each: unroll(each, hints.unroll))
    if steps.loop is not None and steps.loop is not loop:
        steps.loop.attributes |= {_LEFT_ALONE: _ONE, _SCALAR: _ONE}
    fetches: list[Fetch] = []
    for wanted in hints.prefetch:

        def find(each: scf.ForOp, wanted: Prefetch = wanted) -> scf.ForOp:
            fetches.append(find_accesses(each, wanted))
            return each

        reason = f"lines are fetched {wanted.ahead} points ahead into L{wanted.level}"
        steps.take(f"prefetch {wanted.array} {wanted.ahead}", reason, find)
    if fetches and steps.loop is not None:
        steps.loop = insert_prefetches(steps.loop, fetches, by_line=hints.pipeline < 2)
    if hints.pipeline > 1:
        steps.take(
            f"pipeline {hints.pipeline}",
            f"loads run ahead by {_turns(hints.pipeline - 1)}: prologue, steady state, epilogue",
            lambda each: pipeline(each, hints.pipeline),
        )
    if steps.loop is not None and steps.loop is not loop:
        steps.loop.attributes[_LEFT_ALONE] = _ONE


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


class _Steps:
    """The rewrites of one loop, each of what the one before left, with their decisions."""

    def __init__(self, loop: scf.ForOp, function: func.FuncOp, decisions: list[Decision]):
        self.loop: scf.ForOp | None = loop
        self.decisions = decisions
        self.subject = function.sym_name.data
        axis = loop.attributes.get(AXIS)
        hint = loop.body.block.args[0].name_hint
        self.axis = axis.data if isinstance(axis, StringAttr) else hint or "a loop"

    def take(self, what: str, reason: str, step: _Step) -> bool:
        """Run one rewrite; ``False`` where it does not fit the loop, which stays as it is."""
        taken = True
        try:
            if self.loop is None:
                raise CannotExpand("all its iterations are written out")
            self.loop = step(self.loop)
        except CannotExpand as refusal:
            taken, reason = False, str(refusal)
        candidate = f"{self.subject}: {what} of {self.axis}"
        self.decisions.append(Decision("expand", candidate, taken, reason))
        return taken

"""What to change: every rule that holds for a run, in the order of the rows."""

from __future__ import annotations

from wia_compiler.profiler.rule import Advice as Advice
from wia_compiler.profiler.rule import Rule, advice_of
from wia_compiler.profiler.rule import Run as Run
from wia_compiler.profiler.rules import ARRAY, GENERAL, NOISE
from wia_compiler.profiler.rules_gpu import ASSEMBLED, COUNTED, MODELLED

WORTH = 1.05
"""A rule of the model of time speaks where what it advises is worth so much to the model."""

RULES: tuple[Rule, ...] = (*GENERAL, *COUNTED, *ASSEMBLED, *MODELLED, *ARRAY, *NOISE)


def advise(run: Run) -> tuple[Advice, ...]:
    """The advice of every rule that holds; each piece is its own sentence."""
    found = [advice_of(rule, run) for rule in RULES if rule.holds(run)]
    return tuple(each for each in found if not _is_idle(each))


def _is_idle(advice: Advice) -> bool:
    return advice.source == "model" and advice.gain is not None and advice.gain < WORTH

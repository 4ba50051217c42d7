"""What advice is made of: the run that is looked at, a rule as a row, and the advice it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wia_compiler.profiler.estimate import Estimate
from wia_compiler.profiler.roofline import Roofline
from wia_compiler.profiler.timers import Timing

Source = Literal["measured", "simulated", "model", "ptxas"]
"""Who says so: a clock, a simulator's counters, the model of time, or the assembler."""


@dataclass(frozen=True)
class Run:
    """What the rules look at.

    ``resources`` are the build's, ``estimate`` is the model's of a run that nobody timed.
    ``read_schedule`` gives the schedule that the kernel was built by, which is only asked for where
    a rule has a schedule to offer; ``dtype`` is that of the arithmetic.
    """

    roofline: Roofline
    timing: Timing | None
    time: float | None
    size_bytes: int
    counters: Mapping[str, int | float]
    resources: Mapping[str, Any] = field(default_factory=dict[str, Any])
    estimate: Estimate | None = None
    read_schedule: Callable[[], str] = str
    dtype: str = "f32"

    def count(self, name: str) -> float:
        """A counter, 0 where it was not counted."""
        return float(self.counters.get(name, 0))

    def share(self, part: str, whole: str) -> float:
        """One counter over another; 0 where there is none."""
        total = self.count(whole)
        return self.count(part) / total if total else 0.0

    def part(self, name: str) -> float:
        """A part of the estimated time over the longest of all; 0 where nothing is estimated."""
        if self.estimate is None:
            return 0.0
        longest = max(self.estimate.parts.values(), default=0.0)
        return self.estimate.parts.get(name, 0.0) / longest if longest else 0.0

    @property
    def limiter(self) -> str:
        """The longest part of the estimated time; empty where nothing is estimated."""
        return self.estimate.limiter if self.estimate is not None else ""

    @property
    def percent(self) -> float:
        """How much of the roof was reached; 100 where that is not known, so that no rule fires."""
        return 100.0 if self.roofline.percent is None else self.roofline.percent


def always(run: Run) -> bool:
    """The condition of a rule that every run may meet."""
    return True


@dataclass(frozen=True)
class Rule:
    """``text`` is the advice where ``value`` is beyond ``threshold`` in a run that ``when`` takes.

    ``counter`` says what ``value`` is. ``compare`` is how it must lie to the threshold.
    ``schedule`` gives directives that do what the text says, ``None`` where a schedule cannot;
    ``gain`` how many times faster the model takes the run to be then.
    """

    name: str
    counter: str
    value: Callable[[Run], float]
    compare: Literal[">", ">=", "<"]
    threshold: float
    text: Callable[[Run], str]
    source: Source
    when: Callable[[Run], bool] = always
    schedule: Callable[[Run], str | None] | None = None
    gain: Callable[[Run], float | None] | None = None

    def holds(self, run: Run) -> bool:
        """Whether the rule has something to say."""
        if not self.when(run):
            return False
        value = self.value(run)
        match self.compare:
            case ">":
                return value > self.threshold
            case ">=":
                return value >= self.threshold
            case "<":
                return value < self.threshold


class Advice(str):
    """A sentence that says what to change, with the rule and the numbers behind it.

    It is its own text. ``rule`` names the rule, ``counter`` what it looked at, ``value`` what it
    found there and ``threshold`` where advice begins. ``schedule`` can be given to
    ``build.to(schedule=…)`` or ``kernel.build(…, schedule=…)``; ``None`` where no line of a
    schedule does it. ``gain`` is how many times faster the model takes the run to be with what is
    advised, ``None`` where it cannot say; ``source`` who counted.
    """

    rule: str
    counter: str
    value: float
    threshold: float
    schedule: str | None
    gain: float | None
    source: Source

    def __new__(
        cls,
        text: str,
        *,
        rule: str = "",
        counter: str = "",
        value: float = 0.0,
        threshold: float = 0.0,
        schedule: str | None = None,
        gain: float | None = None,
        source: Source = "simulated",
    ) -> Advice:
        made = super().__new__(cls, text)
        made.rule, made.counter = rule, counter
        made.value, made.threshold = value, threshold
        made.schedule, made.gain, made.source = schedule, gain, source
        return made

    @property
    def text(self) -> str:
        """The sentence alone."""
        return str.__str__(self)

    def to_data(self) -> dict[str, Any]:
        """Plain data, with the sentence as ``text``."""
        return {"text": self.text, **vars(self)}


def advice_of(rule: Rule, run: Run) -> Advice:
    """What a rule that holds says of a run."""
    schedule = rule.schedule(run) if rule.schedule is not None else None
    return Advice(
        rule.text(run),
        rule=rule.name,
        counter=rule.counter,
        value=rule.value(run),
        threshold=rule.threshold,
        schedule=schedule,
        gain=rule.gain(run) if rule.gain is not None else None,
        source=rule.source,
    )

"""Decisions of fusion: each candidate, its numbers, what came of it and what would change it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from wia_compiler.base.record import Decision
from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.costs import THRESHOLD, Estimate, bytes_text
from wia_compiler.passes.fusing.group import Order
from wia_compiler.passes.fusing.legality import Refusal
from wia_compiler.passes.fusing.roles import role_of

Numbers: TypeAlias = "dict[str, float | int | str]"


@dataclass
class Report:
    """The decisions so far, one a candidate; a later one about the same ops takes its place."""

    context: PassContext
    order: dict[TensorOp, Order]
    decisions: dict[tuple[int, ...], Decision] = field(
        default_factory=dict["tuple[int, ...]", Decision]
    )

    def decide(
        self,
        op: TensorOp,
        user: TensorOp,
        numbers: Estimate,
        times: int = 1,
        written: Sequence[str] = (),
        *,
        kept: bool = False,
    ) -> None:
        """A producer that may join the kernel of a consumer does so where the numbers say so.

        ``times``: in how many passes over a row it is needed; ``kept``: it is computed in one.
        """
        row = numbers_of(numbers, written)
        if times > 1 and role_of(op) == "elementwise":
            row["sweeps"] = times
        if numbers.taken:
            self.vertical(op, user, True, _taken_reason(op, numbers, times, written, kept), row)
        else:
            would = unless(numbers.conditions)
            self.vertical(op, user, False, refused_reason(numbers), {**row, **would})

    def refuse(
        self,
        op: TensorOp,
        user: TensorOp,
        refusal: Refusal,
        numbers: Estimate,
        others: Sequence[str],
        conditions: Sequence[str],
    ) -> None:
        """A producer does not join the kernel of a consumer, whatever the numbers."""
        row = {**numbers_of(numbers, others), **refusal.numbers, **unless(conditions)}
        self.vertical(op, user, False, refusal.reason, row)

    def vertical(
        self, op: TensorOp, user: TensorOp, taken: bool, reason: str, numbers: Numbers
    ) -> None:
        """A decision about one edge."""
        candidate = f"{op.declaration.name} → {user.declaration.name}"
        subjects = tuple(filter(None, [self.context.id_of(op), self.context.id_of(user)]))
        made = Decision("vertical", candidate, taken, reason, numbers, subjects)
        self.decisions[0, self.order[op][0], self.order[user][0]] = made

    def horizontal(
        self,
        sinks: Sequence[Sequence[TensorOp]],
        taken: bool,
        reason: str,
        numbers: Numbers,
    ) -> None:
        """A decision about kernels side by side, given by the ops whose results leave them."""
        key = (1, *(self.order[op][0] for each in sinks for op in each))
        self.decisions[key] = horizontal_decision(sinks, taken, reason, numbers, self.context)

    def in_order(self) -> list[Decision]:
        """Decisions about edges, then those about neighbours, each in order of the text."""
        return [each for _, each in sorted(self.decisions.items(), key=lambda item: item[0])]


def horizontal_decision(
    sinks: Sequence[Sequence[TensorOp]],
    taken: bool,
    reason: str,
    numbers: Numbers,
    context: PassContext,
) -> Decision:
    """A decision about kernels side by side: ``add and exp | reduce_sum``."""
    named = [" and ".join(op.declaration.name for op in each) for each in sinks]
    ids = [context.id_of(op) for each in sinks for op in each]
    subjects = tuple(filter(None, ids))
    return Decision("horizontal", " | ".join(named), taken, reason, numbers, subjects)


def numbers_of(numbers: Estimate, others: Sequence[str]) -> Numbers:
    """The chapter's numbers of a candidate, and what it saves."""
    return {
        "registers": numbers.registers,
        "register_capacity": numbers.register_capacity,
        "other_users": len(others),
        "other_user_names": ", ".join(others),
        "saved_bytes": numbers.saved_bytes,
        "saved_launches": numbers.launches_saved,
        "benefit": numbers.benefit,
        "cost": round(numbers.cost, 1),
        "ratio": round(numbers.ratio, 3),
        "threshold": THRESHOLD,
    }


def unless(conditions: Sequence[str]) -> Numbers:
    """The cell of a table that says under which conditions it would have been fused."""
    return {"would_fuse_if": "; or ".join(conditions)} if conditions else {}


def refused_reason(numbers: Estimate) -> str:
    """Which of the numbers forbids it."""
    if not numbers.fits:
        return (
            f"the kernel would need {numbers.registers} registers, {numbers.register_capacity} fit"
        )
    return f"benefit {numbers.ratio:.2f} × cost, needs {THRESHOLD}"


def saving_text(numbers: Estimate) -> str:
    """``17.5 MB of traffic and one launch less, benefit 5 × cost``."""
    launches = "one launch" if numbers.launches_saved == 1 else f"{numbers.launches_saved} launches"
    ratio = f"{numbers.ratio:,.0f}" if numbers.ratio >= 100 else f"{numbers.ratio:.3g}"
    return (
        f"{bytes_text(numbers.saved_bytes)} of traffic and {launches} less, benefit {ratio} × cost"
    )


def needed_elsewhere(name: str, others: Sequence[str]) -> str:
    """Names the consumers that keep an op's result from staying in registers."""
    if len(others) == 1:
        return f"{name} has another consumer, {others[0]}"
    return f"{name} has {len(others)} other consumers: {', '.join(others)}"


def _taken_reason(
    op: TensorOp, numbers: Estimate, times: int, written: Sequence[str], kept: bool
) -> str:
    moves = role_of(op) == "movement"
    how = f"{op.declaration.name} {'becomes an index map' if moves else 'stays in registers'}"
    if written:
        how += f" and is written on the way, for {' and '.join(written)}"
    if times > 1 and role_of(op) == "elementwise":
        how += f", needed in each of {times} sweeps over the rows"
        how += ", which keep it" if kept else ""
    return f"{how}: {saving_text(numbers)}"

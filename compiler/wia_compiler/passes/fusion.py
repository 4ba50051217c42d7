"""Vertical fusion: chains of producers and consumers become one kernel each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from wia_compiler.base.record import Decision, Level
from wia_compiler.dialects.wia.ops import ConstantOp, TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.build import fuse
from wia_compiler.passes.fusing.costs import THRESHOLD, Estimate, bytes_text, estimate
from wia_compiler.passes.fusing.group import Group, users_of
from wia_compiler.passes.fusing.legality import Refusal, join, place_in, too_few_rows
from wia_compiler.passes.fusing.places import Place
from wia_compiler.passes.kernel_function import kernel_function, return_of


@dataclass(frozen=True)
class Fusion:
    """Groups ops into ``wia.fused`` kernels whose intermediates stay in registers.

    ``%1 = wia.conv2d %x, %w``, ``%2 = wia.add %1, %b``, ``%3 = wia.relu %2`` →
    ``%3 = wia.fused @fused_conv2d_add_relu (%x, %w, %b) { … }``.

    Ops are visited from the last to the first. One joins the kernel of its users when they all are
    in one, so that nothing else needs its result (which also keeps the graph of kernels free of
    cycles), when ``fusing.legality`` allows it, and when it pays by ``fusing.costs``. Every edge
    from a producer to a consumer is recorded as a decision, taken or refused.
    """

    name: ClassVar[str] = "fusion"
    level: ClassVar[Level] = "high"

    def run(self, module: ModuleOp, context: PassContext) -> None:
        """Group the ops of the context's kernel."""
        function = kernel_function(module, context.kernel)
        ops = [op for op in function.body.block.ops if isinstance(op, TensorOp)]
        grouping = _Grouping(context, {op: n for n, op in enumerate(ops)}, _result_names(function))
        for op in reversed(ops):
            grouping.visit(op)
        context.decisions += grouping.recorded()
        _build(grouping.groups_in_order())


def _build(groups: Sequence[tuple[Group, list[TensorOp]]]) -> None:
    names: set[str] = set()
    for group, ops in groups:
        has_constant = any(isinstance(v.owner, ConstantOp) for op in ops for v in op.arguments)
        if len(ops) > 1 or has_constant:
            fuse(ops, group.sink, names)


def _result_names(function: FuncOp) -> dict[object, list[str]]:
    """What the kernel's results are called, by the value that each is."""
    names: dict[object, list[str]] = {}
    for value in return_of(function).operands:
        names.setdefault(value, []).append(f"the result {value.name_hint or ''}".strip())
    return names


@dataclass
class _Grouping:
    context: PassContext
    order: dict[TensorOp, int]
    results: dict[object, list[str]]
    groups: dict[TensorOp, Group] = field(default_factory=dict[TensorOp, Group])
    decisions: dict[tuple[int, int], Decision] = field(
        default_factory=dict["tuple[int, int]", Decision]
    )
    deferred: dict[TensorOp, Group] = field(default_factory=dict[TensorOp, Group])

    def __post_init__(self) -> None:
        self.epilogues: dict[TensorOp, TensorOp] = {}
        for op in self.order:
            contraction = self._followed_contraction(op)
            if contraction is not None:
                self.epilogues[op] = contraction

    def _followed_contraction(self, op: TensorOp) -> TensorOp | None:
        """The contraction whose result an elementwise op works on, when nothing else reads it."""
        if op.declaration.family != "elementwise":
            return None
        for value in op.arguments:
            before = value.owner
            if not isinstance(before, TensorOp) or value in self.results:
                continue
            if users_of(before) != [op] or before.result_spec.shape != op.result_spec.shape:
                continue
            if before.declaration.family == "contraction":
                return before
            if before in self.epilogues:
                return self.epilogues[before]
        return None

    def visit(self, op: TensorOp) -> None:
        """Let an op join the kernel of its users, or start one."""
        users = self._users(op)
        groups = list({id(self.groups[user]): self.groups[user] for user in users}.values())
        alone = len(groups) == 1 and op.result not in self.results
        place = self._place(groups[0], op) if alone else None
        if place is None or isinstance(place, Refusal):
            for user in users:
                self._refuse(op, user, place)
            self.groups[op] = Group.of(op)
            if isinstance(place, Refusal) and place.later:
                self.deferred[op] = groups[0]
            return
        group = groups[0]
        times = group.times_computed(op)
        numbers = estimate(op, group.demand_with(op), times, False, self.context.facts)
        for user in users:
            self._decide(op, user, numbers, times)
        if numbers.fits and numbers.pays:
            self._join(group, op, place)
        else:
            self.groups[op] = Group.of(op)

    def _place(self, group: Group, op: TensorOp) -> Place | Refusal:
        """Where ``op`` would stand in the kernel of its users, or why it may not join.

        What follows a contraction stays with it: there it is computed once, as the result is
        written, while a kernel that sweeps over rows would compute it in each sweep.
        """
        contraction = self.epilogues.get(op)
        if contraction is None or group.folded is None:
            return place_in(group, op, self.context.facts)
        times = group.times_computed(op)
        name, product = op.declaration.name, contraction.declaration.name
        reason = f"{name} stays with {product}, which computes it once as it writes its result"
        return Refusal(reason, {"sweeps": times} if times > 1 else {})

    def _join(self, group: Group, op: TensorOp, place: Place) -> None:
        folds_first = op.declaration.family == "reduction" and group.folded is None
        join(group, op, place)
        self.groups[op] = group
        if folds_first:
            self._reconsider(group)

    def _reconsider(self, group: Group) -> None:
        """A kernel that now folds rows: what it leaves for each row may be used on the spot.

        ``rsqrt(variance)`` has one element a row. On its own it would be computed again for each
        element of the row; beside the reduction that yields ``variance`` it is computed once.
        """
        sink = group.sink
        reader = self.deferred.pop(sink, None)
        if reader is None or reader.contraction is not None:
            return
        reader = self.groups[reader.sink]
        fits = (reader.domain, reader.demanded(sink)) == (group.domain, group.members[sink])
        if not fits or reader.folded not in (None, group.folded):
            return
        if reader.folded is None and too_few_rows(group.rows, group, self.context.facts):
            return
        merged = reader.merged(group, self.order)
        numbers = estimate(sink, merged.demand, 1, False, self.context.facts)
        for user in users_of(sink):
            self._decide(sink, user, numbers, 1)
        if numbers.fits and numbers.pays:
            for op in merged.members:
                self.groups[op] = merged

    def _users(self, op: TensorOp) -> list[TensorOp]:
        return sorted(users_of(op), key=self.order.__getitem__)

    def _others(self, op: TensorOp, user: TensorOp) -> list[str]:
        """Names of the consumers of ``op`` outside of the kernel that ``user`` is in."""
        group = self.groups[user]
        outside = [u.declaration.name for u in self._users(op) if self.groups[u] is not group]
        return outside + self.results.get(op.result, [])

    def _refuse(self, op: TensorOp, user: TensorOp, refusal: Refusal | None) -> None:
        group, others = self.groups[user], self._others(op, user)
        demand, times = group.demand_with(op), group.times_computed(op)
        numbers = estimate(op, demand, times, bool(others), self.context.facts)
        if refusal is None:
            refusal = Refusal(_needed_elsewhere(op.declaration.name, others))
        self._record(op, user, False, refusal.reason, {**_row(numbers, others), **refusal.numbers})

    def _decide(self, op: TensorOp, user: TensorOp, numbers: Estimate, times: int) -> None:
        taken = numbers.fits and numbers.pays
        if not numbers.fits:
            reason = (
                f"the kernel would need {numbers.registers} registers, "
                f"{numbers.register_capacity} fit"
            )
        elif not numbers.pays:
            reason = f"benefit {numbers.ratio:.2f} × cost, needs {THRESHOLD}"
        else:
            name = op.declaration.name
            moves = op.declaration.family == "movement"
            how = f"{name} becomes an index map" if moves else f"{name} stays in registers"
            if times > 1 and op.declaration.family == "elementwise":
                how += f", needed in each of {times} sweeps over the rows"
            reason = (
                f"{how}: {bytes_text(numbers.saved_bytes)} of traffic and one launch less, "
                f"benefit {_ratio_text(numbers.ratio)} × cost"
            )
        row = _row(numbers, [])
        if times > 1 and op.declaration.family == "elementwise":
            row["sweeps"] = times
        self._record(op, user, taken, reason, row)

    def _record(
        self,
        op: TensorOp,
        user: TensorOp,
        taken: bool,
        reason: str,
        numbers: dict[str, float | int | str],
    ) -> None:
        subjects = tuple(filter(None, [self.context.id_of(op), self.context.id_of(user)]))
        candidate = f"{op.declaration.name} → {user.declaration.name}"
        self.decisions[self.order[op], self.order[user]] = Decision(
            "vertical", candidate, taken, reason, numbers, subjects
        )

    def recorded(self) -> list[Decision]:
        """The decisions, in order of the text."""
        return [
            decision for _, decision in sorted(self.decisions.items(), key=lambda each: each[0])
        ]

    def groups_in_order(self) -> list[tuple[Group, list[TensorOp]]]:
        """Each kernel with its ops in order of the text."""
        members: dict[int, tuple[Group, list[TensorOp]]] = {}
        for op in self.order:
            group = self.groups[op]
            members.setdefault(id(group), (group, []))[1].append(op)
        return list(members.values())


def _row(numbers: Estimate, others: list[str]) -> dict[str, float | int | str]:
    return {
        "registers": numbers.registers,
        "register_capacity": numbers.register_capacity,
        "other_users": len(others),
        "other_user_names": ", ".join(others),
        "saved_bytes": numbers.saved_bytes,
        "benefit": numbers.benefit,
        "cost": round(numbers.cost, 1),
        "ratio": round(numbers.ratio, 3),
        "threshold": THRESHOLD,
    }


def _ratio_text(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.3g}"


def _needed_elsewhere(name: str, others: list[str]) -> str:
    if len(others) == 1:
        return f"{name} has another consumer, {others[0]}"
    return f"{name} has {len(others)} other consumers: {', '.join(others)}"

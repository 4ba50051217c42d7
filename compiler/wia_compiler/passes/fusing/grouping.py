"""Which ops of a block become one kernel: producers join the kernels of their consumers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Block

from wia_compiler.dialects.wia.ops import TensorOp
from wia_compiler.passes.framework import PassContext
from wia_compiler.passes.fusing.costs import estimate
from wia_compiler.passes.fusing.duplicate import can_repeat, repeat, repeated_estimate
from wia_compiler.passes.fusing.graph import opaque_users, users_of, written_for
from wia_compiler.passes.fusing.group import Group, Order
from wia_compiler.passes.fusing.horizontal import Horizontal
from wia_compiler.passes.fusing.legality import Refusal, join, place_in, too_few_rows, writable
from wia_compiler.passes.fusing.places import Place
from wia_compiler.passes.fusing.report import Report, needed_elsewhere, numbers_of, saving_text
from wia_compiler.passes.fusing.roles import role_of


@dataclass
class Grouping:
    """The kernels of one block in the making.

    Ops are visited from the last to the first. One joins the kernel of its users when they all are
    in one, so that nothing else needs its result (which also keeps the graph of kernels free of
    cycles), when ``legality`` allows it, and when it pays by ``costs``. A value that leaves the
    block (a result, an argument of a branch) is written by the kernel it joins. Users in several
    kernels keep it out, unless these become one (``horizontal``) or each of them computes it
    (``duplicate``).
    """

    context: PassContext
    order: dict[TensorOp, Order]
    groups: dict[TensorOp, Group] = field(default_factory=dict[TensorOp, Group])
    deferred: dict[TensorOp, Group] = field(default_factory=dict[TensorOp, Group])

    @staticmethod
    def of(block: Block, context: PassContext) -> Grouping:
        """Group the ops of a block."""
        ops = [op for op in block.ops if isinstance(op, TensorOp)]
        grouping = Grouping(context, {op: (number, 0) for number, op in enumerate(ops)})
        for op in reversed(ops):
            grouping.visit(op)
        grouping.horizontal.merge_neighbours(list(grouping.order))
        return grouping

    def __post_init__(self) -> None:
        self.facts = self.context.facts
        self.report = Report(self.context, self.order)
        self.horizontal = Horizontal(self.groups, self.order, self.report, self.facts)
        self.epilogues: dict[TensorOp, TensorOp] = {}
        for op in self.order:
            contraction = self._followed_contraction(op)
            if contraction is not None:
                self.epilogues[op] = contraction

    def _followed_contraction(self, op: TensorOp) -> TensorOp | None:
        """The contraction whose result an elementwise op works on, when nothing else reads it."""
        if role_of(op) != "elementwise":
            return None
        for value in op.arguments:
            before = value.owner
            if not isinstance(before, TensorOp) or before.parent is not op.parent:
                continue
            read = [*users_of(before), *written_for(before), *opaque_users(before)]
            if read != [op] or before.result_spec.shape != op.result_spec.shape:
                continue
            if role_of(before) == "contraction":
                return before
            if before in self.epilogues:
                return self.epilogues[before]
        return None

    def visit(self, op: TensorOp) -> None:
        """Let an op join the kernel of its users, or start one."""
        users = sorted(users_of(op), key=self.order.__getitem__)
        groups = self._kernels(users)
        if len(groups) > 1:
            groups = self.horizontal.merge_readers(groups)
        if len(groups) > 1 and self._repeat(op, users, groups):
            return
        if len(groups) == 1 and not opaque_users(op):
            self._join_or_refuse(op, users, groups[0])
            return
        for user in users:
            self._refuse(op, user, None)
        self.groups[op] = Group.of(op)

    def _kernels(self, users: Iterable[TensorOp]) -> list[Group]:
        return list({id(self.groups[user]): self.groups[user] for user in users}.values())

    def _join_or_refuse(self, op: TensorOp, users: Sequence[TensorOp], group: Group) -> None:
        written = written_for(op)
        place = self._place(group, op)
        if written and not isinstance(place, Refusal):
            place = writable(group, op, place, written[0]) or place
        if isinstance(place, Refusal):
            for user in users:
                self._refuse(op, user, place)
            self.groups[op] = Group.of(op)
            if place.later:
                self.deferred[op] = group
            return
        times = group.times_computed(op, written=bool(written))
        demand = group.demand_with(op, written=bool(written))
        paid = 1 if group.keeps_rows(self.facts) else times
        numbers = estimate(op, demand, paid, bool(written), self.facts)
        for user in users:
            self.report.decide(op, user, numbers, times, written, kept=paid < times)
        if numbers.taken:
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
            return place_in(group, op, self.facts)
        times = group.times_computed(op)
        name, product = op.declaration.name, contraction.declaration.name
        return Refusal(
            f"{name} stays with {product}, which computes it once as it writes its result",
            f"{name} did not follow {product}",
            {"sweeps": times} if times > 1 else {},
        )

    def _join(self, group: Group, op: TensorOp, place: Place) -> None:
        folds_first = role_of(op) == "rows" and group.folded is None
        if written_for(op):
            group.result(op)
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
        if reader is None or len(group.sinks) > 1:
            return
        reader = self.groups[reader.sink]
        if reader.contraction is not None:
            return
        fits = (reader.domain, reader.demanded(sink)) == (group.domain, group.members[sink])
        if not fits or reader.folded not in (None, group.folded):
            return
        if reader.folded is None and too_few_rows(group.rows, group, self.facts):
            return
        written = written_for(sink)
        sinks = (*reader.sinks, sink) if written else reader.sinks
        merged = reader.merged(group, sinks, self.order)
        numbers = estimate(sink, merged.demand, 1, bool(written), self.facts)
        for user in users_of(sink):
            self.report.decide(sink, user, numbers, written=written)
        if numbers.taken:
            for op in merged.members:
                self.groups[op] = merged

    def _repeat(self, op: TensorOp, users: Sequence[TensorOp], groups: Sequence[Group]) -> bool:
        """Let every kernel that reads a cheap op compute it, where that beats writing it."""
        if not can_repeat(op) or written_for(op) or opaque_users(op):
            return False
        places = [self._place(group, op) for group in groups]
        numbers = repeated_estimate(op, groups, self.facts)
        accepted = [place for place in places if not isinstance(place, Refusal)]
        if len(accepted) < len(groups) or not numbers.taken:
            return False
        name, row = op.declaration.name, numbers_of(numbers, [])
        row["times_computed"] = len(groups)
        reason = (
            f"{name} is cheap, each of the {len(groups)} kernels that read it computes it: "
            f"{saving_text(numbers)}"
        )
        for user in users:
            self.report.vertical(op, user, True, reason, row)
        for group, place, each in zip(groups, accepted, repeat(op, groups), strict=True):
            if each is not op:
                number, copy = self.order[op]
                copies = sum(1 for place in self.order.values() if place[0] == number)
                self.order[each] = (number, copy + copies)
                self.context.ids[id(each)] = self.context.id_of(op)
            self._join(group, each, place)
        return True

    def _others(self, op: TensorOp, user: TensorOp) -> list[str]:
        """Names of the consumers of ``op`` outside of the kernel that ``user`` is in."""
        group = self.groups[user]
        users = sorted(users_of(op), key=self.order.__getitem__)
        outside = [each.declaration.name for each in users if self.groups[each] is not group]
        return [*outside, *opaque_users(op), *written_for(op)]

    def _refuse(self, op: TensorOp, user: TensorOp, refusal: Refusal | None) -> None:
        """Record why ``op`` is not in the kernel of ``user``; without a reason, for the others."""
        group, others, name = self.groups[user], self._others(op, user), op.declaration.name
        demand, times = group.demand_with(op), group.times_computed(op)
        numbers = estimate(op, demand, times, bool(others), self.facts)
        if refusal is not None:
            conditions = self._conditions(op, group, [refusal.unless])
        else:
            alone = f"nothing but the kernel of {user.declaration.name} read {name}"
            place = self._place(group, op)
            also = [place.unless] if isinstance(place, Refusal) else []
            conditions = self._conditions(op, group, [alone, *also])
            refusal = Refusal(needed_elsewhere(name, others), alone)
        self.report.refuse(op, user, refusal, numbers, others, conditions)

    def _conditions(self, op: TensorOp, group: Group, all_of: Sequence[str]) -> list[str]:
        """What would have to hold together; the numbers are those it would then have."""
        demand, times = group.demand_with(op), group.times_computed(op)
        paid = 1 if group.keeps_rows(self.facts) else times
        numbers = estimate(op, demand, paid, False, self.facts)
        text = " and ".join(all_of)
        if numbers.taken:
            return [text]
        return [f"{text} and {each}" for each in numbers.conditions]

    def kernels(self) -> list[tuple[Group, list[TensorOp]]]:
        """Each kernel with its ops, all in order of the text."""
        members: dict[int, tuple[Group, list[TensorOp]]] = {}
        for op in sorted(self.order, key=self.order.__getitem__):
            group = self.groups[op]
            members.setdefault(id(group), (group, []))[1].append(op)
        return list(members.values())

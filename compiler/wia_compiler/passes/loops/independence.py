"""Which loops of a nest may run their iterations in any order, and why the others may not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from xdsl.ir import Operation, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.loop import NestOp
from wia_compiler.dialects.loop_arrays import LocalOp
from wia_compiler.dialects.loop_control import ForOp
from wia_compiler.dialects.loop_elements import LoadOp, StoreOp
from wia_compiler.passes.loops.forms import Atom, Form, Number
from wia_compiler.passes.loops.ranges import Ranges

Access = LoadOp | StoreOp


@dataclass
class Independence:
    """Answers for the loops of one typed nest; each answer is noted in ``decisions``.

    A loop is independent where it carries no variable, and where along one axis of each array that
    it stores to the elements of one iteration all lie apart from those of the next: the index is a
    multiple of the loop's variable plus something smaller than the distance of two iterations.
    """

    nest: NestOp
    id_of: Callable[[object], str]
    decisions: list[Decision] = field(default_factory=list[Decision])

    def __post_init__(self) -> None:
        self.ranges = Ranges(self.nest)

    def of(self, op: ForOp) -> bool:
        """Whether the iterations of a loop may run in any order."""
        accesses = [each for each in op.walk() if isinstance(each, Access)]
        accesses = [each for each in accesses if not _is_local(each.array, op)]
        stored = dict.fromkeys(each.array for each in accesses if isinstance(each, StoreOp))
        reason = self._conflict(op, accesses, list(stored))
        taken = reason is None
        if reason is None:
            told = [
                *self._texts("stores", accesses, StoreOp),
                *self._texts("reads", accesses, LoadOp),
            ]
            reason = f"{'; '.join(told) or 'touches no array'}: iterations are independent"
        subjects = tuple(filter(None, [self.id_of(op)]))
        name = f"loop {op.axis.data}"
        self.decisions.append(Decision("loop", name, taken, reason, {}, subjects))
        return taken

    def _conflict(
        self, op: ForOp, accesses: Sequence[Access], stored: Sequence[SSAValue]
    ) -> str | None:
        if op.outputs:
            names = [each.name_hint or "a value" for each in op.outputs]
            return f"carries {', '.join(names)} from one iteration to the next"
        for array in stored:
            same = [each for each in accesses if each.array is array]
            if not any(self._is_apart(op, same, axis) for axis in range(len(same[0].indices))):
                texts = dict.fromkeys(self._text(each) for each in same)
                return f"iterations may touch the same element: {', '.join(texts)}"
        return None

    def _is_apart(self, op: ForOp, accesses: Sequence[Access], axis: int) -> bool:
        """Whether iterations touch different elements of an array along one axis of it."""
        variable = self.ranges.forms[op.variable]
        if len(variable.terms) != 1:
            return True  # a loop of one iteration
        atom = variable.terms[0][0]
        forms = [self.ranges.accesses[each][axis] for each in accesses]
        step = self.ranges.forms[op.step].number or 1
        base = Form(tuple(term for term in forms[0].terms if term[0].order < atom.order))
        for factor in _factors(forms[0], atom):
            rests = [form - variable * factor - base for form in forms]
            bounds = [self.ranges.bounds_at(each) for each in accesses]
            low = min(each.low(rest) for each, rest in zip(bounds, rests, strict=True))
            high = max(each.high(rest) for each, rest in zip(bounds, rests, strict=True))
            if abs(factor) * step > high - low:
                return True
        return False

    def _texts(
        self, word: str, accesses: Sequence[Access], kind: type[LoadOp] | type[StoreOp]
    ) -> list[str]:
        texts = dict.fromkeys(self._text(each) for each in accesses if isinstance(each, kind))
        return [f"{word} {', '.join(texts)}"] if texts else []

    def _text(self, access: Access) -> str:
        indices = ", ".join(str(form) for form in self.ranges.accesses[access])
        return f"{access.array.name_hint or 'an array'}[{indices}]"


def _factors(form: Form, atom: Atom) -> list[Number]:
    """How often an atom may count in a sum: as it stands, or through the bounds of newer atoms
    (``i`` in a loop from ``ii`` to ``ii + 32`` is ``ii`` and something).
    """
    found: dict[Number, None] = {}
    pending = [(form, 3)]
    while pending:
        each, depth = pending.pop()
        factor = each.factor(atom)
        if factor:
            found[factor] = None
        for inner, count in each.terms if depth else ():
            if inner.order > atom.order:
                pending += [
                    (each.without(inner) + bound * count, depth - 1) for bound in inner.lowers
                ]
    return list(found)


def _is_local(array: SSAValue, loop: ForOp) -> bool:
    """Whether an array is made anew in each iteration of a loop."""
    owner: object = array.owner
    if not isinstance(owner, LocalOp):
        return False
    parent: Operation | None = owner.parent_op()
    while parent is not None and parent is not loop:
        parent = parent.parent_op()
    return parent is loop

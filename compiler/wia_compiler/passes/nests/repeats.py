"""Groups that repeat: equal ones are planned and written once, and called again on other arrays.

::

    x1 = relu(x0 @ w0)    x2 = relu(x1 @ w1)    x3 = relu(x2 @ w2)      three layers of one shape
      →  the nest of the first; the others are calls
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from wia_compiler.passes.nests.plan import Group
from wia_compiler.passes.nests.views import View


@dataclass(frozen=True)
class Call:
    """A call of a nest: its name, and the arrays that it is passed."""

    callee: str
    arrays: tuple[View, ...]


@dataclass(frozen=True)
class Written:
    """What was made of a group: its ops, the calls, and the memory that the calls are about."""

    ops: tuple[Operation, ...]
    calls: tuple[Call, ...]
    memory: tuple[SSAValue, ...]

    def again(self, memory: Sequence[SSAValue]) -> list[Call]:
        """The same calls on the memory of an equal group."""
        there = dict(zip(self.memory, memory, strict=True))
        return [
            Call(
                call.callee,
                tuple(
                    View(there[each.value], each.shape, each.strides, each.dtype)
                    for each in call.arrays
                ),
            )
            for call in self.calls
        ]


def written(group: Group, calls: Sequence[Call | None]) -> Written | None:
    """What to remember of a group; ``None`` where a call is not to be made again.

    That is so where it passes memory which is no argument of the group.
    """
    _, memory = shape_of(group)
    known = set(memory)
    made = [call for call in calls if call is not None]
    if len(made) < len(calls) or any(a.value not in known for call in made for a in call.arrays):
        return None
    return Written(tuple(group.ops), tuple(made), memory)


def shape_of(group: Group) -> tuple[Hashable, tuple[SSAValue, ...]]:
    """What makes two groups equal, and the memory that this one reads and writes, in order.

    Equal are ops with the same attributes and types that use each other, numbers and arrays of the
    same layout in the same way, arrays that share memory included.
    """
    memory: dict[SSAValue, int] = {}

    def layout(view: View) -> Hashable:
        place = memory.setdefault(view.value, len(memory))
        return (place, view.value.type, view.shape, view.strides, view.dtype.name)

    names: dict[SSAValue, int] = {}
    inputs: list[Hashable] = []
    for value, view in group.arrays.items():
        names[value] = len(names)
        inputs.append(layout(view))
    for value, number in group.numbers.items():
        names[value] = len(names)
        inputs.append((value.type, repr(number)))  # as text: -0.0 is not 0.0, NaN is itself
    ops: list[Hashable] = []
    for op in group.ops:
        operands = tuple(names[value] for value in op.operands)
        for result in op.results:
            names[result] = len(names)
        attributes = (tuple(op.properties.items()), tuple(op.attributes.items()))
        ops.append((op.name, operands, tuple(op.result_types), *attributes))
    results = [(names[result.value], layout(result.target)) for result in group.results]
    return (tuple(inputs), tuple(ops), tuple(results)), tuple(memory)

"""Equal nests are one function: what is written once is scheduled and compiled once."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.dialects import func
from xdsl.dialects.builtin import LocationAttr, StringAttr
from xdsl.ir import Operation, Region, SSAValue

from wia_compiler.base.record import Decision
from wia_compiler.dialects.location import Origin, location, origins_of

Names: TypeAlias = "dict[SSAValue, int]"
Repeat: TypeAlias = "dict[Origin, tuple[Origin, ...]]"
"""The origins of a repeated group that stand where the nest has one of the first group's."""

_REASON = "equal but for lines, names and arrays: scheduled and compiled once"


@dataclass
class SharedNest:
    """A nest's function, those written again for its other calls, and what all calls are of."""

    function: func.FuncOp
    copies: list[func.FuncOp] = field(default_factory=list[func.FuncOp])
    repeats: list[Repeat] = field(default_factory=list["Repeat"])
    subjects: dict[str, None] = field(default_factory=dict[str, None])

    @property
    def calls(self) -> int:
        """How many calls there are of it."""
        return 1 + len(self.copies) + len(self.repeats)

    def merge(self) -> None:
        """Give each op the origins of that op in every copy: all callers' lines lead to it."""
        # Ops of a nest stand for few source ops, so few lists of locations are merged.
        known: dict[tuple[LocationAttr, ...], LocationAttr] = {}
        functions = (self.function, *self.copies)
        for same in zip(*(function.walk() for function in functions), strict=True):
            key = tuple(op.location for op in same)
            if key not in known:
                own = [origin for op in same for origin in origins_of(op)]
                repeated = (repeat.get(each, ()) for repeat in self.repeats for each in own)
                known[key] = location(*own, *itertools.chain.from_iterable(repeated))
            same[0].location = known[key]

    @property
    def decision(self) -> Decision:
        """What is told of a nest that several calls share."""
        name = self.function.sym_name.data
        subjects = tuple(self.subjects)
        return Decision("share", name, True, _REASON, {"calls": self.calls}, subjects)


@dataclass
class SharedNests:
    """The nests of one module by what they are; ``taken`` are names that functions have."""

    taken: set[str]
    _nests: dict[Hashable, SharedNest] = field(default_factory=dict[Hashable, SharedNest])
    _by_name: dict[str, SharedNest] = field(default_factory=dict[str, SharedNest])

    def add(self, nest: func.FuncOp, subjects: Sequence[str]) -> str:
        """The name of the function to call: that of an equal nest, else the nest's own."""
        key = structure_of(nest)
        shared = self._nests.get(key)
        if shared is None:
            nest.sym_name = StringAttr(self._unique(nest.sym_name.data))
            shared = self._nests[key] = SharedNest(nest)
            self._by_name[nest.sym_name.data] = shared
        else:
            shared.copies.append(nest)
        shared.subjects |= dict.fromkeys(filter(None, subjects))
        return shared.function.sym_name.data

    def repeat(
        self,
        name: str,
        before: Sequence[Operation],
        ops: Sequence[Operation],
        subjects: Sequence[str],
    ) -> None:
        """Note a call of the function ``name`` for ``ops``, which are as those ``before`` were."""
        shared = self._by_name[name]
        stand_for: dict[Origin, tuple[Origin, ...]] = {}
        for old, new in zip(before, ops, strict=True):
            for each in origins_of(old):
                stand_for[each] = (*stand_for.get(each, ()), *origins_of(new))
        shared.repeats.append(stand_for)
        shared.subjects |= dict.fromkeys(filter(None, subjects))

    def finish(self) -> tuple[list[func.FuncOp], list[Decision]]:
        """The functions in order of their first calls; a decision for each called again."""
        shared = [nest for nest in self._nests.values() if nest.calls > 1]
        for nest in shared:
            nest.merge()
        functions = [nest.function for nest in self._nests.values()]
        return functions, [nest.decision for nest in shared]

    def _unique(self, name: str) -> str:
        unique = name
        number = 1
        while unique in self.taken:
            unique = f"{name}_{number}"
            number += 1
        self.taken.add(unique)
        return unique


def structure_of(nest: func.FuncOp) -> Hashable:
    """Equal for two nests of the same argument types whose ops, attributes and uses are the same.

    Names of the function and of values, and locations, are left out.
    """
    return _structure_of_region(nest.body, {})


def _structure_of_region(region: Region, names: Names) -> Hashable:
    made: list[Hashable] = []
    for block in region.blocks:
        _name(block.args, names)
        ops = tuple(_structure_of_op(op, names) for op in block.ops)
        made.append((tuple(block.arg_types), ops))
    return tuple(made)


def _structure_of_op(op: Operation, names: Names) -> Hashable:
    operands = tuple(names[value] for value in op.operands)
    _name(op.results, names)
    return (
        op.name,
        operands,
        tuple(op.result_types),
        tuple(op.properties.items()),
        tuple(op.attributes.items()),
        tuple(_structure_of_region(region, names) for region in op.regions),
    )


def _name(values: Sequence[SSAValue], names: Names) -> None:
    for value in values:
        names[value] = len(names)

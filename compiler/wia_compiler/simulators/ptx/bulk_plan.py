"""What a bulk copy instruction asks of the unit that copies: which of its copies, with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from wia_compiler.simulators.ptx.bulk_copies import BulkUnit, Chunks
from wia_compiler.simulators.ptx.clusters import OFFSET_MASK
from wia_compiler.simulators.ptx.combiners import COMBINERS, Combine
from wia_compiler.simulators.ptx.mbarrier import Misuse
from wia_compiler.simulators.ptx.syntax import Address, Instruction, Operand
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

Kind = Literal["load", "move", "store", "prefetch", "load_box", "store_box", "prefetch_box"]
_REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")
_WORDS = frozenset({
    "async", "bulk", "reduce", "tensor", "tile", "prefetch", "L2", "noftz", "bulk_group",
    "shared::cta", "shared::cluster", "shared", "global", "mbarrier::complete_tx::bytes",
    "multicast::cluster", "L2::cache_hint", "1d", "2d", "3d", "4d", "5d",
})  # fmt: skip


@dataclass(frozen=True)
class BulkPlan:
    """One bulk copy: its values in order, each with its type (addresses have 64 bits).

    ``axes`` is the number of coordinates; a multicast copy has the mask of its blocks last.
    """

    kind: Kind
    number: int
    operands: tuple[Operand, ...]
    types: tuple[PtxType | None, ...]
    axes: int
    operation: str
    type: PtxType | None
    multicast: bool

    @property
    def combine(self) -> Combine | None:
        """What the copy makes of what its target holds; ``None``: it takes its place."""
        return COMBINERS[self.operation] if self.operation else None

    @property
    def addresses(self) -> tuple[bool, ...]:
        """Which of the values are addresses in brackets."""
        return tuple(type is None for type in self.types)

    def issue(self, unit: BulkUnit, row: int, thread: int, values: Sequence[int]) -> Chunks | None:
        """Begin the copy for a thread of a block; which 16 bytes of shared memory it is about."""
        if self.multicast:
            *values, mask = values
            return self._issue_to_all(unit, row, thread, values, mask)
        return self._issue(unit, row, thread, values)

    def _issue_to_all(
        self, unit: BulkUnit, row: int, thread: int, values: Sequence[int], mask: int
    ) -> None:
        """To the same place in each block of a mask, whose own barrier counts it; counted once."""
        blocks = unit.cluster_blocks
        if not 0 < mask < 1 << blocks:
            raise Misuse(
                f"a multicast to the blocks {mask:#x} of a cluster of {blocks} "
                f"block{'s' if blocks > 1 else ''}",
                f"the mask has a bit for each block: 1 to {(1 << blocks) - 1:#x}",
            )
        counts, first = unit.counts_memory, row // blocks * blocks
        place = 2 + self.axes if self.kind == "load_box" else 3
        for rank in range(blocks):
            if mask >> rank & 1:
                local = list(values)
                for at in (0, place):
                    local[at] = local[at] & OFFSET_MASK
                self._issue(unit, first + rank, thread, local)
                unit.counts_memory = False
        unit.counts_memory = counts

    def _issue(self, unit: BulkUnit, row: int, thread: int, values: Sequence[int]) -> Chunks | None:
        match self.kind:
            case "load":
                return unit.load(self.number, row, thread, *values)
            case "move":
                return unit.move(self.number, row, thread, *values)
            case "store":
                target, source, size = values
                return unit.store(
                    self.number, row, thread, target, source, size, self.combine, self.type
                )
            case "load_box":
                target, map, *coordinates, bar = values
                return unit.load_box(self.number, row, thread, target, map, coordinates, bar)
            case "store_box":
                map, *coordinates, source = values
                return unit.store_box(
                    self.number, row, thread, map, coordinates, source, self.combine
                )
            case "prefetch":
                unit.span(values[0], values[1], "the source")
            case "prefetch_box":
                unit.prefetch_box(values[0], values[1:])
        return None


def is_load(instruction: Instruction) -> bool:
    """Whether a bulk copy goes to shared memory."""
    spaces = _spaces(instruction)
    return bool(spaces) and spaces[0] == "shared"


def _spaces(instruction: Instruction) -> list[str]:
    """The spaces that a copy names, its target's first."""
    words = (word.partition("::")[0] for word in instruction.modifiers)
    return [word for word in words if word in ("shared", "global")]


def bulk_plan(form: Form, number: int) -> BulkPlan:
    """The plan of ``cp.async.bulk…`` and ``cp.reduce.async.bulk…``."""
    instruction, flags = form.instruction, form.flags
    operation = form.one_of(_REDUCTIONS)
    for word in sorted(flags - _WORDS - {operation}):
        raise UnknownForm(f"{instruction.name}: .{word}")
    if ("reduce" in flags) != bool(operation):
        raise UnknownForm(instruction.name)
    kind = _kind(instruction, flags)
    expected = {"load": 4, "move": 4, "store": 3, "prefetch": 2, "load_box": 3}.get(kind, 2)
    if kind == "prefetch_box":
        expected = 1
    multicast = "multicast::cluster" in flags
    hints = ("L2::cache_hint" in flags) + multicast
    if len(instruction.operands) != expected + hints:
        raise UnknownForm(f"{instruction.name} with {len(instruction.operands)} operands")
    operands: list[Operand] = []
    types: list[PtxType | None] = []
    axes = 0
    for operand in instruction.operands[:expected]:
        operands.append(operand)
        types.append(None if isinstance(operand, Address) else TYPES["u32"])
        if isinstance(operand, Address) and operand.coordinates:
            axes = len(operand.coordinates)
            operands += operand.coordinates
            types += [TYPES["s32"]] * axes
    if "tensor" in flags and f"{axes}d" not in flags:
        raise UnknownForm(f"{instruction.name} with {axes} coordinates")
    if multicast:
        operands.append(instruction.operands[expected])
        types.append(TYPES["u16"])
    type = form.types[-1] if form.types else None
    if operation and kind in ("load", "move", "load_box"):
        raise UnknownForm(f"{instruction.name}: reductions in shared memory")
    if operation and kind == "store" and (type is None or type.lanes > 1):
        raise UnknownForm(instruction.name)
    return BulkPlan(kind, number, tuple(operands), tuple(types), axes, operation, type, multicast)


def _kind(instruction: Instruction, flags: frozenset[str]) -> Kind:
    spaces = _spaces(instruction)
    tensor = "tensor" in flags
    if "prefetch" in flags:
        return "prefetch_box" if tensor else "prefetch"
    match spaces:
        case ["shared", "global"]:
            return "load_box" if tensor else "load"
        case ["shared", "shared"] if not tensor:
            return "move"
        case ["global", "shared"] if "bulk_group" in flags:
            return "store_box" if tensor else "store"
        case _:
            raise UnknownForm(instruction.name)

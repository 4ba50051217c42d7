"""Which registers a block reads before it writes them, and which of its results others read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wia_compiler.simulators.ptx.graph import BasicBlock
from wia_compiler.simulators.ptx.operands import Scope
from wia_compiler.simulators.ptx.syntax import Address, Group, Instruction, Operand, Pair, Register

_NO_RESULT = frozenset(
    {"st", "red", "bra", "brx", "ret", "exit", "bar", "barrier", "cp", "stmatrix", "wmma.store"}
)


@dataclass(frozen=True)
class Liveness:
    """Of each block: registers read from before it, and those it writes that are read after it."""

    before: tuple[frozenset[str], ...]
    after: tuple[frozenset[str], ...]

    @property
    def kept(self) -> tuple[str, ...]:
        """All registers that outlive a block, in order of their names."""
        return tuple(sorted(frozenset[str]().union(*self.before)))


def liveness_of(
    blocks: Sequence[BasicBlock], code: Sequence[Instruction], scope: Scope
) -> Liveness:
    """Solve the usual equations backwards; what a predicate may skip keeps its old value alive."""
    used: list[set[str]] = []
    written: list[set[str]] = []
    for block in blocks:
        reads: set[str] = set()
        writes: set[str] = set()
        for instruction in code[block.start : block.stop]:
            reads |= set(registers_read(instruction, scope)) - writes
            results = set(registers_written(instruction, scope))
            if instruction.predicate is not None:
                reads |= results - writes
            writes |= results
        used.append(reads)
        written.append(writes)
    before = [set(each) for each in used]
    changed = True
    while changed:
        changed = False
        for number in reversed(range(len(blocks))):
            after = set[str]().union(*(before[each] for each in blocks[number].successors))
            grown = used[number] | (after - written[number])
            if grown - before[number]:
                before[number] |= grown
                changed = True
    after = [
        frozenset(written[number] & set[str]().union(*(before[each] for each in block.successors)))
        for number, block in enumerate(blocks)
    ]
    return Liveness(tuple(frozenset(each) for each in before), tuple(after))


def registers_read(instruction: Instruction, scope: Scope) -> Iterator[str]:
    """Names of the declared registers that an instruction reads."""
    if instruction.predicate is not None:
        yield instruction.predicate.name
    if instruction.opcode == "wgmma":
        # A product adds to its result; a wait puts results in place, or leaves what was there.
        yield from registers_written(instruction, scope)
    start = 1 if _has_result(instruction) else 0
    for operand in instruction.operands[start:]:
        yield from _names(operand, scope)


def registers_written(instruction: Instruction, scope: Scope) -> Iterator[str]:
    """Names of the registers that an instruction writes."""
    if instruction.opcode == "wgmma" and "wait_group" in instruction.modifiers:
        for names in results_of_products(scope):
            yield from names
    elif _has_result(instruction):
        yield from _names(instruction.operands[0], scope)


def _has_result(instruction: Instruction) -> bool:
    """Whether the first operand takes a result: never an address, and of a barrier that of red."""
    if not instruction.operands or isinstance(instruction.operands[0], Address):
        return False
    folds = instruction.opcode in ("bar", "barrier") and "red" in instruction.modifiers
    return folds or instruction.opcode not in _NO_RESULT


def results_of_products(scope: Scope) -> tuple[tuple[str, ...], ...]:
    """The different lists of registers that products of warpgroups have their results in."""
    found = [
        tuple(_names(each.operands[0], scope))
        for each in scope.entry.instructions
        if each.opcode == "wgmma" and "mma_async" in each.modifiers
    ]
    return tuple(dict.fromkeys(found))


def _names(operand: Operand | None, scope: Scope) -> Iterator[str]:
    meant = scope.meant(operand)
    match meant:
        case Register():
            if meant.name in scope.entry.registers:
                yield meant.name
        case Address():
            yield from _names(meant.base, scope)
            for each in meant.coordinates:
                yield from _names(each, scope)
        case Group():
            for item in meant.items:
                yield from _names(item, scope)
        case Pair():
            yield from _names(meant.first, scope)
            yield from _names(meant.second, scope)
        case _:
            return

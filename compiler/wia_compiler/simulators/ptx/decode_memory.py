"""Steps of instructions that touch memory: loads, stores, atomic operations."""

from __future__ import annotations

import numpy as np

from wia_compiler.simulators.ptx.combiners import COMBINERS, Combine
from wia_compiler.simulators.ptx.machine import Machine, Offsets, Step, loaded, stored
from wia_compiler.simulators.ptx.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from wia_compiler.simulators.ptx.operands import (
    Read,
    Scope,
    Write,
    address_reader,
    items_of,
    reader,
    writer,
)
from wia_compiler.simulators.ptx.syntax import Address, Instruction, Symbol
from wia_compiler.simulators.ptx.threads import Array
from wia_compiler.simulators.ptx.types import TYPES, PtxType
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}
"""Where the generic addresses of a space begin; those of the others are the same."""
_SPACES = ("global", "shared", "local", "param", "const")
_HINTS = frozenset({
    "nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "volatile", "weak", "relaxed", "acquire",
    "release", "acq_rel", "sys", "gpu", "cta", "cluster", "v2", "v4", "v8", "noftz", "unified",
    "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last",
    "L2::evict_normal", "L2::evict_first", "L2::evict_last",
    "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "mmio",
})  # fmt: skip


def space_of(form: Form) -> str:
    """The state space that an instruction names, ``generic`` without one."""
    words = [word.partition("::")[0] for word in form.instruction.modifiers]
    return next((word for word in words if word in _SPACES), "generic")


def space_in(form: Form, scope: Scope) -> str:
    """The same of a load or a store: ``frame`` for arguments and results of a call.

    They lie in a thread's local memory; a GPU keeps them in registers, so that nothing counts them.
    """
    space = space_of(form)
    if space == "param":
        for operand in form.instruction.operands[:2]:
            base = operand.base if isinstance(operand, Address) else None
            if isinstance(base, Symbol) and base.name in scope.frame:
                return "frame"
    return space


def check_memory_flags(form: Form, more: frozenset[str] = frozenset()) -> None:
    """Refuse a modifier of a memory instruction that changes what it does in an unknown way."""
    for word in form.flags:
        if word.partition("::")[0] not in _SPACES and word not in _HINTS | more:
            raise UnknownForm(f"{form.instruction.name}: .{word}")


def _lanes(machine: Machine) -> Offsets:
    return np.flatnonzero(machine.threads.mask)


def _at(read: Read, machine: Machine, lanes: Offsets) -> Array:
    value = read(machine.threads)
    return np.broadcast_to(value, (machine.threads.count,))[lanes]


def decode_load(form: Form, number: int, scope: Scope) -> Step:
    """``ld``: one element, or the elements of a vector, for each thread."""
    check_memory_flags(form)
    instruction, type, space = form.instruction, form.type, space_in(form, scope)
    targets = items_of(instruction.operands[0])
    put = [writer(target, type, scope) for target in targets]
    find = address_reader(instruction.operands[1], scope)
    size = type.size_bytes * len(targets)
    # Compilers read three elements as four: aligned, the fourth cannot leave the allocation.
    inside = type.size_bytes
    if space == "param" and not is_fixed(instruction):
        raise UnknownForm(f"{instruction.name} of a computed address")

    def step(machine: Machine) -> None:
        threads, lanes = machine.threads, _lanes(machine)
        results = [np.zeros(threads.count, type.value) for _ in targets]
        for kind, some, offsets in machine.spaces(space, _at(find, machine, lanes), lanes):
            memory, places = machine.places(instruction, number, kind, some, offsets, size, inside)
            for index, result in enumerate(results):
                where = places + index * type.size_bytes
                result[some] = loaded(memory, where, type.value)
        for write, result in zip(put, results, strict=True):
            write(threads, result)

    return step


def is_fixed(instruction: Instruction) -> bool:
    """Whether an access names its place, which no register has a part in."""
    address = instruction.operands[-1]
    return isinstance(address, Address) and isinstance(address.base, Symbol)


def decode_store(form: Form, number: int, scope: Scope) -> Step:
    """``st``: of threads that write one place, the last in order stays."""
    check_memory_flags(form)
    instruction, type, space = form.instruction, form.type, space_in(form, scope)
    if space in ("param", "const"):
        raise UnknownForm(f"{instruction.name}: stores to {space} memory")
    find = address_reader(instruction.operands[0], scope)
    values = [reader(each, type, scope) for each in items_of(instruction.operands[1])]
    size = type.size_bytes * len(values)

    def step(machine: Machine) -> None:
        lanes = _lanes(machine)
        for kind, some, offsets in machine.spaces(space, _at(find, machine, lanes), lanes):
            memory, places = machine.places(instruction, number, kind, some, offsets, size)
            for index, read in enumerate(values):
                where = places + index * type.size_bytes
                stored(memory, where, _at(read, machine, some), type.value)

    return step


def decode_atomic(form: Form, number: int, scope: Scope) -> Step:
    """``atom`` and ``red``: one thread after the other, in order of block, warp and lane."""
    instruction, type, space = form.instruction, form.type, space_of(form)
    operation = form.one_of(tuple(COMBINERS))
    check_memory_flags(form, frozenset({operation}))
    if not operation:
        raise UnknownForm(f"{instruction.name}")
    combine = COMBINERS[operation]
    returns = instruction.opcode == "atom"
    operands = instruction.operands[1:] if returns else instruction.operands
    targets = items_of(instruction.operands[0]) if returns else ()
    puts: list[Write] = [writer(each, type, scope) for each in targets]
    find = address_reader(operands[0], scope)
    # Elements of a vector are one atomic operation each, as are the halves of a packed type.
    first, second = (
        [reader(each, type, scope) for each in items_of(operands[place])] for place in (1, -1)
    )
    size = type.size_bytes * len(first)

    def step(machine: Machine) -> None:
        threads, lanes = machine.threads, _lanes(machine)
        before = np.zeros((threads.count, len(first) * type.lanes), type.value)
        for kind, some, offsets in machine.spaces(space, _at(find, machine, lanes), lanes):
            memory, places = machine.places(instruction, number, kind, some, offsets, size)
            a, b = (_columns(reads, machine, some, type) for reads in (first, second))
            before[some] = _in_turn(memory, places, a, b, type, combine)
        for index, put in enumerate(puts):
            mine = before[:, index * type.lanes : (index + 1) * type.lanes]
            put(threads, mine if type.lanes > 1 else mine[:, 0])

    return step


def _columns(reads: list[Read], machine: Machine, lanes: Offsets, type: PtxType) -> Array:
    """The elements of a vector: (threads, elements)."""
    count = machine.threads.count
    columns = [
        np.broadcast_to(
            np.asarray(read(machine.threads)).reshape(-1, type.lanes), (count, type.lanes)
        )[lanes]
        for read in reads
    ]
    return np.concatenate(columns, axis=1)


def _in_turn(
    memory: np.ndarray, places: Offsets, first: Array, second: Array, type: PtxType,
    combine: Combine,
) -> Array:  # fmt: skip
    """Combine with each place, the earliest thread of each place at a time; what was there."""
    before = np.zeros(first.shape, type.value)
    steps: Offsets = np.arange(first.shape[1], dtype=np.int64) * type.value.itemsize
    waiting = np.arange(len(places))
    while len(waiting):
        _, earliest = np.unique(places[waiting], return_index=True)
        turn = waiting[earliest]
        where: Offsets = places[turn, None] + steps
        old = loaded(memory, where, type.value)
        before[turn] = old
        stored(memory, where, combine(old, first[turn], second[turn]), type.value)
        waiting = np.delete(waiting, earliest)
    return before


def decode_address(form: Form, scope: Scope) -> Step:
    """``cvta``: between generic addresses and those of a space."""
    instruction, space = form.instruction, space_of(form)
    window = WINDOWS.get(space, 0)
    shift = np.uint64((-window if "to" in form.flags else window) % (1 << 64))
    read = reader(instruction.operands[1], TYPES["u64"], scope)
    put = writer(instruction.operands[0], TYPES["u64"], scope)
    return lambda machine: put(machine.threads, read(machine.threads) + shift)

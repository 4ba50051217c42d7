"""Steps of ``mbarrier``, and what the scheduler asks of a wait for a phase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wia_compiler.simulators.ptx.decode_memory import space_of
from wia_compiler.simulators.ptx.machine import Machine, Offsets, Step
from wia_compiler.simulators.ptx.mbarrier import (
    BARRIER_BYTES,
    MOST_COUNT,
    Misuse,
    Transfer,
    phase_of,
)
from wia_compiler.simulators.ptx.operands import Read, Scope, address_reader, reader, writer
from wia_compiler.simulators.ptx.syntax import Address, Immediate, Instruction, Operand
from wia_compiler.simulators.ptx.threads import Mask
from wia_compiler.simulators.ptx.types import TYPES
from wia_compiler.simulators.ptx.values.form import Form, UnknownForm

U32, U64, PREDICATE = TYPES["u32"], TYPES["u64"], TYPES["pred"]
_ACTIONS = (
    "init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_drop", "test_wait", "try_wait",
    "pending_count",
)  # fmt: skip
_WORDS = frozenset({
    "expect_tx", "noComplete", "parity", "release", "acquire", "relaxed", "cta", "cluster",
    "shared", "shared::cta", "shared::cluster",
})  # fmt: skip
_ARRIVALS = ("arrive", "arrive_drop")
WAITS = ("test_wait", "try_wait")


@dataclass(frozen=True)
class BarrierForm:
    """An ``mbarrier`` instruction: what it does, to which barrier, with which number.

    ``result`` takes its result where it has one, ``value`` is the count, the bytes, the token or
    the parity. ``tx`` are the bytes that an arrival expects first.
    """

    action: str
    address: Address | None
    result: Operand | None = None
    value: Operand | None = None
    tx: Operand | None = None
    by_parity: bool = False
    completes: bool = True

    @property
    def is_wait(self) -> bool:
        """Whether it asks for a phase."""
        return self.action in WAITS


def barrier_form(form: Form) -> BarrierForm:
    """The parts of an ``mbarrier`` instruction; ``UnknownForm`` where one is not known."""
    instruction = form.instruction
    action = next(iter(instruction.modifiers), "")
    for word in sorted(form.flags - _WORDS - {action}):
        raise UnknownForm(f"{instruction.name}: .{word}")
    if action not in _ACTIONS:
        raise UnknownForm(instruction.name)
    operands = instruction.operands
    if action == "pending_count":
        return BarrierForm(action, None, operands[0], operands[1])
    results = () if isinstance(operands[0], Address) else operands[:1]
    address, *rest = operands[len(results) :]
    if not isinstance(address, Address):
        raise UnknownForm(f"an operand {address} where an address is expected")
    result = results[0] if results else None
    if action in ("init", "expect_tx", "complete_tx"):
        return BarrierForm(action, address, None, rest[0])
    if action == "inval":
        return BarrierForm(action, address)
    if action in WAITS:
        return BarrierForm(action, address, result, rest[0], None, "parity" in form.flags)
    completes = "noComplete" not in form.flags
    if "expect_tx" in instruction.modifiers[1:]:
        return BarrierForm(action, address, result, None, rest[0], completes=completes)
    return BarrierForm(action, address, result, rest[0] if rest else None, completes=completes)


def decode_mbarrier(form: Form, number: int, scope: Scope) -> Step:
    """Every ``mbarrier`` instruction; lanes take their turn in order."""
    parts = barrier_form(form)
    put = writer(parts.result, PREDICATE if parts.is_wait else U64, scope)
    if parts.action == "pending_count":
        assert parts.value is not None
        read, put = reader(parts.value, U64, scope), writer(parts.result, U32, scope)
        return lambda machine: put(
            machine.threads, (read(machine.threads) & np.uint64(MOST_COUNT)).astype(np.uint32)
        )
    if parts.is_wait:
        wait = phase_wait(form, scope)

        def ask(machine: Machine) -> None:
            mask = machine.threads.mask
            over = mask & ~wait.incomplete(machine, mask)
            if machine.checks is not None and over.any():
                wait.learn(machine, np.flatnonzero(over))
            put(machine.threads, over)

        return ask
    act = _action(parts, scope)
    where = _Where(form, scope)

    def step(machine: Machine) -> None:
        tokens = np.zeros(machine.threads.count, np.uint64)
        lanes = np.flatnonzero(machine.threads.mask)
        for lane, place in zip(lanes, where.places(machine, lanes), strict=True):
            if machine.checks is not None and parts.action in _ARRIVALS:
                machine.checks.order.tell(int(place), lanes[lanes == lane])
            try:
                tokens[lane] = act(machine, int(lane), int(place))
            except Misuse as misuse:
                where.fault(machine, misuse, int(lane), int(place))
        put(machine.threads, tokens)

    return step


def _action(parts: BarrierForm, scope: Scope) -> Callable[[Machine, int, int], int]:
    """What a thread does to a barrier, and the token that it gets."""
    count = reader(parts.value if parts.value is not None else Immediate(1), U32, scope)
    expected = reader(parts.tx if parts.tx is not None else Immediate(0), U32, scope)
    drops, completes = parts.action == "arrive_drop", parts.completes

    def value(read: Read, machine: Machine, lane: int) -> int:
        return int(np.broadcast_to(read(machine.threads), (machine.threads.count,))[lane])

    def act(machine: Machine, lane: int, place: int) -> int:
        barriers, number = machine.barriers, value(count, machine, lane)
        match parts.action:
            case "init":
                barriers.init(place, number)
            case "inval":
                barriers.invalidate(place)
            case "expect_tx":
                barriers.expect(place, number)
            case "complete_tx":
                barriers.complete(place, number)
            case _:
                tx = value(expected, machine, lane)
                return barriers.arrive(place, number, tx=tx, drops=drops, completes=completes)
        return 0

    return act


class _Where:
    """Finds the barrier of each thread."""

    def __init__(self, form: Form, scope: Scope):
        self.instruction: Instruction = form.instruction
        address = next(each for each in form.instruction.operands if isinstance(each, Address))
        self._find = address_reader(address, scope)
        self._space = space_of(form)

    def places(self, machine: Machine, lanes: Offsets) -> Offsets:
        """Where in all shared memory the barriers of threads lie."""
        threads = machine.threads
        addresses = np.broadcast_to(self._find(threads), (threads.count,))[lanes]
        places = np.zeros(len(lanes), np.int64)
        for space, some, offsets in machine.spaces(self._space, addresses, lanes):
            if space != "shared":
                machine.fault(
                    self.instruction,
                    f"an mbarrier in {space} memory, in {machine.thread_name(int(some[0]))}",
                    "mbarriers lie in shared memory",
                )
            _, found = machine.located(self.instruction, space, some, offsets, BARRIER_BYTES)
            places[np.searchsorted(lanes, some)] = found
        return places

    def fault(self, machine: Machine, misuse: Misuse, lane: int, place: int) -> None:
        """Say what a thread must not ask of a barrier."""
        address = place % machine.bulk.row_bytes
        name = machine.thread_name(lane)
        machine.fault(
            self.instruction, f"{misuse}: shared address {address:#x}, in {name}", misuse.hint
        )


@dataclass(frozen=True)
class PhaseWait:
    """A wait for a phase, for the scheduler: who has to wait, and for what."""

    where: _Where
    phase: Read
    by_parity: bool

    def asked(self, machine: Machine, lanes: Offsets) -> tuple[Offsets, Offsets]:
        """The barriers of threads, and the parities of the phases that they ask for."""
        threads = machine.threads
        values = np.broadcast_to(self.phase(threads), (threads.count,))[lanes]
        if self.by_parity:
            phases = values.astype(np.int64) & 1
        else:
            phases = np.array([phase_of(int(token)) for token in values], np.int64)
        return self.where.places(machine, lanes), phases

    def learn(self, machine: Machine, lanes: Offsets) -> None:
        """Tell the checks of threads whose phase is over."""
        assert machine.checks is not None
        places, _ = self.asked(machine, lanes)
        for place in np.unique(places):
            machine.checks.order.learn(int(place), lanes[places == place])

    def what(self, machine: Machine, thread: int) -> str:
        """What a thread waits for, in words."""
        places, phases = self.asked(machine, np.array([thread]))
        place = int(places[0])
        return (
            f"phase {int(phases[0])} of the mbarrier at shared address "
            f"{place % machine.bulk.row_bytes:#x}, which never completes "
            f"({machine.barriers.state(place)})"
        )

    def told(self, machine: Machine, instruction: Instruction, lanes: Offsets) -> list[str]:
        """Of each barrier how many threads wait for which phase, and in which line."""
        places, phases = self.asked(machine, lanes)
        found: list[str] = []
        for key, count in zip(*np.unique(places * 2 + phases, return_counts=True), strict=True):
            place, phase = divmod(int(key), 2)
            address = place % machine.bulk.row_bytes
            some = int(lanes[np.argmax(places == place)])
            found.append(
                f"in line {instruction.span.line} {count} threads of block "
                f"{machine.block_name(some)} wait for phase {phase} of {address:#x} "
                f"({machine.barriers.state(place)})"
            )
        return found

    def incomplete(self, machine: Machine, mask: Mask) -> Mask:
        """Threads of a mask whose phase is not over."""
        lanes = np.flatnonzero(mask)
        places, phases = self.asked(machine, lanes)
        found = np.zeros(len(mask), bool)
        keys, first, inverse = np.unique(
            places * 2 + phases, return_index=True, return_inverse=True
        )
        waits = np.zeros(len(keys), bool)
        for at, key in enumerate(keys):
            place, phase = divmod(int(key), 2)
            try:
                waits[at] = not machine.barriers.is_complete(place, phase)
            except Misuse as misuse:
                self.where.fault(machine, misuse, int(lanes[first[at]]), place)
        found[lanes] = waits[inverse]
        return found


def phase_wait(form: Form, scope: Scope) -> PhaseWait:
    """The wait that ``test_wait`` or ``try_wait`` is."""
    parts = barrier_form(form)
    assert parts.value is not None
    type = U32 if parts.by_parity else U64
    return PhaseWait(_Where(form, scope), reader(parts.value, type, scope), parts.by_parity)


def copy_arrival(form: Form) -> bool:
    """Whether ``cp.async.mbarrier.arrive`` is one more arrival in its phase (not ``.noinc``)."""
    for word in sorted(form.flags - _WORDS - {"async", "mbarrier", "arrive", "noinc"}):
        raise UnknownForm(f"{form.instruction.name}: .{word}")
    return "noinc" not in form.flags


def decode_copy_arrival(form: Form, scope: Scope) -> Step:
    """``cp.async.mbarrier.arrive``: an arrival once the thread's copies until here have come."""
    where, increases = _Where(form, scope), copy_arrival(form)

    def step(machine: Machine) -> None:
        lanes = np.flatnonzero(machine.threads.mask)
        for lane, place in zip(lanes, where.places(machine, lanes), strict=True):
            thread, barrier = int(lane), int(place)
            until = machine.copies.mark()

            def land(thread: int = thread, until: int = until) -> None:
                machine.copies.finish(thread, until, machine.shared.reshape(-1))

            try:
                if increases:
                    machine.barriers.add_pending(barrier)
                machine.barriers.begin(barrier, Transfer(0, 1, land, thread=thread))
            except Misuse as misuse:
                where.fault(machine, misuse, thread, barrier)

    return step

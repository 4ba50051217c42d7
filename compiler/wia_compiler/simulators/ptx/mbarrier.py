"""``mbarrier`` objects: the 64 bits of one, and the transfers that are on their way for it.

A transfer (a bulk copy, the ``cp.async`` of a thread) is done as late as it may be: when a thread
asks for the phase that it belongs to, in the order in which they were begun. Its bytes are seen
once that phase completes; until then they are all ones, so that a wait that is missing shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

COUNT_BITS, TX_BITS = 20, 21
MOST_COUNT = (1 << COUNT_BITS) - 1
MOST_TX = (1 << (TX_BITS - 1)) - 1
EXPECTED_SHIFT = COUNT_BITS
TX_SHIFT = 2 * COUNT_BITS
PHASE_SHIFT = TX_SHIFT + TX_BITS
MARK_SHIFT = PHASE_SHIFT + 1
MARK = 0b10
"""What the two highest bits of a barrier are that was initialised; memory begins as zeros."""
BARRIER_BYTES = 8


class Misuse(Exception):
    """What a barrier or a copy must not be asked for; ``hint`` says what to do."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class BarrierState:
    """One barrier: arrivals that the phase still waits for, those of each phase, bytes, parity.

    ``tx`` is the tx-count, which is negative where bytes came before they were expected.
    """

    pending: int
    expected: int
    tx: int
    phase: int

    def word(self) -> int:
        """The 64 bits of it, which are also a token of its phase."""
        tx = self.tx & ((1 << TX_BITS) - 1)
        return (
            self.pending
            | self.expected << EXPECTED_SHIFT
            | tx << TX_SHIFT
            | self.phase << PHASE_SHIFT
            | MARK << MARK_SHIFT
        )

    @staticmethod
    def of(word: int) -> BarrierState:
        """The barrier that 64 bits are."""
        tx = word >> TX_SHIFT & ((1 << TX_BITS) - 1)
        return BarrierState(
            word & MOST_COUNT,
            word >> EXPECTED_SHIFT & MOST_COUNT,
            tx - (1 << TX_BITS) if tx > MOST_TX else tx,
            phase_of(word),
        )

    def __str__(self) -> str:
        return (
            f"phase {self.phase}: {self.pending} of {self.expected} arrivals pending, "
            f"tx-count {self.tx}"
        )


def phase_of(word: int) -> int:
    """The parity of the phase that a barrier is in, or that a token is of."""
    return word >> PHASE_SHIFT & 1


def pending_of(word: int) -> int:
    """``mbarrier.pending_count`` of a token."""
    return word & MOST_COUNT


@dataclass
class Transfer:
    """Something on its way for a barrier: the bytes and the arrivals that it will count for.

    ``land`` makes its bytes visible; ``thread`` began it, with
    instruction ``number``.
    """

    size_bytes: int
    arrivals: int
    land: Callable[[], None]
    counted: bool = False
    thread: int = 0
    number: int = 0


class Barriers:
    """The barriers in the shared memory of some blocks, each by its byte in all of that memory.

    ``changes`` goes up whenever a barrier changes, so that who sleeps can look again;
    ``on_phase`` is told of a phase that is over (the barrier, the threads of what came with it).
    """

    def __init__(self, shared: NDArray[np.uint8]):
        self._words = shared.reshape(-1)[: shared.size // 8 * 8].view(np.uint64)
        self._transfers: dict[int, list[Transfer]] = {}
        self.changes = 0
        self.on_phase: Callable[[int, list[int]], None] | None = None

    def in_flight(self) -> list[tuple[int, Transfer]]:
        """Transfers that have not landed, each with the place of its barrier."""
        return [(place, each) for place, some in self._transfers.items() for each in some]

    def init(self, place: int, count: int) -> None:
        """``mbarrier.init``: phase 0, which waits for ``count`` arrivals."""
        if not 1 <= count <= MOST_COUNT:
            raise Misuse(f"an mbarrier for {count} arrivals, expected 1 to {MOST_COUNT}")
        self._refuse_transfers(place, "is initialised again")
        self._put(place, BarrierState(count, count, 0, 0))

    def invalidate(self, place: int) -> None:
        """``mbarrier.inval``: the memory may be used for something else."""
        self.word(place)
        self._refuse_transfers(place, "is invalidated")
        self._words[place // BARRIER_BYTES] = 0
        self.changes += 1

    def _refuse_transfers(self, place: int, what: str) -> None:
        if self._transfers.get(place):
            raise Misuse(f"the mbarrier {what} while copies are on their way for it")

    def word(self, place: int) -> int:
        """The 64 bits of a barrier; ``Misuse`` where there is none."""
        word = int(self._words[place // BARRIER_BYTES])
        if word >> MARK_SHIFT != MARK:
            raise Misuse(
                "no mbarrier was initialised there",
                "mbarrier.init it once, then let the threads meet (fence.mbarrier_init, bar.sync)",
            )
        return word

    def state(self, place: int) -> BarrierState:
        """A barrier as it is."""
        return BarrierState.of(self.word(place))

    def _put(self, place: int, state: BarrierState) -> None:
        self._words[place // BARRIER_BYTES] = state.word()
        self.changes += 1

    def arrive(
        self, place: int, count: int, *, tx: int = 0, drops: bool = False, completes: bool = True
    ) -> int:
        """Arrivals, after ``tx`` more bytes are expected; the word before them, as a token.

        ``drops`` takes them off those of all later phases too; without ``completes`` they must
        not be the last of the phase.
        """
        if tx:
            self.expect(place, tx)
        word = self.word(place)
        state = BarrierState.of(word)
        if not 1 <= count <= MOST_COUNT:
            raise Misuse(f"{count} arrivals at an mbarrier, expected 1 to {MOST_COUNT}")
        if count > state.pending:
            raise Misuse(
                f"{count} more arrivals than the mbarrier waits for in this phase ({state})",
                "wait for a phase before arriving in the next one, and count those that arrive",
            )
        if not completes and count == state.pending and not state.tx:
            raise Misuse(f".noComplete arrivals complete the phase ({state})")
        expected = state.expected - count if drops else state.expected
        self._settle(place, replace(state, pending=state.pending - count, expected=expected))
        return word

    def expect(self, place: int, size_bytes: int) -> None:
        """More bytes before the phase is complete."""
        state = self.state(place)
        self._settle(place, replace(state, tx=_checked_tx(state.tx + size_bytes)))

    def complete(self, place: int, size_bytes: int) -> None:
        """Bytes have come."""
        state = self.state(place)
        self._settle(place, replace(state, tx=_checked_tx(state.tx - size_bytes)))

    def begin(self, place: int, transfer: Transfer) -> None:
        """Something is on its way."""
        self.word(place)
        self._transfers.setdefault(place, []).append(transfer)
        self.changes += 1

    def add_pending(self, place: int) -> None:
        """One more arrival in this phase (``cp.async.mbarrier.arrive`` without ``.noinc``)."""
        state = self.state(place)
        if state.pending == MOST_COUNT:
            raise Misuse(f"more than {MOST_COUNT} arrivals pending")
        self._put(place, replace(state, pending=state.pending + 1))

    def _settle(self, place: int, state: BarrierState) -> bool:
        """Note a state; whether its phase waits for nothing, and is over."""
        over = state.pending == 0 and state.tx == 0
        if over:
            state = BarrierState(state.expected, state.expected, 0, state.phase ^ 1)
        self._put(place, state)
        if over:
            self.land(place)
        return over

    def land(self, place: int) -> None:
        """Show the bytes that counted for the phase of a barrier that is over."""
        waiting = self._transfers.get(place, [])
        rest = [each for each in waiting if not each.counted]
        self._transfers[place] = rest
        for transfer in waiting:
            if transfer.counted:
                transfer.land()
        if self.on_phase is not None:
            self.on_phase(place, [each.thread for each in waiting if each.counted])

    def is_complete(self, place: int, phase: int) -> bool:
        """Whether the phase of a parity is over, once what is on its way for it has come."""
        if phase_of(self.word(place)) != phase:
            return True
        for transfer in self._transfers.get(place, ()):
            if transfer.counted:
                continue
            transfer.counted = True
            state = self.state(place)
            if transfer.arrivals > state.pending:
                raise Misuse(f"more arrivals than the mbarrier waits for ({state})")
            tx = _checked_tx(state.tx - transfer.size_bytes)
            pending = state.pending - transfer.arrivals
            if self._settle(place, BarrierState(pending, state.expected, tx, state.phase)):
                return True
        return False


def _checked_tx(tx: int) -> int:
    if not -MOST_TX <= tx <= MOST_TX:
        raise Misuse(f"a tx-count of {tx}, expected {-MOST_TX} to {MOST_TX}")
    return tx

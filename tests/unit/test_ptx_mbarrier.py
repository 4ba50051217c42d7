"""``mbarrier`` on both engines: every instruction, waits in any order, what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_async import assembled, both, by_one, text_of, wait
from wia_compiler.base.errors import TargetError
from wia_compiler.simulators.ptx import PtxFault, run
from wia_compiler.simulators.ptx.mbarrier import Barriers, BarrierState, Misuse, Transfer

PUT = "mad.wide.u32 %d10, %r0, 4, %d0;\nst.global.u32 [%d10], %r20;\n"


def words(count: int = 64) -> np.ndarray:
    return np.zeros(count, np.uint32)


@pytest.mark.parametrize("spelling", ["", ".release.cta", ".release.cluster"])
def test_all_threads_arrive_and_wait(spelling: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 64;")
        + "shl.b32 %r3, %r0, 2;\nadd.u32 %r3, %r3, %r2;\nst.shared.u32 [%r3], %r0;\n"
        + f"mbarrier.arrive{spelling}.shared::cta.b64 %d5, [%r1];\n"
        + wait("%r1", 0, "W")
        + "xor.b32 %r4, %r0, 63;\nshl.b32 %r4, %r4, 2;\nadd.u32 %r4, %r4, %r2;\n"
        + "ld.shared.u32 %r20, [%r4];\n"
        + PUT
    )
    _, (out,) = both(text, [words()], monkeypatch, block=64)
    np.testing.assert_array_equal(out, 63 - np.arange(64))


@pytest.mark.parametrize(
    ("arrival", "count"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [%r1], 2;", 64),
        ("mbarrier.arrive.shared.b64 %d5, [%r1];", 32),
        ("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%r1], 16;\n"
         "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r1], 16;", 32),
        ("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 8;\n"
         "mbarrier.arrive.shared::cta.b64 %d5, [%r1];\n"
         "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r1], 8;", 32),
        ("mbarrier.arrive_drop.shared::cta.b64 %d5, [%r1];", 32),
        ("mbarrier.arrive.shared::cluster.b64 _, [%r1];", 32),
        ("cvta.shared.u64 %d6, %d7;\nmbarrier.arrive.b64 %d5, [%d6];", 32),
    ],
)  # fmt: skip
def test_ways_to_arrive(arrival: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(
        by_one(f"mbarrier.init.shared::cta.b64 [%r1], {count};")
        + "cvt.u64.u32 %d7, %r1;\n"
        + f"{arrival}\n"
        + wait("%r1", 0, "W")
        + "mov.u32 %r20, 7;\n"
        + PUT
    )
    _, (out,) = both(text, [words(32)], monkeypatch)
    assert (out == 7).all()


def test_tokens_and_pending_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes arrive in their order; a token says how many arrivals were pending before."""
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 96;")
        + "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %d5, [%r1], 2;\n"
        + "mbarrier.pending_count.b64 %r20, %d5;\n"
        + "mbarrier.arrive.shared::cta.b64 %d6, [%r1];\n"
        + "W:\nmbarrier.test_wait.acquire.cta.shared::cta.b64 %p1, [%r1], %d6;\n@!%p1 bra W;\n"
        + "mbarrier.try_wait.shared::cta.b64 %p2, [%r1], %d5, 1000;\n"
        + "selp.u32 %r21, 100, 0, %p2;\nadd.u32 %r20, %r20, %r21;\n"
        + PUT
    )
    _, (out,) = both(text, [words(32)], monkeypatch)
    np.testing.assert_array_equal(out, 100 + 96 - 2 * np.arange(32))


def test_parities_alternate_and_the_phase_before_the_first_is_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 32;")
        + "mov.u32 %r20, 0;\nmov.u32 %r5, 0;\nmov.u32 %r6, 1;\n"
        + wait("%r1", "%r6", "FIRST")
        + "LOOP:\nmbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + wait("%r1", "%r5", "W")
        + "xor.b32 %r5, %r5, 1;\nadd.u32 %r20, %r20, 1;\n"
        + "setp.lt.u32 %p1, %r20, 5;\n@%p1 bra LOOP;\n"
        + PUT
    )
    _, (out,) = both(text, [words(32)], monkeypatch)
    assert (out == 5).all()


@pytest.mark.parametrize("waiter", [0, 1, 2, 3])
def test_a_wait_at_the_lowest_rank_lets_others_run(
    waiter: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever warp waits first in the text, and whichever of them comes last to arrive."""
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 96;")
        + "shr.u32 %r3, %r0, 5;\n"
        + f"setp.ne.u32 %p1, %r3, {waiter};\n@%p1 bra OTHERS;\n"
        + wait("%r1", 0, "W")
        + "ld.shared.u32 %r20, [%r2];\nbra OUT;\n"
        + "OTHERS:\nmov.u32 %r4, 1;\natom.shared.add.u32 %r5, [%r2], %r4;\n"
        + "mbarrier.arrive.shared::cta.b64 _, [%r1];\nmov.u32 %r20, 1;\n"
        + "OUT:\n"
        + PUT
    )
    _, (out,) = both(text, [words(128)], monkeypatch, block=128)
    expected = np.ones(128, np.uint32)
    expected[32 * waiter : 32 * waiter + 32] = 96
    np.testing.assert_array_equal(out, expected)


def test_lanes_of_one_warp_wait_for_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lane 0 waits for what the other lanes of its warp do behind it, then all meet."""
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 31;")
        + "mov.u32 %r20, 3;\nsetp.ne.u32 %p1, %r0, 0;\n@%p1 bra OTHERS;\n"
        + wait("%r1", 0, "W")
        + "ld.shared.u32 %r20, [%r2];\nbra OUT;\n"
        + "OTHERS:\natom.shared.add.u32 %r5, [%r2], 1;\n"
        + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + "OUT:\nbar.warp.sync 0xffffffff;\n"
        + PUT
    )
    _, (out,) = both(text, [words(32)], monkeypatch)
    np.testing.assert_array_equal(out, [31] + [3] * 31)


def test_a_test_that_fails_is_no_deadlock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at a phase that only comes when the thread goes on: it ends with false."""
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 32;")
        + "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n"
        + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r1], 0;\n"
        + "selp.u32 %r20, 1, 0, %p1;\nselp.u32 %r21, 2, 0, %p2;\nadd.u32 %r20, %r20, %r21;\n"
        + PUT
    )
    _, (out,) = both(text, [words(32)], monkeypatch)
    assert (out == 2).all()


def test_copies_of_threads_arrive_at_a_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(
        by_one(
            "mbarrier.init.shared::cta.b64 [%r1], 64;\nmbarrier.init.shared::cta.b64 [%r1+8], 32;"
        )
        + "mad.wide.u32 %d3, %r0, 4, %d0;\nshl.b32 %r3, %r0, 2;\nadd.u32 %r3, %r3, %r2;\n"
        + "cp.async.ca.shared.global [%r3], [%d3], 4;\n"
        + "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];\n"
        + "cp.async.mbarrier.arrive.shared::cta.b64 [%r1+8];\n"
        + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + "mbarrier.arrive.shared::cta.b64 _, [%r1+8];\n"
        + wait("%r1", 0, "W")
        + wait("%r1+8", 0, "V")
        + "xor.b32 %r3, %r3, 124;\nld.shared.u32 %r20, [%r3];\n"
        + PUT
    )
    data = np.arange(32, dtype=np.uint32)
    _, (out,) = both(text, [data], monkeypatch)
    np.testing.assert_array_equal(out, data[::-1])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (wait("%r1", 0, "W"), "no mbarrier was initialised there: shared address 0x4000"),
        ("mbarrier.init.shared::cta.b64 [%r1+4], 1;", "is not aligned to 8 bytes"),
        ("mov.u32 %r9, 0;\nmbarrier.init.shared::cta.b64 [%r1], %r9;",
         "for 0 arrivals, expected 1 to 1048575"),
        (by_one("mbarrier.init.shared::cta.b64 [%r1], 3;")
         + "mbarrier.arrive.shared::cta.b64 _, [%r1], 5;",
         "5 more arrivals than the mbarrier waits for in this phase (phase 0: 3 of 3"),
        (by_one("mbarrier.init.shared::cta.b64 [%r1], 1;")
         + "mbarrier.arrive.noComplete.shared::cta.b64 %d5, [%r1], 1;",
         ".noComplete arrivals complete the phase"),
        (by_one("mbarrier.init.shared::cta.b64 [%r1], 1;\n"
                "mbarrier.inval.shared::cta.b64 [%r1];")
         + "mbarrier.arrive.shared::cta.b64 _, [%r1];", "no mbarrier was initialised there"),
        (by_one("mbarrier.init.shared::cta.b64 [%r1], 1;")
         + "mov.u32 %r9, 1048576;\n"
         "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], %r9;", "a tx-count of"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_misuse(body: str, message: str, engine: Any) -> None:
    text = text_of(body)
    assembled(text)
    with pytest.raises(PtxFault, match="thread") as caught:
        run(text, "k", 1, 32, [words()], engine=engine)
    assert message in str(caught.value)


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_a_deadlock_names_the_barrier_its_state_and_who_waits(engine: Any) -> None:
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1+8], 3;")
        + "setp.eq.u32 %p1, %r0, 1;\n"
        + "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8], 64;\n"
        + "setp.gt.u32 %p2, %r0, 4;\n@%p2 bra DONE;\n"
        + wait("%r1+8", 0, "W")
    )
    assembled(text)
    with pytest.raises(PtxFault) as caught:
        run(text, "k", 1, 32, [words()], engine=engine)
    message = str(caught.value)
    assert "deadlock: thread (0, 0, 0) of block (0, 0, 0) waits for phase 0" in message
    assert "0x4008" in message and "2 of 3 arrivals pending, tx-count 64" in message
    assert "5 threads of block (0, 0, 0) wait" in message


def test_the_wrong_parity_is_a_deadlock() -> None:
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 32;")
        + "mbarrier.arrive.shared::cta.b64 _, [%r1];\n"
        + wait("%r1", 1, "W")
    )
    with pytest.raises(PtxFault, match=r"waits for phase 1 .*phase 1: 32 of 32 arrivals pending"):
        run(text, "k", 1, 32, [words()], engine="numpy")


def test_unknown_words_are_errors_with_their_line() -> None:
    text = text_of("mbarrier.arrive.somehow.shared::cta.b64 _, [%r1];")
    with pytest.raises(TargetError, match=r"mbarrier.arrive.somehow.shared::cta.b64: .somehow"):
        run(text, "k", 1, 32, [words()])


@pytest.mark.parametrize("tx", [0, 1, -1, 1048575, -1048575])
@pytest.mark.parametrize("phase", [0, 1])
def test_states_are_what_their_words_say(tx: int, phase: int) -> None:
    state = BarrierState(3, 1048575, tx, phase)
    assert BarrierState.of(state.word()) == state


def test_transfers_land_with_the_phase_that_they_count_for() -> None:
    barriers = Barriers(np.zeros(64, np.uint8))
    barriers.init(8, 2)
    landed: list[str] = []
    barriers.begin(8, Transfer(32, 0, lambda: landed.append("first")))
    barriers.arrive(8, 1, tx=64)
    assert not barriers.is_complete(8, 0)
    barriers.begin(8, Transfer(32, 0, lambda: landed.append("second")))
    barriers.begin(8, Transfer(16, 0, lambda: landed.append("of the next phase")))
    assert not barriers.is_complete(8, 0) and landed == []
    with pytest.raises(Misuse, match="while copies are on their way"):
        barriers.invalidate(8)
    barriers.complete(8, -16)
    barriers.arrive(8, 1)
    assert landed == ["first", "second", "of the next phase"]
    assert barriers.is_complete(8, 0) and not barriers.in_flight()

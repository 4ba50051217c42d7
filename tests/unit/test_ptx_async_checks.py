"""``debug=True`` with barriers and bulk copies: what is in order is, what is not is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_async import assembled, by_one, text_of, wait
from wia_compiler.simulators.ptx import TensorMap, run

MAP = ".param .align 64 .b8 m[128], .param .u64 x"
LOAD = (
    "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
    "[%r2], [%d9, {0}], [%r1];"
)
STORE = "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%d9, {0}], [%r2];\n"
COMMIT = "cp.async.bulk.commit_group;\n"
READ = "shl.b32 %r3, %r0, 2;\nadd.u32 %r3, %r3, %r2;\nld.shared.u32 %r20, [%r3];\n"
PUT = "mad.wide.u32 %d10, %r0, 4, %d0;\nst.global.u32 [%d10], %r20;\n"
OWN = "shl.b32 %r3, %r0, 2;\nadd.u32 %r3, %r3, %r2;\nst.shared.u32 [%r3], %r0;\n"
ACROSS = "xor.b32 %r3, %r3, 128;\nld.shared.u32 %r20, [%r3];\n"


def kinds(text: str, *args: Any, block: int = 32) -> list[tuple[str, str]]:
    launch = run(assembled(text), "k", 1, block, args, debug=True)
    return [(each.kind, f"{each.message} {each.hint}") for each in launch.findings]


def loaded(then: str, after: str = "") -> str:
    """Load 32 words, then what all threads do."""
    return text_of(
        "mov.b64 %d8, m;\ncvta.param.u64 %d9, %d8;\n"
        + by_one(
            "mbarrier.init.shared::cta.b64 [%r1], 1;\n"
            f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n{LOAD}\n{after}"
        )
        + then,
        parameters=MAP,
    )


def launched(text: str, block: int = 32) -> list[tuple[str, str]]:
    array = np.arange(32, dtype=np.uint32)
    return kinds(text, TensorMap(array, box=(32,)), np.zeros(64, np.uint32), block=block)


def test_a_load_that_is_waited_for() -> None:
    assert launched(loaded(wait("%r1", 0, "W") + READ + PUT)) == []


def test_a_load_that_nobody_waits_for() -> None:
    (early, left) = launched(loaded(READ + PUT))
    assert early[0] == "cp.async" and "is on its way" in early[1] and "mbarrier" in early[1]
    assert left[0] == "cp.async" and "ends before its bulk copy to shared memory" in left[1]


def test_a_load_that_another_thread_waited_for() -> None:
    """One thread's wait is not that of the others, unless a barrier of the block follows."""
    one = "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra READ;\n" + wait("%r1", 0, "W") + "READ:\n"
    (found,) = launched(
        loaded(one + "bar.warp.sync 1;\n" + READ + PUT).replace(
            "bar.warp.sync 1;", "mov.u32 %r4, 0;"
        )
    )
    assert found[0] == "cp.async" and "let this thread wait" in found[1]
    assert launched(loaded(one + "bar.sync 0;\n" + READ + PUT)) == []


def test_a_load_over_what_others_still_read() -> None:
    """A second load into bytes that other threads read, with and without their arrival."""
    again = (
        "mbarrier.arrive.shared::cta.b64 _, [%r1+8];\n"
        "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra OUT;\nWAITS"
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 128;\n{LOAD}\n"
        + wait("%r1", 1, "X")
        + "OUT:\n"
        + PUT
    )
    head = wait("%r1", 0, "W") + READ

    def text(waits: str) -> str:
        return loaded(head + again.replace("WAITS", waits)).replace(
            "mbarrier.init.shared::cta.b64 [%r1], 1;",
            "mbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.init.shared::cta.b64 [%r1+8], 32;",
        )

    assert launched(text(wait("%r1+8", 0, "V"))) == []
    (found,) = launched(text(""))
    assert found[0] == "race" and "copies to" in found[1]


def stored(after: str) -> list[tuple[str, str]]:
    text = text_of(
        "mov.b64 %d8, m;\ncvta.param.u64 %d9, %d8;\n"
        + OWN
        + "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
        + "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra DONE;\n"
        + STORE
        + after,
        parameters=MAP,
    )
    return launched(text)


def test_stores_whose_bytes_are_read_in_time() -> None:
    assert stored(COMMIT + "cp.async.bulk.wait_group.read 0;\n") == []
    assert stored(COMMIT + "cp.async.bulk.wait_group 0;\n") == []
    ((kind, message),) = stored(COMMIT)
    assert kind == "cp.async" and "wait_group.read 0" in message


def test_a_store_of_what_other_threads_write_without_a_barrier() -> None:
    text = text_of(
        "mov.b64 %d8, m;\ncvta.param.u64 %d9, %d8;\n"
        + OWN
        + "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra DONE;\n"
        + STORE
        + COMMIT
        + "cp.async.bulk.wait_group 0;\n",
        parameters=MAP,
    )
    ((kind, message),) = launched(text)
    assert kind == "race" and "with no barrier in between" in message


@pytest.mark.parametrize(
    ("meeting", "found"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [%r1];\n" + wait("%r1", 0, "W"), 0),
        ("mbarrier.arrive.shared::cta.b64 _, [%r1];\n", 1),
        ("bar.sync 3, 64;\n", 0),
        ("barrier.cta.sync 3, 64;\n", 0),
        ("setp.gt.u32 %p1, %r0, 31;\n@%p1 bra COME;\nbar.sync 3, 64;\nbra MET;\n"
         "COME:\nbar.arrive 3, 64;\nMET:\n", 1),
        ("", 1),
    ],
)  # fmt: skip
def test_warps_that_meet(meeting: str, found: int) -> None:
    """Each thread reads what one of the other warp wrote."""
    text = text_of(
        by_one("mbarrier.init.shared::cta.b64 [%r1], 64;") + OWN + meeting + ACROSS + PUT
    )
    findings = kinds(text, np.zeros(64, np.uint32), block=64)
    assert [kind for kind, _ in findings] == ["race"] * found

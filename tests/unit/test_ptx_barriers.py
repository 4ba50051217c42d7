"""Named barriers with counts, elections and clusters of one block, on both engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_async import assembled, both, text_of
from wia_compiler.base.errors import ArgumentError
from wia_compiler.simulators.ptx import PtxFault, run

PUT = "mad.wide.u32 %d10, %r0, 4, %d0;\nst.global.u32 [%d10], %r20;\n"
ROLES = "shr.u32 %r3, %r0, 5;\nmov.u32 %r20, 0;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra OTHERS;\n"


def words(count: int) -> np.ndarray:
    return np.zeros(count, np.uint32)


@pytest.mark.parametrize("name", ["bar", "barrier", "barrier.cta"])
@pytest.mark.parametrize("number", ["2", "%r9"])
def test_a_producer_and_its_consumers(
    name: str, number: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Warp 0 fills a tile in three turns; the others wait for it, then give it back."""
    other = "3" if number == "2" else "%r10"
    text = text_of(
        "mov.u32 %r9, 2;\nmov.u32 %r10, 3;\nmov.u32 %r5, 0;\nshl.b32 %r6, %r0, 2;\n"
        "and.b32 %r6, %r6, 127;\nadd.u32 %r6, %r6, %r2;\n"
        + ROLES
        + f"FILL:\nadd.u32 %r5, %r5, 1;\nmad.lo.u32 %r7, %r0, 10, %r5;\nst.shared.u32 [%r6], %r7;\n"
        f"{name}.arrive {number}, 96;\n{name}.sync {other}, 96;\n"
        "setp.lt.u32 %p2, %r5, 3;\n@%p2 bra FILL;\nbra OUT;\n"
        f"OTHERS:\n{name}.sync {number}, 96;\nld.shared.u32 %r7, [%r6];\nadd.u32 %r20, %r20, %r7;\n"
        f"{name}.arrive {other}, 96;\nadd.u32 %r5, %r5, 1;\n"
        "setp.lt.u32 %p2, %r5, 3;\n@%p2 bra OTHERS;\nOUT:\n" + PUT
    )
    _, (out,) = both(text, [words(96)], monkeypatch, block=96)
    expected = np.tile(30 * np.arange(32) + 6, 3)
    expected[:32] = 0
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("count", ["", ", 64"])
def test_folds_of_a_barrier(count: str) -> None:
    text = text_of(
        "and.b32 %r3, %r0, 3;\nsetp.eq.u32 %p1, %r3, 1;\n"
        f"bar.red.popc.u32 %r20, 0{count}, %p1;\n"
        f"bar.red.and.pred %p2, 0{count}, %p1;\nbar.red.or.pred %p3, 1{count}, %p1;\n"
        f"barrier.red.and.pred %p4, 1{count}, !%p15;\n"
        "selp.u32 %r4, 100, 0, %p2;\nadd.u32 %r20, %r20, %r4;\n"
        "selp.u32 %r4, 1000, 0, %p3;\nadd.u32 %r20, %r20, %r4;\n"
        "selp.u32 %r4, 10000, 0, %p4;\nadd.u32 %r20, %r20, %r4;\n" + PUT
    )
    _, (out,) = both(text, [words(64)], block=64)
    assert (out == 11016).all()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mov.u32 %r9, 16;\nbar.sync %r9, 64;", "barrier 16, expected 0 to 15"),
        ("mov.u32 %r9, 40;\nbar.sync 1, %r9;", "for 40 threads, expected a multiple of 32"),
        (ROLES + "bar.sync 1, 64;\nbra OUT;\nOTHERS:\nmov.u32 %r9, 96;\nbar.sync 1, %r9;\nOUT:",
         "barrier 1 for 64 threads, which is for 96 in line"),
        (ROLES + "bra OUT;\nOTHERS:\nbar.sync 1, 64;\nOUT:", "64 threads, of which 32 came"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_counts_that_do_not_fit(body: str, message: str, engine: Any) -> None:
    text = assembled(text_of(body))
    with pytest.raises(PtxFault) as caught:
        run(text, "k", 1, 64, [words(64)], engine=engine)
    assert message in str(caught.value)


@pytest.mark.parametrize("members", ["0xffffffff", "0xfff0"])
def test_elections(members: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(
        "mov.u32 %r20, 50;\nmov.u32 %r4, 1;\nshl.b32 %r4, %r4, %r0;\n"
        f"and.b32 %r4, %r4, {members};\nsetp.eq.u32 %p2, %r4, 0;\n@%p2 bra OUT;\n"
        f"elect.sync %r20|%p1, {members};\n@%p1 add.u32 %r20, %r20, 100;\nOUT:\n" + PUT
    )
    _, (out,) = both(text, [words(32)], monkeypatch)
    mask = int(members, 16)
    leader = (mask & -mask).bit_length() - 1
    expected = [leader if mask >> lane & 1 else 50 for lane in range(32)]
    expected[leader] += 100
    np.testing.assert_array_equal(out, expected)


CLUSTER = """
    barrier.cluster.arrive.release.aligned;
    barrier.cluster.wait.acquire.aligned;
    mov.u32 %r3, %cluster_ctarank;
    mapa.shared::cluster.u32 %r4, %r2, %r3;
    cvt.u64.u32 %d5, %r2;
    cvta.shared.u64 %d5, %d5;
    mapa.u64 %d6, %d5, %r3;
    shl.b32 %r5, %r0, 2;
    add.u32 %r4, %r4, %r5;
    st.shared::cluster.u32 [%r4], %r0;
    barrier.cluster.arrive;
    barrier.cluster.wait;
    xor.b32 %r5, %r5, 128;
    add.u32 %r5, %r5, %r2;
    ld.shared.u32 %r20, [%r5];
    mov.u32 %r6, %cluster_nctarank;
    mad.lo.u32 %r20, %r6, 1000, %r20;
    mov.u32 %r6, %clusterid.x;
    mad.lo.u32 %r20, %r6, 100, %r20;
    getctarank.shared::cluster.u32 %r6, %r4;
    add.u32 %r20, %r20, %r6;
    mov.u32 %r6, %ctaid.x;
    mad.lo.u32 %r0, %r6, 64, %r0;
"""


def test_a_cluster_of_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    text = text_of(CLUSTER + PUT).replace(".param .u64 x)", ".param .u64 x) .reqnctapercluster 1")
    _, (out,) = both(text, [words(128)], monkeypatch, block=64, grid=2, cluster=1)
    expected = 1000 + (np.arange(64) ^ 32)
    np.testing.assert_array_equal(out, np.concatenate([expected, expected + 100]))


def test_clusters_that_do_not_fit_are_told() -> None:
    text = text_of(CLUSTER)
    with pytest.raises(ArgumentError, match=r"debug=True: clusters of 2 x 1 x 1 blocks"):
        run(text, "k", 2, 64, [words(64)], cluster=2, debug=True)
    with pytest.raises(ArgumentError, match="k requires 2 x 1 x 1"):
        wide = text.replace(".param .u64 x)", ".param .u64 x) .reqnctapercluster 2")
        run(assembled(wide), "k", 2, 64, [words(64)], cluster=1)
    with pytest.raises(PtxFault, match="asks for block 1 of a cluster of one block"):
        run(
            text.replace("mov.u32 %r3, %cluster_ctarank", "mov.u32 %r3, 1"), "k", 1, 64, [words(64)]
        )


@pytest.mark.parametrize(
    "body", ["barrier.cluster.wait;", "barrier.cluster.arrive;\nbarrier.cluster.arrive;"]
)
@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_arrivals_and_waits_take_turns(body: str, engine: Any) -> None:
    with pytest.raises(PtxFault, match="every thread arrives, then waits"):
        run(assembled(text_of(body)), "k", 1, 32, [words(64)], engine=engine)

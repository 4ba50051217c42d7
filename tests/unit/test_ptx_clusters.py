"""Clusters of several blocks: registers, barriers, the memory of others, multicast copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_async import by_one, text_of, wait
from wia_compiler.base.errors import ArgumentError
from wia_compiler.simulators.ptx import PtxFault, TensorMap, run
from wia_compiler.simulators.ptx.clusters import Clusters

MEET = "barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n"
OUT = """
    mov.u32 %r40, %ctaid.x; mov.u32 %r41, %ntid.x; mad.lo.u32 %r40, %r40, %r41, %r0;
    mul.wide.u32 %d20, %r40, 4; add.u64 %d20, %d0, %d20; st.global.u32 [%d20], %r20;
"""


def launch(body: str, blocks: int, cluster: Any, threads: int = 32, **options: Any) -> np.ndarray:
    out = np.zeros(blocks * threads, np.uint32)
    text = text_of(
        body + OUT, head=options.pop("head", ".version 8.0\n.target sm_90a\n.address_size 64\n")
    )
    run(text, "k", blocks, threads, [out], cluster=cluster, **options)
    return out.reshape(blocks, threads)


def test_each_block_knows_its_place():
    """All registers of a grid of 4 x 6 x 2 in clusters of 2 x 3 x 1."""
    names = [f"{name}.{axis}" for name in ("ctaid", "clusterid", "nclusterid", "cluster_ctaid",
                                           "cluster_nctaid") for axis in "xyz"]  # fmt: skip
    names += ["cluster_ctarank", "cluster_nctarank"]
    body = "".join(
        f"mov.u32 %r20, %{name}; st.global.u32 [%d20+{4 * place}], %r20;\n"
        for place, name in enumerate(names)
    )
    text = text_of(
        "mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, %ctaid.z;\n"
        "mad.lo.u32 %r4, %r5, 6, %r4; mad.lo.u32 %r3, %r4, 4, %r3;\n"
        f"mul.wide.u32 %d20, %r3, {4 * len(names)}; add.u64 %d20, %d0, %d20;\n" + body
    )
    out = np.zeros((48, len(names)), np.uint32)
    run(text, "k", (4, 6, 2), 1, [out], cluster=(2, 3, 1))
    for number, row in enumerate(out):
        x, y, z = number % 4, number // 4 % 6, number // 24
        rank = x % 2 + 2 * (y % 3)
        expected = [x, y, z, x // 2, y // 3, z, 2, 2, 2, x % 2, y % 3, 0, 2, 3, 1, rank, 6]
        assert row.tolist() == expected


def test_blocks_run_cluster_by_cluster():
    order = Clusters((4, 2, 1), (2, 2, 1)).order()
    assert order.tolist() == [0, 1, 4, 5, 2, 3, 6, 7]


EXCHANGE = f"""
    mov.u32 %r10, %cluster_ctarank; mov.u32 %r11, %cluster_nctarank;
    mad.lo.u32 %r12, %r0, 4, %r2;
    mad.lo.u32 %r13, %r10, 1000, %r0;
    st.shared.u32 [%r12], %r13;
    {MEET}
    add.u32 %r14, %r10, 1; rem.u32 %r14, %r14, %r11;
    mapa.shared::cluster.u32 %r15, %r12, %r14;
    ld.shared::cluster.u32 %r20, [%r15];
    cvt.u64.u32 %d3, %r12; cvta.shared.u64 %d3, %d3;
    mapa.u64 %d4, %d3, %r14;
    ld.u32 %r16, [%d4];
    getctarank.u64 %r17, %d4; getctarank.shared::cluster.u32 %r18, %r15;
    isspacep.shared::cluster %p1, %d4; isspacep.shared::cta %p2, %d4;
    setp.ne.u32 %p3, %r16, %r20; @%p3 trap;
    setp.ne.u32 %p3, %r17, %r14; @%p3 trap;
    setp.ne.u32 %p3, %r18, %r14; @%p3 trap;
    @!%p1 trap;
    @%p2 trap;
    {MEET}
    mad.lo.u32 %r19, %r14, 5, 7;
    st.shared::cluster.u32 [%r15], %r19;
    atom.shared::cluster.add.u32 %r21, [%r15], 1;
    {MEET}
    ld.shared.u32 %r22, [%r12];
    mad.lo.u32 %r20, %r22, 65536, %r20;
"""


@pytest.mark.parametrize("size", [2, 4, 8, 16])
def test_blocks_read_and_write_the_shared_memory_of_others(size):
    found = launch(EXCHANGE, 2 * size if size < 16 else 16, size, 48)
    for block, row in enumerate(found):
        rank = block % size
        other = (rank + 1) % size
        np.testing.assert_array_equal(row & 0xFFFF, 1000 * other + np.arange(48))
        # Of its own memory, the block before wrote 5 rank + 7, then added 1.
        np.testing.assert_array_equal(row >> 16, 5 * rank + 8)


def test_arrivals_at_a_barrier_of_another_block():
    """Rank 0 waits for one thread of each block, which first puts its number there."""
    body = (
        by_one("mbarrier.init.shared::cta.b64 [%r1], 4;")
        + MEET
        + "mov.u32 %r10, %cluster_ctarank; mov.u32 %r20, 0;\n"
        "setp.ne.u32 %p1, %r0, 0; @%p1 bra ON;\n"
        "mapa.shared::cluster.u32 %r11, %r1, 0; mapa.shared::cluster.u32 %r12, %r2, 0;\n"
        "mad.lo.u32 %r12, %r10, 4, %r12; mad.lo.u32 %r13, %r10, 3, 5;\n"
        "st.shared::cluster.u32 [%r12], %r13;\n"
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];\n"
        "ON:\nsetp.ne.u32 %p2, %r10, 0; @%p2 bra END;\n"
        + wait("%r1", 0, "W")
        + "and.b32 %r14, %r0, 3; mad.lo.u32 %r14, %r14, 4, %r2; ld.shared.u32 %r20, [%r14];\n"
        "END:\n" + MEET
    )
    found = launch(body, 8, 4)
    np.testing.assert_array_equal(found[[0, 4]], [np.tile([5, 8, 11, 14], 8)] * 2)
    assert not found[[1, 2, 3, 5, 6, 7]].any()


@pytest.mark.parametrize("tensor", [False, True])
def test_copies_to_several_blocks(tensor):
    """Each of two blocks brings half of the data, to both; each waits at its own barrier."""
    array = np.arange(256, dtype=np.uint32).reshape(4, 64)
    copy = (
        "mov.b64 %d8, m; cvta.param.u64 %d9, %d8; mul.lo.u32 %r12, %r10, 1;\n"
        "mul.lo.u32 %r13, %r10, 32; mul.lo.u32 %r12, %r10, 512; add.u32 %r12, %r2, %r12;\n"
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        ".multicast::cluster [%r12], [%d9, {%r13, 0}], [%r1], %h1;"
        if tensor
        else "ld.param.u64 %d9, [m]; mul.wide.u32 %d8, %r10, 512; add.u64 %d9, %d9, %d8;\n"
        "mul.lo.u32 %r12, %r10, 512; add.u32 %r12, %r2, %r12;\n"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        " [%r12], [%d9], 512, [%r1], %h1;"
    )
    body = (
        "mov.u32 %r10, %cluster_ctarank; mov.u16 %h1, 3;\n"
        + by_one(
            "mbarrier.init.shared::cta.b64 [%r1], 1;\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1024;"
        )
        + MEET
        + f"setp.ne.u32 %p1, %r0, 0; @%p1 bra ON;\n{copy}\nON:\n"
        + wait("%r1", 0, "W")
        + "mad.lo.u32 %r14, %r0, 4, %r2; ld.shared.u32 %r20, [%r14];\n"
        + OUT
    )
    first = ".param .align 64 .b8 m[128]" if tensor else ".param .u64 m"
    text = text_of(body, parameters=f"{first}, .param .u64 x")
    out = np.zeros((4, 256), np.uint32)
    source = TensorMap(array, box=(4, 32)) if tensor else array
    done = run(text, "k", 4, 256, [source, out], cluster=2)
    halves = array.reshape(4, 2, 32).transpose(1, 0, 2).reshape(-1)
    expected = halves if tensor else array.reshape(-1)
    np.testing.assert_array_equal(out, np.tile(expected, (4, 1)))
    # A copy to several blocks reads device memory once.
    assert done.counters["smsp__inst_executed_op_tma_ld.sum"] == 4
    name = "l1tex__m_xbar2l1tex_read_sectors_mem_global_op_tma_ld.sum"
    assert done.counters[name] == 4 * 512 // 32


def test_what_the_text_requires_is_taken():
    head = ".version 8.0\n.target sm_90a\n.address_size 64\n"
    text = text_of("mov.u32 %r20, %cluster_nctarank; mov.pred %p1, %is_explicit_cluster;\n"
                   "@!%p1 trap;\n" + OUT, head=head)  # fmt: skip
    text = text.replace("(.param .u64 x)", "(.param .u64 x) .reqnctapercluster 2, 1, 1")
    out = np.zeros(4 * 32, np.uint32)
    run(text, "k", 4, 32, [out])
    assert (out == 2).all()
    with pytest.raises(ArgumentError, match="requires 2 x 1 x 1"):
        run(text, "k", 4, 32, [out], cluster=4)


@pytest.mark.parametrize(
    ("grid", "cluster", "message"),
    [
        (3, 2, "size 3 along x, expected a multiple of the cluster's 2"),
        (32, 32, "32 x 1 x 1 blocks, expected 1 to 16"),
        (4, 0, "0 x 1 x 1 blocks, expected 1 to 16"),
    ],
)
def test_sizes_that_do_not_fit(grid, cluster, message):
    with pytest.raises(ArgumentError, match=message):
        launch("mov.u32 %r20, 0;", grid, cluster)


def test_an_older_target_has_no_clusters():
    with pytest.raises(ArgumentError, match="sm_80 has no clusters"):
        launch("mov.u32 %r20, 0;", 4, 2, head=".version 8.0\n.target sm_80\n.address_size 64\n")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("mapa.shared::cluster.u32 %r20, %r2, 2;", "block 2 of a cluster of 2 blocks"),
        (
            "mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;\n"
            "mapa.shared::cluster.u32 %r11, %r2, %r10; ld.shared.u32 %r20, [%r11];",
            "out of range",
        ),
        (
            "mov.u32 %r10, %cluster_ctarank; xor.b32 %r10, %r10, 1;\n"
            "mapa.shared::cluster.u32 %r11, %r2, %r10; ld.shared::cluster.u32 %r20, [%r11+32768];",
            "out of range",
        ),
        (
            "mov.u32 %r10, %cluster_ctarank; setp.eq.u32 %p1, %r10, 0; @%p1 bra ON;\n"
            + MEET
            + "bra END;\nON: bar.sync 1, 64;\nEND:",
            "deadlock",
        ),
    ],
)
def test_what_goes_wrong_is_told(body, message):
    with pytest.raises(PtxFault, match=message):
        launch(body, 2, 2)

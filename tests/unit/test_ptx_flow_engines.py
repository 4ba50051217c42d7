"""Ways of warps that both engines take alike: folds at barriers, tables of labels, warps of which
some lanes have ended, and instructions of a whole warp that a predicate skips."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_texts import element, engine_alone, entry
from wia_compiler.simulators.ptx import Launch, PtxFault, run


def both(body: str, x: np.ndarray, y: np.ndarray, **options: Any) -> tuple[np.ndarray, Launch]:
    """y after a run on each engine, which must agree and do without the other."""
    block, variables = options.pop("block", 32), options.pop("variables", "")
    found: list[tuple[np.ndarray, Launch]] = []
    for engine in ("numpy", "compiled"):
        own = [x.copy(), y.copy()]
        with engine_alone(engine):
            done = run(
                entry(body, variables=variables), "k", 2, block, own, engine=engine, **options
            )
        found.append((own[1], done))
    (first, counted), (second, compiled) = found
    np.testing.assert_array_equal(first.view(np.uint8), second.view(np.uint8))
    assert dict(counted.totals) == dict(compiled.totals)
    return first, counted


FOLDS = f"""
    {element("%d2", "%d0", 4)}
    ld.global.u32 %r1, [%d2];
    setp.ne.u32 %p1, %r1, 0;
    mov.u32 %r9, 0;
AGAIN:
    bar.red.popc.u32 %r2, 0, %p1;
    bar.red.and.pred %p2, 0, %p1;
    bar.red.or.pred %p3, 0, !%p1;
    selp.u32 %r3, 1, 0, %p2;
    selp.u32 %r4, 1, 0, %p3;
    mad.lo.u32 %r2, %r2, 4, %r3;
    mad.lo.u32 %r2, %r4, 2, %r2;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p4, %r9, 3;
    @%p4 bra AGAIN;
    mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ntid.x;
    mad.lo.u32 %r7, %r5, %r6, %r0;
    {element("%d3", "%d1", 4, "%r7")}
    st.global.u32 [%d3], %r2;
"""


@pytest.mark.parametrize("threads", [1, 32, 48, 127])
@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_barriers_fold_predicates_of_all_threads(threads, share):
    x = (np.random.default_rng(3).random(threads) < share).astype(np.uint32)
    found, _ = both(FOLDS, x, np.zeros(2 * threads, np.uint32), block=threads)
    count = int(x.sum())
    assert (found == 4 * count + 2 * (count < threads) + (count == threads)).all()


def test_folds_of_some_warps_are_apart():
    """Warps 0 and 1 meet at barrier 1, warps 2 and 3 at barrier 2, three times each."""
    body = f"""
    shr.u32 %r1, %r0, 6; add.u32 %r1, %r1, 1;
    and.b32 %r2, %r0, 3; setp.eq.u32 %p1, %r2, 0;
    setp.gt.u32 %p2, %r0, 63; and.pred %p1, %p1, %p2;
    mov.u32 %r9, 0; mov.u32 %r8, 0;
AGAIN:
    bar.red.popc.u32 %r3, %r1, 64, %p1;
    add.u32 %r8, %r8, %r3;
    add.u32 %r9, %r9, 1;
    setp.lt.u32 %p4, %r9, %r1;
    @%p4 bra AGAIN;
    {element("%d3", "%d1", 4)}
    st.global.u32 [%d3], %r8;
"""
    found, _ = both(body, np.zeros(1, np.uint32), np.zeros(128, np.uint32), block=128)
    np.testing.assert_array_equal(found, np.repeat([0, 32], 64))


TABLE = f"""
    {element("%d2", "%d0", 4)}
    ld.global.u32 %r1, [%d2];
    setp.lt.u32 %p1, %r1, 4;
    mov.u32 %r2, 100;
ways: .branchtargets A, B, C, B;
    @%p1 brx.idx %r1, ways;
    mov.u32 %r2, 50; bra END;
A:  add.u32 %r2, %r2, 1; bra END;
B:  add.u32 %r2, %r2, 2; bra END;
C:  add.u32 %r2, %r2, 3;
END:
    {element("%d3", "%d1", 4)}
    st.global.u32 [%d3], %r2;
"""


@pytest.mark.parametrize("values", [[2], [0, 1], [3, 1], [0, 1, 2, 3, 4], [7]])
def test_tables_of_labels(values):
    x = np.resize(np.array(values, np.uint32), 80)
    found, launch = both(TABLE, x, np.zeros(80, np.uint32), block=80)
    np.testing.assert_array_equal(found, np.array([101, 102, 103, 102, 50, 50, 50, 50])[x])
    ways = {0: 0, 1: 1, 2: 2, 3: 1}
    parts = len({ways.get(each, 9) for each in values}) > 1
    assert launch.counters["ptx_branches_divergent"] == (6 if parts else 0)


def test_an_index_beyond_the_table_is_told():
    body = TABLE.replace("@%p1 brx", "brx")
    for engine in ("numpy", "compiled"):
        with pytest.raises(PtxFault, match=r"index 9 of 4 labels, in thread \(5, 0, 0\)"):
            x = np.where(np.arange(32) == 5, 9, 0).astype(np.uint32)
            run(entry(body), "k", 1, 32, [x, np.zeros(32, np.uint32)], engine=engine)


SKIPPED = f"""
    mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 16, %r1;
    {element("%d2", "%d0", 16)}
    ld.global.v4.u32 {{%r4, %r5, %r6, %r7}}, [%d2];
    shr.u32 %r3, %r0, 5; setp.eq.u32 %p1, %r3, 0;
    setp.ne.u32 %p2, %r3, 0;
    st.shared.v4.u32 [%r2], {{%r4, %r5, %r6, %r7}};
    @%p2 bar.sync 1, 32;
    mov.u32 %r10, 1; mov.u32 %r11, 2; mov.u32 %r12, 3; mov.u32 %r13, 4;
    bar.sync 0;
    and.b32 %r3, %r0, 31; mad.lo.u32 %r3, %r3, 16, %r1;
    @%p1 ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r3];
    @!%p1 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        {{%r10, %r11, %r12, %r13}}, {{%r4, %r5, %r6, %r7}}, {{%r4, %r5}},
        {{%r10, %r11, %r12, %r13}};
    bar.sync 0;
    @%p1 stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%r3], {{%r4, %r5}};
    bar.sync 0;
    ld.shared.u32 %r4, [%r2];
    xor.b32 %r10, %r10, %r4;
    {element("%d3", "%d1", 16)}
    st.global.v4.u32 [%d3], {{%r10, %r11, %r12, %r13}};
"""


def test_predicates_skip_what_a_whole_warp_does():
    half = np.random.default_rng(9).standard_normal((64, 8)).astype(np.float16)
    tile = ".shared .align 16 .b8 tile[1024];"
    found, _ = both(
        SKIPPED, half.view(np.uint32), np.zeros((64, 4), np.uint32), block=64, variables=tile
    )
    words = half[:32].reshape(4, 8, 4, 2).view(np.uint32)[..., 0]
    loaded = np.moveaxis(words.reshape(4, 32), 0, 1)
    np.testing.assert_array_equal(found[:32, 1:], loaded[:, 1:])


@pytest.mark.parametrize("threads", [17, 48])
def test_groups_of_copies_where_a_warp_is_not_full(threads):
    body = f"""
    mov.u32 %r1, tile; mad.lo.u32 %r2, %r0, 4, %r1;
    {element("%d2", "%d0", 4)}
    cp.async.ca.shared.global [%r2], [%d2], 4;
    cp.async.commit_group;
    cp.async.wait_group 0;
    bar.sync 0;
    xor.b32 %r3, %r0, 1; min.u32 %r3, %r3, {threads - 1}; mad.lo.u32 %r3, %r3, 4, %r1;
    ld.shared.u32 %r4, [%r3];
    {element("%d3", "%d1", 4)}
    st.global.u32 [%d3], %r4;
"""
    x = np.arange(100, 100 + threads, dtype=np.uint32)
    tile = ".shared .align 16 .b8 tile[1024];"
    found, _ = both(body, x, np.zeros(threads, np.uint32), block=threads, variables=tile)
    places = np.minimum(np.arange(threads) ^ 1, threads - 1)
    np.testing.assert_array_equal(found, x[places])

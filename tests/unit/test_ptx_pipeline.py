"""A kernel of one warp that copies and four that add, over three stages of shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_async import both
from wia_compiler.simulators.ptx import TensorMap, run

TEXT = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 m[128], .param .u64 out, .param .u32 tiles)
{
    .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<8>; .reg .f32 %f<8>;
    .shared .align 1024 .b8 tile[12288];
    .shared .align 8 .b8 full[24];
    .shared .align 8 .b8 empty[24];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, full;
    mov.u32 %r2, empty;
    mov.u32 %r3, tile;
    ld.param.u32 %r4, [tiles];
    mov.u32 %r20, %ctaid.x;
    setp.ne.u32 %p0, %r0, 0;
    @%p0 bra MEET;
    mbarrier.init.shared::cta.b64 [%r1], 1;
    mbarrier.init.shared::cta.b64 [%r1+8], 1;
    mbarrier.init.shared::cta.b64 [%r1+16], 1;
    mbarrier.init.shared::cta.b64 [%r2], 4;
    mbarrier.init.shared::cta.b64 [%r2+8], 4;
    mbarrier.init.shared::cta.b64 [%r2+16], 4;
    fence.mbarrier_init.release.cluster;
MEET:
    bar.sync 0;
    mov.u32 %r5, 0;
    mov.u32 %r6, 0;
    mov.u32 %r7, 0;
    shr.u32 %r8, %r0, 5;
    setp.ne.u32 %p1, %r8, 0;
    @%p1 bra CONSUMER;
    elect.sync %r9|%p2, 0xffffffff;
    @!%p2 bra END;
    mov.b64 %rd0, m;
    cvta.param.u64 %rd1, %rd0;
    xor.b32 %r7, %r7, 1;
PLOOP:
    setp.ge.u32 %p3, %r5, %r4;
    @%p3 bra END;
    shl.b32 %r10, %r6, 3;
    add.u32 %r11, %r2, %r10;
    add.u32 %r12, %r1, %r10;
PWAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r11], %r7;
    @!%p4 bra PWAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r12], 4096;
    shl.b32 %r13, %r6, 12;
    add.u32 %r13, %r13, %r3;
    shl.b32 %r14, %r5, 5;
    shl.b32 %r15, %r20, 5;
    cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes
        [%r13], [%rd1, {%r14, %r15}], [%r12];
    add.u32 %r5, %r5, 1;
    add.u32 %r6, %r6, 1;
    setp.eq.u32 %p5, %r6, 3;
    selp.u32 %r6, 0, %r6, %p5;
    selp.u32 %r16, 1, 0, %p5;
    xor.b32 %r7, %r7, %r16;
    bra PLOOP;
CONSUMER:
    sub.u32 %r17, %r0, 32;
    mov.f32 %f0, 0f00000000;
CLOOP:
    setp.ge.u32 %p3, %r5, %r4;
    @%p3 bra CEND;
    shl.b32 %r10, %r6, 3;
    add.u32 %r11, %r2, %r10;
    add.u32 %r12, %r1, %r10;
CWAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r12], %r7;
    @!%p4 bra CWAIT;
    shl.b32 %r13, %r6, 12;
    add.u32 %r13, %r13, %r3;
    shl.b32 %r18, %r17, 2;
    add.u32 %r13, %r13, %r18;
    mov.u32 %r21, 0;
ILOOP:
    ld.shared.f32 %f1, [%r13];
    ld.shared.f32 %f2, [%r13+512];
    ld.shared.f32 %f3, [%r13+1024];
    ld.shared.f32 %f4, [%r13+1536];
    add.f32 %f0, %f0, %f1;
    add.f32 %f0, %f0, %f2;
    add.f32 %f0, %f0, %f3;
    add.f32 %f0, %f0, %f4;
    add.u32 %r13, %r13, 2048;
    add.u32 %r21, %r21, 1;
    setp.lt.u32 %p7, %r21, 2;
    @%p7 bra ILOOP;
    bar.warp.sync 0xffffffff;
    and.b32 %r19, %r0, 31;
    setp.ne.u32 %p6, %r19, 0;
    @%p6 bra SKIP;
    mbarrier.arrive.shared::cta.b64 _, [%r11];
SKIP:
    add.u32 %r5, %r5, 1;
    add.u32 %r6, %r6, 1;
    setp.eq.u32 %p5, %r6, 3;
    selp.u32 %r6, 0, %r6, %p5;
    selp.u32 %r16, 1, 0, %p5;
    xor.b32 %r7, %r7, %r16;
    bra CLOOP;
CEND:
    ld.param.u64 %rd2, [out];
    mad.lo.u32 %r19, %r20, 128, %r17;
    mad.wide.u32 %rd3, %r19, 4, %rd2;
    st.global.f32 [%rd3], %f0;
END:
    ret;
}
"""
"""Each block adds up its 32 rows, a tile of 32 columns at a time, in 128 sums."""


def arguments(tiles: int, blocks: int) -> tuple[list[Any], np.ndarray[Any, Any]]:
    generator = np.random.default_rng(1)
    array = generator.integers(-5, 5, (32 * blocks, 32 * max(tiles, 1))).astype(np.float32)
    sums = array[:, : 32 * tiles].reshape(blocks, 8, 4, tiles, 32).sum(axis=(1, 3))
    arrays = [TensorMap(array, box=(32, 32)), np.ones((blocks, 128), np.float32), np.int32(tiles)]
    return arrays, sums.reshape(blocks, 128)


@pytest.mark.parametrize("tiles", [0, 1, 3, 17])
def test_stages_are_filled_and_given_back(tiles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    args, expected = arguments(tiles, 3)
    launch, (_, out, _) = both(TEXT, args, monkeypatch, grid=3, block=160)
    np.testing.assert_array_equal(out, expected)
    assert launch.totals.get("smsp__inst_executed_op_tma_ld.sum", 0) == 3 * tiles


def test_its_order_is_safe_and_a_missing_wait_is_not() -> None:
    args, _ = arguments(7, 2)
    assert run(TEXT, "k", 2, 160, args, debug=True).findings == ()
    loose = TEXT.replace("    @!%p4 bra PWAIT;\n", "")
    assert loose != TEXT
    found = run(loose.replace("[%r11], %r7;", "[%r11], 1;", 1), "k", 2, 160, args, debug=True)
    assert {each.kind for each in found.findings} & {"race", "cp.async"}

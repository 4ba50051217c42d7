"""Atomic operations on vectors and halves, folds of f32, matrices turned in registers, copies whose
source is ignored: on both engines, against numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ptx_texts import engine_alone
from wia_compiler.simulators.ptx import run

TEXT = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 sums, .param .u64 out, .param .u64 halves)
{
    .reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<32>; .reg .b64 %d<12>;
    .shared .align 16 .b8 tile[256];
    ld.param.u64 %d0, [x]; ld.param.u64 %d1, [sums]; ld.param.u64 %d2, [out];
    ld.param.u64 %d3, [halves];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d4, %r0, 4; add.u64 %d5, %d0, %d4; ld.global.b32 %r1, [%d5];
    mul.wide.u32 %d6, %r0, 32; add.u64 %d6, %d2, %d6;
    // f32: two and four at once, eight lanes to each place; what was there
    and.b32 %r2, %r0, 3; mul.wide.u32 %d7, %r2, 16; add.u64 %d7, %d1, %d7;
    mov.b32 %r3, 0f3F800000; mov.b32 %r4, 0f40000000;
    red.global.gpu.add.v2.f32 [%d7], {%r1, %r3};
    setp.lt.u32 %p0, %r0, 16;
    mov.b32 %r5, 0; mov.b32 %r6, 0; mov.b32 %r7, 0; mov.b32 %r8, 0;
    @%p0 atom.global.add.v4.f32 {%r5, %r6, %r7, %r8}, [%d7], {%r3, %r4, %r3, %r4};
    st.global.b32 [%d6], %r8;
    // halves
    mov.b32 %r9, 0x40003C00;
    red.global.add.noftz.f16x2 [%d3], %r9;
    atom.global.max.noftz.v2.bf16x2 {%r10, %r11}, [%d3+8], {%r1, %r1};
    // folds
    redux.sync.min.f32 %r12, %r1, 0xffffffff;
    redux.sync.max.abs.f32 %r13, %r1, 0xffffffff;
    redux.sync.max.NaN.f32 %r14, %r1, 0xffffffff;
    movmatrix.sync.aligned.m8n8.trans.b16 %r15, %r1;
    // copies of which every second is ignored
    and.b32 %r16, %r0, 1; setp.eq.u32 %p1, %r16, 1;
    mov.u32 %r17, tile; mad.lo.u32 %r18, %r0, 4, %r17;
    cp.async.ca.shared.global [%r18], [%d5], 4, %p1;
    mov.b64 %d9, 7;
    cp.async.ca.shared.global.L2::cache_hint [%r18+128], [%d5], 4, %d9;
    cp.async.wait_all;
    bar.sync 0;
    ld.shared.b32 %r19, [%r18]; ld.shared.b32 %r20, [%r18+128];
    st.global.v2.b32 [%d6+8], {%r12, %r13};
    st.global.v4.b32 [%d6+16], {%r14, %r15, %r19, %r20};
    ret;
}
"""


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_vectors_halves_and_folds(engine: Any) -> None:
    x = np.random.default_rng(2).standard_normal(32).astype(np.float32)
    x[3] = np.nan
    sums, out = np.zeros((4, 4), np.float32), np.zeros((32, 8), np.uint32)
    halves = np.zeros(16, np.uint16)
    with engine_alone(engine):
        run(TEXT, "k", 1, 32, [x, sums, out, halves], engine=engine)
    expected = np.zeros((4, 4), np.float32)
    fourth = np.zeros(32, np.float32)
    for lane in range(32):
        expected[lane % 4, :2] += np.float32([x[lane], 1])
    for lane in range(16):
        fourth[lane] = expected[lane % 4, 3]
        expected[lane % 4] += np.float32([1, 2, 1, 2])
    np.testing.assert_array_equal(sums, expected)
    np.testing.assert_array_equal(out[:, 0].view(np.float32), fourth)
    assert halves[:2].view(np.float16).tolist() == [32.0, 64.0]
    found = out.view(np.float32)
    assert (found[:, 2] == np.nanmin(x)).all()
    assert (found[:, 3] == np.nanmax(np.abs(x))).all()
    assert (out[:, 4] == 0x7FFFFFFF).all()
    turned = x.view(np.uint16).reshape(8, 8).T.reshape(-1).view(np.uint32)
    np.testing.assert_array_equal(out[:, 5], turned)
    words = x.view(np.uint32)
    np.testing.assert_array_equal(out[:, 6], np.where(np.arange(32) % 2, 0, words))
    np.testing.assert_array_equal(out[:, 7], words)


def test_both_engines_leave_the_same_largest_halves() -> None:
    x = np.random.default_rng(4).standard_normal(32).astype(np.float32)
    found: list[np.ndarray] = []
    for engine in ("numpy", "compiled"):
        halves = np.zeros(16, np.uint16)
        rest = [np.zeros((4, 4), np.float32), np.zeros((32, 8), np.uint32)]
        run(TEXT, "k", 1, 32, [x.copy(), *rest, halves], engine=engine)
        found.append(halves)
    np.testing.assert_array_equal(*found)
    top = (x.view(np.uint32) >> 16 << 16).view(np.float32).max()
    assert int(found[0][5]) << 16 == int(np.float32(top).view(np.uint32))

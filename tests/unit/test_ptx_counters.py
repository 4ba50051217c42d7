"""Counters of the PTX simulator against closed forms on access patterns made for them."""

from math import gcd

import numpy as np
import pytest
from ptx_texts import element, launch
from wia_compiler.simulators.ptx.counting import ideal_sectors, sectors, wavefronts

ALL = np.ones((1, 32), bool)
LANES = np.arange(32)[None, :]
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
SHARED = "l1tex__data_{}_mem_shared_op_{}.sum"


@pytest.mark.parametrize("stride", range(1, 34))
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_sectors_of_strided_accesses(stride, size):
    """Each lane's access lies in one sector; ``32 / step`` neighbours share it."""
    step = stride * size
    places = LANES * step
    assert sectors(places, ALL)[0] == len({int(place) // 32 for place in places[0]})
    assert sectors(places, ALL)[0] == (32 if step >= 32 else -(-(31 * step + size) // 32))
    assert ideal_sectors(ALL, size)[0] == size


def test_sectors_do_not_depend_on_order_or_idle_lanes():
    rng = np.random.default_rng(3)
    places = rng.permutation(32)[None, :] * 4
    assert sectors(places, ALL)[0] == 4
    some = LANES % 2 == 0
    assert sectors(LANES * 4, some)[0] == 4
    assert sectors(LANES * 4, LANES < 1)[0] == 1
    assert sectors(LANES * 4, LANES < 0)[0] == 0
    assert sectors(LANES * 0, ALL)[0] == 1


@pytest.mark.parametrize("stride", range(1, 34))
def test_bank_conflicts_of_strided_words(stride):
    """``gcd(stride, 32)`` lanes meet in one bank."""
    taken, least = wavefronts(LANES * 4 * stride, ALL, 4)
    assert (taken[0], least[0]) == (gcd(stride, 32), 1)


@pytest.mark.parametrize("stride", range(1, 34))
@pytest.mark.parametrize("size", [8, 16])
def test_bank_conflicts_of_wider_accesses(stride, size):
    """A phase of 16 or 8 lanes covers all banks once where nothing conflicts."""
    words = size // 4
    lanes = 32 // words
    taken, least = wavefronts(LANES * size * stride, ALL, size)
    phase = gcd(stride, lanes)
    assert (taken[0], least[0]) == (words * phase, words)


def test_lanes_that_read_one_word_share_it():
    assert wavefronts(LANES * 0, ALL, 4)[0][0] == 1
    assert wavefronts(LANES // 2 * 4, ALL, 4)[0][0] == 1
    assert wavefronts(LANES, ALL, 1)[0][0] == 1
    assert wavefronts(LANES * 128, LANES < 5, 4)[0][0] == 5
    assert wavefronts(LANES * 4, LANES < 0, 4)[0][0] == 0


@pytest.mark.parametrize("pad", [0, 1])
def test_a_transpose_through_shared_memory(pad):
    """Columns of a 32 × 32 tile: 32 conflicts a warp, none with a row of padding."""
    row = (32 + pad) * 4
    body = f"""
        and.b32 %r1, %r0, 31; shr.u32 %r2, %r0, 5; mov.u32 %r3, tile;
        mad.lo.u32 %r4, %r1, {row}, %r3; shl.b32 %r5, %r2, 2; add.u32 %r4, %r4, %r5;
        st.shared.u32 [%r4], %r0; bar.sync 0;
        mad.lo.u32 %r6, %r2, {row}, %r3; shl.b32 %r7, %r1, 2; add.u32 %r6, %r6, %r7;
        ld.shared.u32 %r8, [%r6]; {element("%d2", "%d0", 4)} st.global.u32 [%d2], %r8;
    """
    x = np.zeros(1024, np.uint32)
    done = launch(body, x, block=1024, variables=".shared .align 4 .b8 tile[4224];")
    np.testing.assert_array_equal(x.reshape(32, 32), np.arange(1024).reshape(32, 32).T)
    counters = done.counters
    conflicts = 0 if pad else 31 * 32
    assert counters[SHARED.format("bank_conflicts_pipe_lsu", "st")] == conflicts
    assert counters[SHARED.format("bank_conflicts_pipe_lsu", "ld")] == 0
    assert counters[SHARED.format("pipe_lsu_wavefronts", "st")] == 32 + conflicts
    assert counters["shared_memory_bank_conflicts"] == conflicts


@pytest.mark.parametrize("stride", [1, 2, 8, 32])
def test_requests_and_sectors_of_a_launch(stride):
    body = f"""
        mul.lo.u32 %r1, %r0, {stride}; {element("%d2", "%d0", 4, "%r1")}
        ld.global.u32 %r2, [%d2]; add.u32 %r2, %r2, 1; st.global.u32 [%d2], %r2;
    """
    x = np.zeros(96 * stride, np.uint32)
    done = launch(body, x, block=96)
    sectors_each = min(32, 4 * stride)
    for name in ("ld", "st"):
        assert done.counters[GLOBAL.format("requests", name)] == 3
        assert done.counters[GLOBAL.format("sectors", name)] == 3 * sectors_each
        ratio = f"l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_{name}.ratio"
        assert done.counters[ratio] == sectors_each
    excess = done.counters["derived__memory_l2_theoretical_sectors_global_excessive"]
    assert excess == 2 * 3 * (sectors_each - 4)


def test_instructions_of_warps_threads_and_predicates():
    body = (
        "setp.lt.u32 %p1, %r0, 5; @%p1 add.f32 %f1, %f1, %f1; @!%p1 fma.rn.f32 %f1, %f1, %f1, %f1;"
    )
    done = launch(body, np.zeros(1), block=40)
    counters = done.counters
    # ld.param, mov, setp, add, fma, ret
    assert counters["ptx_inst_executed"] == 6 * 2
    assert counters["ptx_thread_inst_executed"] == 6 * 40
    assert counters["ptx_thread_inst_executed_pred_on"] == 4 * 40 + 5 + 35
    assert counters["flops"] == counters["flops_f32"] == 5 + 2 * 35
    assert counters["ptx_branch_efficiency_pct"] == 100


def test_two_launches_add_up():
    body = f"{element('%d2', '%d0', 4)} ld.global.u32 %r1, [%d2];"
    x = np.zeros(64, np.uint32)
    first = launch(body, x, block=32)
    both = first + launch(body, x, block=64)
    assert both.counters["ptx_inst_executed"] == 3 * first.counters["ptx_inst_executed"]
    (line,) = [row for row in both.lines.values() if row.text.startswith("ld.global")]
    assert line.traffic["global"].requests == 3 and line.warps == 3
    ratio = "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"
    assert both.counters[ratio] == 4

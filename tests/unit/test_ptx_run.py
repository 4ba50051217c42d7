"""Threads on the PTX simulator: divergence, barriers, exchange, memory, faults."""

import numpy as np
import pytest
from ptx_texts import HEAD, element, entry, launch
from wia_compiler.base.errors import ArgumentError, CompileError
from wia_compiler.simulators.ptx import PtxFault, run

OWN = element("%d3", "%d1", 4)


def test_special_registers_of_every_thread():
    body = """
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x;
        mad.lo.u32 %r4, %r2, %r3, %r1;
        mov.u32 %r5, %tid.y; mov.u32 %r6, %ntid.x; mad.lo.u32 %r7, %r5, %r6, %r0;
        mov.u32 %r8, %ntid.y; mul.lo.u32 %r9, %r6, %r8; mad.lo.u32 %r10, %r4, %r9, %r7;
        mul.wide.u32 %d2, %r10, 4; add.s64 %d2, %d0, %d2; st.global.u32 [%d2], %r10;
    """
    x = np.zeros(3 * 2 * 35, np.uint32)
    run(entry(body, ".param .u64 x"), "k", (3, 2), (7, 5), [x])
    np.testing.assert_array_equal(x, np.arange(len(x)))


def test_threads_of_a_warp_part_and_meet_again():
    body = f"""
        and.b32 %r1, %r0, 1; setp.eq.u32 %p1, %r1, 0; @%p1 bra EVEN;
        mul.lo.u32 %r2, %r0, 10; bra DONE;
        EVEN: add.u32 %r2, %r0, 1000;
        DONE: {OWN} st.global.u32 [%d3], %r2;
    """
    y = np.zeros(32, np.uint32)
    done = launch(body, y, y)
    lanes = np.arange(32)
    np.testing.assert_array_equal(y, np.where(lanes % 2, lanes * 10, lanes + 1000))
    assert done.counters["ptx_branches_divergent"] == 1
    stores = next(row for row in done.lines.values() if row.text == "st.global.u32")
    assert (stores.warps, stores.threads) == (1, 32), "both sides store together again"


COUNT_DOWN = f"""
    mov.u32 %r1, %r0; mov.u32 %r2, 0;
    LOOP: setp.eq.u32 %p1, %r1, 0; @%p1 bra OUT;
    sub.u32 %r1, %r1, 1;
    add.u32 %r2, %r2, 3; bra LOOP;
    OUT: {OWN} st.global.u32 [%d3], %r2;
"""


def test_loops_that_threads_leave_at_different_turns():
    y = np.zeros(32, np.uint32)
    done = launch(COUNT_DOWN, y, y)
    np.testing.assert_array_equal(y, np.arange(32) * 3)
    stores = next(row for row in done.lines.values() if row.text == "st.global.u32")
    assert stores.warps == 1
    bodies = next(row for row in done.lines.values() if row.text == "sub.u32")
    assert (bodies.warps, bodies.threads) == (31, sum(range(32)))


def test_exit_of_some_threads():
    body = f"setp.gt.u32 %p1, %r0, 9; @%p1 exit; {OWN} st.global.u32 [%d3], 7;"
    y = np.zeros(32, np.uint32)
    launch(body, y, y)
    np.testing.assert_array_equal(y, [7] * 10 + [0] * 22)


@pytest.mark.parametrize("block", [1, 31, 32, 33, 127, 1024])
def test_a_barrier_lets_threads_read_what_others_wrote(block):
    body = f"""
        shl.b32 %r1, %r0, 2; mov.u32 %r2, buffer; add.u32 %r3, %r2, %r1;
        mul.lo.u32 %r4, %r0, %r0; st.shared.u32 [%r3], %r4; bar.sync 0;
        sub.u32 %r5, {block - 1}, %r0; shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5;
        ld.shared.u32 %r6, [%r5]; {OWN} st.global.u32 [%d3], %r6;
    """
    y = np.zeros(block, np.uint32)
    launch(body, y, y, block=block, variables=".shared .align 4 .b8 buffer[4096];")
    np.testing.assert_array_equal(y, np.arange(block)[::-1] ** 2)


def test_a_barrier_that_not_all_come_to():
    body = "setp.eq.u32 %p1, %r0, 0; @%p1 bra A; bar.sync 0; bra B; A: bar.sync 1; B:"
    with pytest.raises(PtxFault, match=r"deadlock: thread \(0, 0, 0\) of block \(0, 0, 0\) waits"):
        launch(body, np.zeros(1, "u4"))


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_threads_go_on_after_a_barrier_of_their_warp(engine):
    y = np.zeros(64, np.uint32)
    body = f"bar.warp.sync 0xffffffff; {OWN} st.global.u32 [%d3], 7;"
    launch(body, y, y, block=64, engine=engine)
    np.testing.assert_array_equal(y, 7)


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_shared_memory_of_an_odd_size_is_each_block_s_own(engine):
    body = f"""
        mov.u32 %r0, %ctaid.x; add.u32 %r2, %r0, 5; st.shared.u32 [s], %r2;
        st.shared.u16 [s+4], %h1; ld.shared.u32 %r3, [s]; {OWN} st.global.u32 [%d3], %r3;
    """
    y = np.zeros(3, np.uint32)
    launch(body, y, y, block=1, grid=3, variables=".shared .align 4 .b8 s[6];", engine=engine)
    np.testing.assert_array_equal(y, [5, 6, 7])
    with pytest.raises(PtxFault, match="a block has 6 bytes of shared memory"):
        launch("ld.shared.u16 %h1, [s+6];", y, variables=".shared .align 4 .b8 s[6];")


def test_exited_threads_are_not_waited_for():
    body = f"setp.gt.u32 %p1, %r0, 40; @%p1 exit; bar.sync 0; {OWN} st.global.u32 [%d3], 1;"
    y = np.zeros(64, np.uint32)
    launch(body, y, y, block=64)
    assert y.sum() == 41


@pytest.mark.parametrize(
    "mode,operands,source",
    [
        ("bfly", "1, 31", lambda lane: lane ^ 1),
        ("bfly", "16, 31", lambda lane: lane ^ 16),
        ("up", "3, 0", lambda lane: lane - 3 if lane >= 3 else lane),
        ("down", "3, 31", lambda lane: lane + 3 if lane + 3 < 32 else lane),
        ("idx", "5, 31", lambda lane: 5),
        ("down", "1, 0x181f", lambda lane: lane + 1 if lane % 8 != 7 else lane),
        ("idx", "2, 0x181f", lambda lane: lane - lane % 8 + 2),
        ("up", "1, 0x1800", lambda lane: lane - 1 if lane % 8 else lane),
    ],
)
def test_shuffles(mode, operands, source):
    body = f"""
        mul.lo.u32 %r1, %r0, 7; shfl.sync.{mode}.b32 %r2|%p1, %r1, {operands}, -1;
        selp.u32 %r3, 1000, 0, %p1; add.u32 %r2, %r2, %r3; {OWN} st.global.u32 [%d3], %r2;
    """
    y = np.zeros(32, np.uint32)
    launch(body, y, y)
    for lane in range(32):
        assert y[lane] % 1000 == source(lane) * 7
        moved = source(lane) != lane or mode == "idx"
        assert (y[lane] >= 1000) == moved


def test_a_shuffle_from_a_lane_that_takes_no_part():
    body = "setp.gt.u32 %p1, %r0, 15; @%p1 exit; shfl.sync.bfly.b32 %r2, %r0, 16, 31, 0xffff;"
    with pytest.raises(PtxFault, match=r"reads lane 16, which takes no part"):
        launch(body, np.zeros(1, "u4"))


def test_lanes_wait_for_those_that_their_mask_names():
    """The two sides of the branch arrive one after the other; the vote has all of them."""
    body = f"""
        setp.lt.u32 %p1, %r0, 7; @%p1 bra A; add.u32 %r1, %r0, 1; bra B;
        A: mov.u32 %r1, 0; B: setp.eq.u32 %p2, %r1, 0; vote.sync.ballot.b32 %r2, %p2, -1;
        {OWN} st.global.u32 [%d3], %r2;
    """
    y = np.zeros(32, np.uint32)
    launch(body, y, y)
    assert {*y} == {0x7F}


def test_votes_matches_and_folds():
    body = f"""
        shr.u32 %r1, %r0, 3; setp.eq.u32 %p1, %r1, 2;
        vote.sync.any.pred %p2, %p1, -1; vote.sync.all.pred %p3, %p1, -1;
        match.any.sync.b32 %r2, %r1, -1; redux.sync.add.u32 %r3, %r0, -1;
        redux.sync.min.s32 %r4, %r0, -1; activemask.b32 %r5;
        selp.u32 %r6, 1, 0, %p2; selp.u32 %r7, 2, 0, %p3; add.u32 %r6, %r6, %r7;
        xor.b32 %r8, %r2, %r3; add.u32 %r8, %r8, %r6; add.u32 %r8, %r8, %r4;
        {OWN} st.global.u32 [%d3], %r8;
    """
    y = np.zeros(32, np.uint32)
    launch(body, y, y)
    lanes = np.arange(32)
    masks = np.uint32(0xFF) << (lanes // 8 * 8).astype(np.uint32)
    np.testing.assert_array_equal(y, (masks ^ np.uint32(496)) + np.uint32(1))


ATOMICS = {
    "add.u32": lambda old, value: old + value,
    "min.u32": min,
    "max.u32": max,
    "and.b32": lambda old, value: old & value,
    "or.b32": lambda old, value: old | value,
    "xor.b32": lambda old, value: old ^ value,
    "exch.b32": lambda old, value: value,
    "inc.u32": lambda old, value: 0 if old >= value else old + 1,
    "dec.u32": lambda old, value: value if old == 0 or old > value else old - 1,
}


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("operation", ATOMICS)
def test_atomic_operations_one_after_the_other(operation, space):
    """Lanes modulo 3 share an element; each gets what was there before its turn."""
    place = {
        "global": "mul.wide.u32 %d2, %r1, 4; add.s64 %d2, %d0, %d2;",
        "shared": "shl.b32 %r3, %r1, 2; mov.u32 %r2, buffer; add.u32 %r3, %r3, %r2;",
    }[space]
    address = "%d2" if space == "global" else "%r3"
    start = f"st.{space}.u32 [{address}], 5; bar.sync 0;"
    body = f"""
        rem.u32 %r1, %r0, 3; {place} {start}
        add.u32 %r4, %r0, 2; atom.{space}.{operation} %r5, [{address}], %r4;
        {OWN} st.global.u32 [%d3], %r5;
    """
    x, y = np.zeros(3, np.uint32), np.zeros(32, np.uint32)
    launch(body, x, y, variables=".shared .align 4 .b8 buffer[16];")
    held = [5, 5, 5]
    for lane in range(32):
        assert y[lane] == held[lane % 3]
        held[lane % 3] = ATOMICS[operation](held[lane % 3], lane + 2)


def test_compare_and_swap():
    """Lane 0 puts its 0 there, lane 1 its 1, then nobody finds 0 any more."""
    body = f"atom.global.cas.b32 %r5, [%d0], 0, %r0; {OWN} st.global.u32 [%d3], %r5;"
    x, y = np.zeros(1, np.uint32), np.zeros(32, np.uint32)
    launch(body, x, y)
    assert x[0] == 1 and not y[:2].any() and (y[2:] == 1).all()


def test_local_arrays_and_generic_addresses():
    body = f"""
        cvta.local.u64 %d4, buffer; and.b32 %r1, %r0, 3; mul.wide.u32 %d5, %r1, 4;
        add.s64 %d6, %d4, %d5; st.u32 [%d6], %r0; ld.local.u32 %r2, [buffer+4];
        ld.u32 %r3, [%d6]; add.u32 %r3, %r3, %r2; {OWN} st.u32 [%d3], %r3;
    """.replace("cvta.local.u64 %d4, buffer", "mov.u64 %d4, buffer; cvta.local.u64 %d4, %d4")
    y = np.zeros(32, np.uint32)
    launch(body, y, y, variables=".local .align 4 .b8 buffer[16];")
    lanes = np.arange(32)
    np.testing.assert_array_equal(y, lanes + np.where(lanes % 4 == 1, lanes, 0))


def test_vectors_parts_of_registers_and_constants():
    text = (
        HEAD
        + ".const .align 4 .b32 table[4] = {10, 20, 30, 40};\n"
        + entry(
            """
            ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0]; ld.const.u32 %r5, [table+8];
            mov.b64 %d2, {%r1, %r2}; mov.b64 {%r6, %r7}, %d2; mov.b32 {%h1, %h2}, %r3;
            cvt.u32.u16 %r8, %h2; add.u32 %r8, %r8, %r5; add.u32 %r8, %r8, %r7;
            st.global.v2.u32 [%d1], {%r8, %r6};
            """
        ).removeprefix(HEAD)
    )
    x, y = np.array([1, 2, 3 << 16, 4], np.uint32), np.zeros(2, np.uint32)
    run(text, "k", 1, 1, [x, y])
    np.testing.assert_array_equal(y, [3 + 30 + 2, 1])


def test_arrays_share_memory_as_they_do_here():
    """A view is the same memory; strides are those of the memory, whatever the array's order."""
    whole = np.arange(40, dtype=np.uint32)
    body = f"{element('%d2', '%d0', 4)} ld.global.u32 %r1, [%d2]; {OWN} st.global.u32 [%d3], %r1;"
    launch(body, whole, whole[20:], block=20)
    np.testing.assert_array_equal(whole, [*range(20), *range(20)])
    x, backwards = np.arange(8, dtype=np.uint32), np.zeros(8, np.uint32)[::-1]
    downwards = "mul.wide.u32 %d3, %r0, 4; sub.s64 %d3, %d1, %d3;"
    body = f"{element('%d2', '%d0', 4)} ld.global.u32 %r1, [%d2]; {downwards} st.u32 [%d3], %r1;"
    launch(body, x, backwards, block=8)
    np.testing.assert_array_equal(backwards, x)


LOAD = "ld.global.{type} %r1, [%d0+{offset}];"


@pytest.mark.parametrize(
    "type,offset,message",
    [
        ("u32", 400, r"0x300000190 is out of range for 4 bytes, in thread \(0, 0, 0\)"),
        ("u32", -4, r"is out of range for 4 bytes"),
        ("u32", 2, r"is not aligned to 4 bytes"),
        ("u8", 400, r"is out of range for 1 bytes"),
    ],
)
def test_accesses_outside_of_arrays(type, offset, message):
    x = np.zeros(100, np.uint32)
    with pytest.raises(PtxFault, match=message) as caught:
        launch(LOAD.format(type=type, offset=offset), x)
    assert "the nearest buffer is x: 400 bytes" in str(caught.value) or "aligned" in message
    launch(LOAD.format(type="u32", offset=396), x)


def test_a_vector_load_may_end_beyond_an_array_in_its_own_16_bytes():
    x, y = np.arange(3, dtype=np.uint32), np.zeros(4, np.uint32)
    body = "ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0]; st.global.v2.u32 [%d1], {%r3, %r2};"
    launch(body, x, y, block=1)
    np.testing.assert_array_equal(y[:2], [2, 1])
    with pytest.raises(PtxFault, match="out of range for 16 bytes"):
        launch("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d0+16];", x)
    with pytest.raises(PtxFault, match="out of range for 16 bytes"):
        launch("st.global.v4.u32 [%d0], {%r1, %r2, %r3, %r4};", x)


def test_registers_without_a_percent_sign():
    body = "{ .reg .b16 tmp; mov.b32 {%h1, tmp}, 0x30002; cvt.u32.u16 %r1, tmp; }"
    y = np.zeros(1, np.uint32)
    launch(f"{body} st.global.u32 [%d0], %r1;", y, block=1)
    assert y[0] == 3


def test_what_is_read_only_stays_so():
    x = np.zeros(4, np.uint32)
    x.flags.writeable = False
    launch("ld.global.u32 %r1, [%d0];", x)
    with pytest.raises(ArgumentError, match="k writes to it, but it is read-only"):
        launch("st.global.u32 [%d0], 1;", x)
    assert not x.any()


def test_a_kernel_that_never_ends():
    with pytest.raises(PtxFault, match="more instructions than its budget allows"):
        launch("LOOP: bra LOOP;", np.zeros(1), budget=10_000)


def test_traps_say_who():
    with pytest.raises(PtxFault, match=r"trap, executed by thread \(3, 0, 0\)"):
        launch("setp.eq.u32 %p1, %r0, 3; @%p1 trap;", np.zeros(1))


SCALARS = (
    HEAD
    + """.visible .entry k(.param .u64 y, .param .f32 a, .param .s32 n, .param .u8 c)
{ .reg .b64 %d<3>; .reg .f32 %f<2>; .reg .b32 %r<3>; .reg .b16 %h<2>;
  ld.param.u64 %d0, [y]; ld.param.f32 %f0, [a]; ld.param.s32 %r0, [n]; ld.param.u8 %h0, [c];
  st.global.f32 [%d0], %f0; st.global.u32 [%d0+4], %r0; cvt.u32.u16 %r1, %h0;
  st.global.u32 [%d0+8], %r1; ret; }"""
)


def test_numbers_are_passed_by_value():
    for a, n, c in ((1.5, -3, 200), (np.float32(1.5), np.int32(-3), np.uint8(200))):
        y = np.zeros(3, np.int32)
        run(SCALARS, "k", 1, 1, [y, a, n, c])
        assert (y[:1].view(np.float32)[0], y[1], y[2]) == (1.5, -3, 200)


@pytest.mark.parametrize(
    "args,message",
    [
        ([np.zeros(3)], "args: got 1, k takes 4: y: u64, a: f32, n: s32, c: u8"),
        ([np.zeros(3), np.float64(1), 1, 1], "a: got 8 bytes .float64., expected 4"),
        ([np.zeros(3), 1.0, 2.5, 1], "n: got 2.5, expected a whole number"),
        ([np.zeros(3), 1.0, 1, 300], "c: 300 does not fit u8"),
        ([np.zeros(3), np.zeros(3), 1, 1], "a: got an array, expected a f32 by value"),
        ([np.zeros(3), "one", 1, 1], "a: got a str, expected an array"),
    ],
)
def test_arguments_that_do_not_fit(args, message):
    with pytest.raises(ArgumentError, match=message):
        run(SCALARS, "k", 1, 1, args)


@pytest.mark.parametrize(
    "grid,block,options,message",
    [
        (1, 1025, {}, "size 1025 along x, expected 1 to 1024"),
        (1, (64, 32), {}, "2048 threads, expected at most 1024"),
        (0, 1, {}, "grid: size 0 along x"),
        (1, (1, 1, 65), {}, "size 65 along z, expected 1 to 64"),
        (1, (1, 1, 1, 1), {}, "block: got 4 sizes"),
        (1, 1, {"shared_bytes": 300_000}, "a block asks for 300000 bytes of shared memory"),
    ],
)
def test_launches_that_the_machine_cannot_do(grid, block, options, message):
    with pytest.raises(ArgumentError, match=message):
        run(entry("", ".param .u64 x"), "k", grid, block, [np.zeros(1)], **options)


def test_entries_by_name():
    with pytest.raises(ArgumentError, match="no entry 'other' in the PTX, expected one of: k"):
        run(SCALARS, "other", 1, 1, [])


@pytest.mark.parametrize(
    "text,line,message",
    [
        ("", 1, "the text has no .version line"),
        (HEAD + ".visible .entry k()\n{ mov.u32 %r0 %r1; }", 5, "expected ';', found '%r1'"),
        (HEAD + ".visible .entry k()\n{ bra NOWHERE; }", 5, "no label 'NOWHERE' in k"),
        (HEAD + ".visible .entry k()\n{ A: A: ret; }", 5, "label 'A' stands twice"),
        (HEAD + ".visible .entry k()\n{ ret;", 5, "the text ends inside of an entry"),
        (HEAD + "?", 4, "unexpected character '?'"),
        (HEAD + ".entry k() { .reg .b31 %r; }", 4, "registers of type .b31 are not simulated"),
    ],
)
def test_texts_that_are_no_ptx(text, line, message):
    with pytest.raises(CompileError) as caught:
        run(text, "k", 1, 1, [])
    (diagnostic,) = caught.value.diagnostics
    assert message in diagnostic.message
    assert diagnostic.span is not None and diagnostic.span.line == line


def test_registers_of_a_block_hide_those_around_it() -> None:
    text = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .b32 %r<4>; .reg .b64 %p;
  ld.param.u64 %p, [out];
  mov.u32 %r1, 1;
  { .reg .b64 %r1; .reg .b32 %x; mov.u64 %r1, 4294967299; cvt.u32.u64 %x, %r1; mov.u32 %r2, %x;
    { .reg .b16 %r1; mov.u16 %r1, 9; cvt.u32.u16 %r3, %r1; } }
  st.global.u32 [%p], %r1; st.global.u32 [%p+4], %r2; st.global.u32 [%p+8], %r3;
  ret;
}
"""
    out = np.zeros(3, np.uint32)
    run(text, "k", 1, 1, [out])
    np.testing.assert_array_equal(out, [1, 3, 9])

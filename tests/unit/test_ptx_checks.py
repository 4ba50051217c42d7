"""``debug=True`` of the PTX simulator: what goes wrong without an error is found, and no more."""

from pathlib import Path

import numpy as np
import pytest
from ptx_texts import HEAD, element, entry, launch
from wia_compiler.base.errors import ArgumentError
from wia_compiler.simulators.ptx import PtxFault, run

SHARED = ".shared .align 16 .b8 tile[4096];"
CUDA = (Path(__file__).parents[1] / "data" / "cuda" / "kernels.ptx").read_text("utf-8")
OWN = """
    shl.b32 %r1, %r0, 2; mov.u32 %r2, tile; add.u32 %r3, %r2, %r1;
    xor.b32 %r4, %r0, 33; shl.b32 %r4, %r4, 2; add.u32 %r4, %r2, %r4;
    xor.b32 %r5, %r0, 1; shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5;
"""
"""The place of a thread in %r3, that of one of the other warp in %r4, of its own in %r5."""
PUT = element("%d3", "%d1", 4) + "st.global.u32 [%d3], %r6;"
COPY = (
    OWN
    + element("%d4", "%d0", 4)
    + "\ncp.async.ca.shared.global [%r3], [%d4], 4; cp.async.commit_group;\n"
)


def found(body, *args, grid=1, block=64, **options):
    """The findings of a body on x and y, after a look at whether memory is as without checks."""
    given = args or (np.arange(block, dtype=np.uint32), np.zeros(block, np.uint32))
    plain = [each.copy() for each in given]
    done = launch(
        body, *given, grid=grid, block=block, variables=SHARED, debug=True, **options
    ).findings
    launch(body, *plain, grid=grid, block=block, variables=SHARED, engine="numpy")
    for one, other in zip(given, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    return done


def only(*args, **options):
    """The one finding."""
    (finding,) = found(*args, **options)
    return finding


def test_a_read_of_shared_memory_that_nothing_wrote():
    finding = only(f"{OWN}\nld.shared.u32 %r6, [%r3+256];\n{PUT}")
    assert finding.kind == "uninitialised"
    assert str(finding) == (
        "error: thread (0, 0, 0) of block (0, 0, 0) reads shared address 0x100, which nothing "
        "wrote\n"
        "  --> <ptx>:21:1\n"
        "  21 | ld.shared.u32 %r6, [%r3+256];\n"
        "     | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "  help: shared memory begins with any content: write it before it is read"
    )


def test_an_update_of_shared_memory_that_nothing_wrote():
    assert only(f"{OWN} red.shared.add.u32 [tile], 1;").kind == "uninitialised"


def test_a_byte_of_a_word_that_nothing_wrote():
    first = f"{OWN} st.shared.u16 [%r3], %r0; "
    assert found(first + "ld.shared.u16 %r6, [%r3];".replace("%r6", "%h1")) == ()
    assert only(first + "ld.shared.u32 %r6, [%r3];").kind == "uninitialised"


def test_a_read_of_local_memory_that_nothing_wrote():
    body = "st.local.u32 [own], %r0; ld.local.u32 %r6, [own];\nld.local.u32 %r6, [own+4];"
    y = np.zeros(40, np.uint32)
    done = launch(body, y, block=40, variables=".local .align 4 .b8 own[8];", debug=True)
    (finding,) = done.findings
    assert finding.message == (
        "thread (0, 0, 0) of block (0, 0, 0) reads local address 0x4, which nothing wrote"
    )


def test_device_memory_that_nothing_wrote_is_told_from_launch_to_launch():
    body = f"{element('%d2', '%d0', 4)} ld.global.u32 %r6, [%d2];\n{PUT}"
    x, y, z = (np.zeros(32, np.uint32) for _ in range(3))
    half = np.repeat([True, False], 64)
    (finding,) = launch(body, x, y, debug=True, written={0: half}).findings
    assert "thread (16, 0, 0)" in finding.message
    assert "reads byte 64 of x (global address 0x3" in finding.message
    assert finding.message.endswith("which nothing wrote")
    known = np.zeros(128, bool)
    assert launch(body, x, y, debug=True, written={1: known}).findings == ()
    assert known.all()
    assert launch(body, y, z, debug=True, written={0: known}).findings == ()


@pytest.mark.parametrize("written", [{5: np.ones(4, bool)}, {0: np.ones(3, bool)}])
def test_what_is_written_must_fit_the_arguments(written):
    with pytest.raises(ArgumentError, match="written: argument"):
        launch("", np.zeros(4, np.uint32), debug=True, written=written)


def test_a_read_beside_a_write_without_a_barrier():
    finding = only(f"{OWN}\nst.shared.u32 [%r3], %r0;\nld.shared.u32 %r6, [%r4];\n{PUT}")
    assert (finding.kind, finding.span.line) == ("race", 22)
    assert finding.message == (
        "race in shared memory: thread (0, 0, 0) of block (0, 0, 0) reads shared address 0x84, "
        "which thread (33, 0, 0) writes in line 21, with no barrier in between"
    )
    assert finding.hint.startswith("put bar.sync 0 (or bar.warp.sync within a warp) in between")


def test_a_write_beside_a_read_without_a_barrier():
    start = f"{OWN} st.shared.u32 [%r3], %r0; bar.sync 0; ld.shared.u32 %r6, [%r4]; "
    assert (
        "writes shared address 0x0, which thread (33"
        in only(start + "st.shared.u32 [%r3], %r6;").message
    )
    assert found(start + "bar.sync 0; st.shared.u32 [%r3], %r6;") == ()


def test_a_reader_is_not_forgotten_for_those_after_it():
    """Thread 0 writes what all read; the last that read is itself."""
    body = f"""{OWN} setp.eq.u32 %p1, %r0, 0; setp.eq.u32 %p2, %r0, 40;
        @%p1 st.shared.u32 [tile], 7; bar.sync 0;
        @%p2 ld.shared.u32 %r6, [tile]; @%p1 ld.shared.u32 %r6, [tile];
        @%p1 st.shared.u32 [tile], 8;"""
    assert "which thread (40, 0, 0) reads" in only(body).message


def test_threads_that_write_one_place_at_once():
    assert (
        "thread (0, 0, 0) of block (0, 0, 0) writes shared address 0x0, which thread (63"
        in only("st.shared.u32 [tile], %r0;").message
    )


def test_lanes_of_a_warp_need_a_barrier_of_the_warp():
    pass_on = f"{OWN} st.shared.u32 [%r3], %r0; {{}} ld.shared.u32 %r6, [%r5]; {PUT}"
    assert only(pass_on.format("")).kind == "race"
    assert only(pass_on.format("shfl.sync.bfly.b32 %r7, %r0, 1, 31, -1;")).kind == "race"
    assert found(pass_on.format("bar.warp.sync 0xffffffff;")) == ()
    halves = "and.b32 %r7, %r0, 16; mov.u32 %r8, 0xffff; shl.b32 %r8, %r8, %r7; "
    assert found(pass_on.format(halves + "bar.warp.sync %r8;")) == ()
    across = pass_on.replace("[%r5]", "[%r4]")
    assert only(across.format("bar.warp.sync 0xffffffff;")).kind == "race"


def test_atomic_and_plain_accesses_of_shared_memory():
    zero = "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [tile], 0; bar.sync 0;"
    count = f"{zero} red.shared.add.u32 [tile], 1; {{}} ld.shared.u32 %r6, [tile]; {PUT}"
    assert found(count.format("bar.sync 0;")) == ()
    finding = only(count.format(""))
    assert "reads shared address 0x0, which thread" in finding.message
    assert "updates in line" in finding.message


@pytest.mark.parametrize(
    "body,told",
    [
        ("st.global.u32 [%d1], %r0;", True),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%d1], %r0;", True),
        ("setp.eq.u32 %p1, %r0, 0; @%p1 st.volatile.global.u32 [%d1], %r0;", False),
        ("red.global.add.u32 [%d1], 1;", False),
        ("ld.global.u32 %r6, [%d1]; atom.global.exch.b32 %r7, [%d1], %r6;", True),
        ("ld.global.u32 %r6, [%d1];", False),
    ],
)
def test_blocks_that_meet_in_global_memory(body, told):
    findings = found(body, grid=3)
    assert {each.kind for each in findings} == ({"race"} if told else set())
    if told:
        assert "and blocks run in any order" in findings[0].message
        assert " of y (global address 0x3" in findings[0].message


LAST = """
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %d4, %r1, 4; add.s64 %d4, %d0, %d4;
    setp.eq.u32 %p1, %r0, 0; @%p1 st.global.u32 [%d4+4], %r1;
    FENCE; bar.sync 0; @%p1 atom.global.add.u32 %r2, [%d0], 1; @%p1 st.shared.u32 [tile], %r2;
    bar.sync 0; ld.shared.u32 %r2, [tile]; setp.ne.u32 %p2, %r2, 2; @%p2 exit;
    setp.gt.u32 %p3, %r0, 2; @%p3 exit;
    mul.wide.u32 %d5, %r0, 4; add.s64 %d5, %d0, %d5; ld.global.u32 %r6, [%d5+4];
    add.s64 %d3, %d1, %d5; sub.s64 %d3, %d3, %d0; st.global.u32 [%d3], %r6;
"""


def test_the_last_block_may_read_what_the_others_published():
    x, y = np.zeros(4, np.uint32), np.zeros(3, np.uint32)
    assert found(LAST.replace("FENCE", "membar.gl"), x, y, grid=3, block=64) == ()
    np.testing.assert_array_equal(y, [0, 1, 2])
    x[0] = 0
    assert "reads byte 4 of x" in only(LAST.replace("FENCE;", ""), x, y, grid=3, block=64).message


@pytest.mark.parametrize(
    "between,message",
    [
        (
            "bar.sync 0;",
            "thread (0, 0, 0) of block (0, 0, 0) reads shared address 0x84, to which the cp.async "
            "of thread (33, 0, 0) in line 23 is on its way",
        ),
        (
            "cp.async.wait_group 0;",
            "thread (0, 0, 0) of block (0, 0, 0) reads shared address 0x84; the cp.async of "
            "thread (33, 0, 0) in line 23 was waited for, but only by that thread",
        ),
        ("cp.async.wait_all; bar.sync 0;", None),
    ],
)
def test_copies_must_be_waited_for_by_all(between, message):
    findings = found(f"{COPY}{between} ld.shared.u32 %r6, [%r4]; {PUT}")
    assert [each.message for each in findings] == ([message] if message else [])
    assert all(each.kind == "cp.async" for each in findings)


PIPELINE = f"""{OWN} {element("%d4", "%d0", 4)} mov.u32 %r6, 0; mov.u32 %r7, 0;
    cp.async.ca.shared.global [%r3], [%d4], 4; cp.async.commit_group;
    LOOP: add.u32 %r8, %r7, 1; and.b32 %r9, %r8, 1; shl.b32 %r9, %r9, 8; add.u32 %r10, %r3, %r9;
    setp.lt.u32 %p1, %r8, 5; mul.wide.u32 %d5, %r8, 256; add.s64 %d5, %d4, %d5;
    @%p1 cp.async.ca.shared.global [%r10], [%d5], 4; cp.async.commit_group;
    cp.async.wait_group LEFT; bar.sync 0;
    and.b32 %r11, %r7, 1; shl.b32 %r11, %r11, 8; add.u32 %r12, %r4, %r11;
    ld.shared.u32 %r13, [%r12]; add.u32 %r6, %r6, %r13;
    AFTER mov.u32 %r7, %r8; @%p1 bra LOOP; {PUT}"""


@pytest.mark.parametrize(
    "left,after,kinds", [(1, "bar.sync 0;", set()), (2, "bar.sync 0;", {"cp.async"}),
                         (1, "", {"race"})]
)  # fmt: skip
def test_a_pipeline_of_copies(left, after, kinds):
    x, y = np.arange(320, dtype=np.uint32), np.zeros(64, np.uint32)
    findings = found(PIPELINE.replace("LEFT", str(left)).replace("AFTER", after), x, y)
    assert {each.kind for each in findings} == kinds
    if left == 1 and after:
        np.testing.assert_array_equal(y, x.reshape(5, 64).sum(0)[np.arange(64) ^ 33])


def test_a_barrier_that_ended_threads_never_reach():
    finding = only("setp.gt.u32 %p1, %r0, 40; @%p1 exit;\nbar.sync 0;")
    assert finding.kind == "barrier"
    assert finding.message == (
        "thread (0, 0, 0) of block (0, 0, 0) comes to a barrier that other threads of its block "
        "never reach: they have ended"
    )


def test_a_barrier_that_a_part_of_a_warp_comes_to():
    body = "setp.gt.u32 %p1, %r0, 40; @%p1 bra A; {0} bra B; A: {0} B:"
    told = found(body.format("\nbar.sync 0;"))
    assert [each.kind for each in told] == ["barrier", "barrier"]
    assert {each.message.partition(" comes to ")[2] for each in told} == {
        "a barrier without other threads of its warp"
    }
    assert found(body.format("\nbarrier.sync 0;")) == ()


def test_a_fault_tells_what_was_found_before():
    body = f"{OWN} ld.shared.u32 %r6, [%r3]; mul.wide.u32 %d3, %r6, 4; st.global.u32 [%d3], %r6;"
    with pytest.raises(PtxFault, match="which nothing wrote") as caught:
        launch(body, np.zeros(4), variables=SHARED, debug=True)
    assert caught.value.diagnostic.message.startswith("global address")
    assert [each.kind for each in caught.value.findings] == ["uninitialised"]


def test_findings_have_the_line_of_the_source_and_are_counted_and_bounded():
    reads = "\n".join(f"ld.shared.u32 %r6, [tile+{4 * number}];" for number in range(30))
    text = entry(
        f".file 3 \"reads.cu\"\n.loc 3 12 5\nmov.u32 %r1, 0;\nLOOP: add.u32 %r1, %r1, 1;\n{reads}\n"
        "setp.lt.u32 %p1, %r1, 3; @%p1 bra LOOP;", ".param .u64 x", SHARED,
    )  # fmt: skip
    text = text.replace('.file 3 "reads.cu"\n', "") + '.file 3 "reads.cu"\n'
    findings = run(text, "k", 1, 32, [np.zeros(1)], debug=True).findings
    assert len(findings) == 20
    assert {each.location for each in findings} == {("reads.cu", 12, 5)}
    assert {each.times for each in findings} == {3}
    assert "which nothing wrote (from reads.cu:12:5), 3 times" in str(findings[0])


def test_checks_run_on_numpy():
    with pytest.raises(ArgumentError, match="debug=True runs on numpy"):
        launch("", np.zeros(1), debug=True, engine="compiled")


TRANSPOSE = f"""{HEAD}.visible .entry transpose(.param .u64 x, .param .u64 y)
{{
    .reg .b32 %r<9>; .reg .b64 %d<9>;
    .shared .align 4 .b8 tile[1088];
    ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y];
    mov.u32 %r0, %tid.x; mov.u32 %r1, %tid.y; mov.u32 %r2, tile;
    mad.lo.u32 %r3, %r1, 16, %r0; mul.wide.u32 %d2, %r3, 4; add.s64 %d3, %d0, %d2;
    ld.global.u32 %r4, [%d3];
    mad.lo.u32 %r5, %r1, 17, %r0; shl.b32 %r5, %r5, 2; add.u32 %r5, %r2, %r5;
    st.shared.u32 [%r5], %r4;
    bar.sync 0;
    mad.lo.u32 %r6, %r0, 17, %r1; shl.b32 %r6, %r6, 2; add.u32 %r6, %r2, %r6;
    ld.shared.u32 %r7, [%r6]; add.s64 %d4, %d1, %d2; st.global.u32 [%d4], %r7;
    ret;
}}
"""


def test_a_transpose_through_a_tile():
    x, y = np.arange(256, dtype=np.uint32).reshape(16, 16), np.zeros((16, 16), np.uint32)
    assert run(TRANSPOSE, "transpose", 1, (16, 16), [x, y], debug=True).findings == ()
    np.testing.assert_array_equal(y, x.T)
    told = run(
        TRANSPOSE.replace("bar.sync 0;", ""), "transpose", 1, (16, 16), [x, y], debug=True
    ).findings
    assert "race" in {each.kind for each in told}


def test_kernels_of_another_compiler_are_clean():
    generator = np.random.default_rng(5)
    x = generator.standard_normal(3000).astype(np.float32)
    bytes_ = generator.integers(0, 256, 5000).astype(np.uint8)
    whole = np.arange(100, dtype=np.int32)
    plane = (generator.standard_normal((40, 33)) * 1e5).astype(np.float32)
    launches = [
        ("reduce", 3, 96, [x, np.zeros(1, "f4"), 3000], 0),
        ("histogram", 4, 256, [bytes_, np.zeros(256, "i4"), 5000], 0),
        ("scan", 1, 128, [whole, np.zeros(100, "i4"), 100], 512),
        ("stencil", (3, 5), (16, 8), [plane, np.zeros_like(plane), 40, 33], 0),
    ]
    for name, grid, block, args, shared in launches:
        assert run(CUDA, name, grid, block, args, shared_bytes=shared, debug=True).findings == ()


@pytest.mark.parametrize("name", ["reduce", "histogram", "scan"])
def test_kernels_of_another_compiler_without_barriers_are_not(name):
    text = CUDA.replace("bar.sync", "// bar.sync").replace("barrier.sync", "// barrier.sync")
    kind = np.uint8 if name == "histogram" else np.int32
    args = [np.zeros(256, kind), np.zeros(256, np.int32), 256]
    told = run(text, name, 1, 128 if name == "scan" else 256, args, shared_bytes=1024, debug=True)
    assert "race" in {each.kind for each in told.findings}

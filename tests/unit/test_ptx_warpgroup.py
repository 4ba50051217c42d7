"""Products of four warps (``wgmma``) on the PTX simulator: layouts, types, groups, what goes wrong.

Shared memory is laid out here from the figures of the PTX ISA ("Strides", "Swizzling modes"), not
from the simulator's own formulas.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from ptx_texts import REGISTERS, engine_alone
from wia_compiler.base.errors import TargetError
from wia_compiler.simulators.ptx import run

RNG = np.random.default_rng(71)
SWIZZLES = {0: 0, 32: 3, 64: 2, 128: 1}
TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
A_START, B_START, SHARED = 0, 32768, 65536


def swizzled(address: int, width: int) -> int:
    """Chunks of 16 bytes exchanged within 128, 64 or 32 bytes, by the number of the row of 128."""
    chunk, row = address >> 4 & 7, address >> 7 & 7
    chunk ^= {0: 0, 32: row & 1, 64: row & 3, 128: row}[width]
    return address & ~0x70 | chunk << 4


def laid_out(matrix: np.ndarray, summed: int, width: int, start: int) -> tuple[bytearray, int]:
    """A matrix (outer by summed) in shared memory from ``start`` on, and its descriptor.

    ``summed`` is 1 where the summed axis is contiguous (K-major), 0 for MN-major.
    """
    image = bytearray(SHARED)
    outer, depth = matrix.shape
    size = matrix.dtype.itemsize
    per_chunk = 16 // size
    if summed:
        # Core matrices of 8 rows of 16 bytes; with a swizzle, 8 rows of ``width`` bytes.
        leading = 0 if width else 128 * (outer // 8) + 256
        stride = 8 * width if width else 128

        def place(row: int, k: int) -> int:
            if width:
                return row // 8 * stride + row % 8 * width + k * size
            return (
                row // 8 * stride + row % 8 * 16 + k // per_chunk * leading + k % per_chunk * size
            )

    else:
        wide = max(width, 16) // size
        if width:
            leading = 8 * width * (depth // 8) + 1024
            stride = 8 * width
        else:
            leading, stride = 128 * (outer // 8) + 512, 128

        def place(row: int, k: int) -> int:
            block, within = divmod(row, wide)
            down = k // 8 * (stride if width else leading)
            return (
                block * (leading if width else stride) + down + k % 8 * wide * size + within * size
            )

    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(outer, depth, size)
    for row in range(outer):
        for k in range(depth):
            address = swizzled(start + place(row, k), width)
            image[address : address + size] = raw[row, k].tobytes()
    word = start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | SWIZZLES[width] << 62
    return image, word


def kernel(body: str, *, registers: int, letter: str = "f", threads: int = 128) -> str:
    """Copies x to shared memory, runs a body, stores registers ``%c0 …`` of each thread to y."""
    names = "".join(f"st.global.b32 [%d3+{4 * n}], %c{n};\n" for n in range(registers))
    zeros = "".join(f"mov.b32 %c{n}, 0;\n" for n in range(registers))
    return f"""
.version 8.4
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 tile[];
.visible .entry k(.param .u64 x, .param .u64 y, .param .u64 z)
{{{REGISTERS}
    .reg .b32 %c<{registers}>;
    ld.param.u64 %d0, [x]; ld.param.u64 %d1, [y]; ld.param.u64 %d9, [z];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %d2, %r0, 16; add.s64 %d2, %d2, %d0;
    mul.lo.u32 %r1, %r0, 16; mov.u32 %r2, tile; add.u32 %r1, %r1, %r2;
    mov.u32 %r3, {SHARED // (16 * threads)};
copy:
    ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d2];
    st.shared.v4.b32 [%r1], {{%r4, %r5, %r6, %r7}};
    add.s64 %d2, %d2, {16 * threads}; add.u32 %r1, %r1, {16 * threads};
    sub.u32 %r3, %r3, 1; setp.ne.u32 %p0, %r3, 0;
    @%p0 bra copy;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mul.wide.u32 %d3, %r0, {4 * registers}; add.s64 %d3, %d3, %d1;
    mul.wide.u32 %d4, %r0, 16; add.s64 %d4, %d4, %d9;
    ld.global.v4.b32 {{%r10, %r11, %r12, %r13}}, [%d4];
    setp.eq.u32 %p1, 0, 0; setp.eq.u32 %p2, 0, 1;
    {zeros}
    {body}
    {names}
    ret;
}}
"""


def fetched(y: np.ndarray, columns: int, dtype) -> np.ndarray:
    """The rows and columns of a result, from what each thread stored (figures of the PTX ISA)."""
    made = np.zeros((64, columns), dtype)
    parts = y.view(dtype).reshape(128, -1)
    for thread in range(128):
        warp, lane = divmod(thread, 32)
        for i in range(parts.shape[1]):
            row = 16 * warp + lane // 4 + 8 * (i // 2 % 2)
            made[row, 8 * (i // 4) + 2 * (lane % 4) + i % 2] = parts[thread, i]
    return made


def product(
    result: str,
    a: np.ndarray,
    b: np.ndarray,
    types: tuple[str, str],
    *,
    widths=(128, 128),
    summed=(1, 1),
    from_registers: bool = False,
    signs="1, 1",
    scale="%p2",
    engine="numpy",
    **options,
):
    """``a`` (64 by k) times ``b`` (n by k, transposed), by one instruction."""
    n, k = b.shape
    image_a, word_a = laid_out(a, summed[0], widths[0], A_START)
    image_b, word_b = laid_out(b, summed[1], widths[1], B_START)
    image = np.frombuffer(bytes(image_a[:B_START] + image_b[B_START:]), np.uint8).copy()
    registers = n // 2 if result != "f16" else n // 4
    group = "{" + ", ".join(f"%c{i}" for i in range(registers)) + "}"
    words = [word_a, word_b]
    left = "{%r10, %r11, %r12, %r13}" if from_registers else "%d5"
    sixteen = types[0] in ("f16", "bf16")
    turns = [str(1 - each) for each in (summed[1:] if from_registers else summed)]
    tail = "" if result == "s32" else f", {signs}" + (f", {', '.join(turns)}" if sixteen else "")
    body = f"""
        mov.u64 %d5, {words[0]}; mov.u64 %d6, {words[1]};
        wgmma.fence.sync.aligned;
        wgmma.mma_async.sync.aligned.m64n{n}k{k}.{result}.{types[0]}.{types[1]}
            {group}, {left}, %d6, %p2{tail};
        wgmma.commit_group.sync.aligned;
        wgmma.wait_group.sync.aligned 0;
    """
    z = np.zeros((128, 4), np.uint32)
    if from_registers:
        per = 4 // a.dtype.itemsize
        for thread in range(128):
            warp, lane = divmod(thread, 32)
            for r in range(4):
                row = 16 * warp + lane // 4 + 8 * (r % 2)
                first = per * (lane % 4) + 4 * per * (r // 2)
                z[thread, r] = np.ascontiguousarray(a[row, first : first + per]).view(np.uint32)[0]
    y = np.zeros((128, registers), np.uint32)
    with engine_alone(engine):
        done = run(kernel(body, registers=registers), "k", 1, 128, [image, y, z],
                   shared_bytes=SHARED, engine=engine)  # fmt: skip
    dtype = {"f32": np.float32, "f16": np.float16, "s32": np.int32}[result]
    return fetched(y, n, dtype), done


def values(shape, name: str) -> np.ndarray:
    dtype = np.dtype(TYPES[name])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    found = RNG.standard_normal(shape).astype(dtype)
    return (found.view(np.uint32) & 0xFFFFE000).view(np.float32) if name == "tf32" else found


def exact(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype("f8") @ b.astype("f8").T


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize("n", [8, 24, 128])
@pytest.mark.parametrize("width", [0, 32, 64, 128])
@pytest.mark.parametrize("summed", [(1, 1), (0, 1), (1, 0), (0, 0)])
def test_every_layout_of_shared_memory(width, summed, n, engine):
    a, b = values((64, 16), "f16"), values((n, 16), "f16")
    if n * 2 % max(width, 16) and not summed[1]:
        pytest.skip("the matrix is narrower than the swizzle")
    found, done = product("f32", a, b, ("f16", "f16"), widths=(width, width), summed=summed,
                          engine=engine)  # fmt: skip
    np.testing.assert_array_equal(found, exact(a, b).astype(np.float32))
    assert done.counters["flops_tensor"] == 2 * 64 * n * 16


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize("from_registers", [False, True])
@pytest.mark.parametrize(
    "types,result",
    [
        (("f16", "f16"), "f16"),
        (("bf16", "bf16"), "f32"),
        (("tf32", "tf32"), "f32"),
        (("e4m3", "e4m3"), "f32"),
        (("e5m2", "e4m3"), "f16"),
        (("e4m3", "e5m2"), "f32"),
        (("s8", "s8"), "s32"),
        (("s8", "u8"), "s32"),
        (("u8", "u8"), "s32"),
    ],
)
def test_every_type(types, result, from_registers, engine):
    k = 32 // np.dtype(TYPES[types[0]]).itemsize
    a, b = values((64, k), types[0]), values((32, k), types[1])
    found, _ = product(result, a, b, types, from_registers=from_registers, engine=engine)
    np.testing.assert_array_equal(found, exact(a, b).astype(found.dtype))


def test_the_widest_product():
    a, b = values((64, 32), "s8"), values((256, 32), "u8")
    found, _ = product("s32", a, b, ("s8", "u8"), engine="compiled")
    np.testing.assert_array_equal(found, exact(a, b).astype(np.int32))


def test_signs_of_the_factors():
    a, b = values((64, 16), "f16"), values((8, 16), "f16")
    for signs, factor in (("-1, 1", -1), ("1, -1", -1), ("-1, -1", 1)):
        found, _ = product("f32", a, b, ("f16", "f16"), signs=signs)
        np.testing.assert_array_equal(found, (factor * exact(a, b)).astype(np.float32))


@pytest.mark.parametrize("special", [np.nan, np.inf])
def test_special_values(special):
    a, b = values((64, 16), "f16"), values((8, 16), "f16")
    a[3, 5] = special
    for engine in ("numpy", "compiled"):
        found, _ = product("f32", a, b, ("f16", "f16"), engine=engine)
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(found, exact(a, b).astype(np.float32))


def chained(body: str, x: np.ndarray, threads: int = 128, **options):
    """A body with descriptors of A in %d5 and B in %d6 and a sum of 4 registers; what it leaves."""
    _, word_a = laid_out(np.zeros((64, 16), np.float16), 1, 128, A_START)
    _, word_b = laid_out(np.zeros((8, 16), np.float16), 1, 128, B_START)
    head = f"mov.u64 %d5, {word_a}; mov.u64 %d6, {word_b};\n"
    y = np.zeros((threads, 4), np.uint32)
    text = kernel(head + body, registers=4, threads=threads)
    z = np.zeros((threads, 4), np.uint32)
    done = run(text, "k", 1, threads, [x, y, z], shared_bytes=SHARED, **options)
    return y, done


def operands(depth: int = 16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b = values((64, depth), "f16"), values((8, depth), "f16")
    image_a, _ = laid_out(a, 1, 128, A_START)
    image_b, _ = laid_out(b, 1, 128, B_START)
    return np.frombuffer(bytes(image_a[:B_START] + image_b[B_START:]), np.uint8).copy(), a, b


SUM = "{%c0, %c1, %c2, %c3}"
MULTIPLY = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {SUM}, %d5, %d6, %p1, 1, 1, 0, 0;\n"
FENCE = "wgmma.fence.sync.aligned;\n"
COMMIT = "wgmma.commit_group.sync.aligned;\n"


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_steps_along_the_summed_axis_within_a_swizzle(engine):
    """Four products add up; each begins 32 bytes further on in the same 128 bytes."""
    x, a, b = operands(64)
    step = "add.u64 %d5, %d5, 2; add.u64 %d6, %d6, 2;\n"
    body = FENCE + step.join([MULTIPLY] * 4) + COMMIT + "wgmma.wait_group.sync.aligned 0;\n"
    with engine_alone(engine):
        y, _ = chained(body, x, engine=engine)
    total = np.zeros((64, 8), np.float32)
    for k in range(0, 64, 16):
        total = (exact(a[:, k : k + 16], b[:, k : k + 16]) + total).astype(np.float32)
    np.testing.assert_array_equal(fetched(y, 8, np.float32), total)


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize(
    "end,arrives",
    [
        ("", False),
        (COMMIT, False),
        ("wgmma.wait_group.sync.aligned 0;", False),
        (COMMIT + "wgmma.wait_group.sync.aligned 1;", False),
        (COMMIT + COMMIT + "wgmma.wait_group.sync.aligned 1;", True),
        (COMMIT + "wgmma.wait_group.sync.aligned 0;", True),
    ],
)
def test_results_are_not_there_before_they_are_waited_for(end, arrives, engine):
    x, a, b = operands()
    with engine_alone(engine):
        y, _ = chained(FENCE + MULTIPLY + end, x, engine=engine)
    if arrives:
        np.testing.assert_array_equal(fetched(y, 8, np.float32), exact(a, b).astype("f4"))
    else:
        assert (y == 0xFFFFFFFF).all()


WAIT = COMMIT + "wgmma.wait_group.sync.aligned 0;\n"


@pytest.mark.parametrize(
    "body,said",
    [
        (MULTIPLY + WAIT, "without a wgmma.fence"),
        (FENCE + "add.u32 %c1, %c1, %c1;\n" + MULTIPLY + WAIT, "with no wgmma.fence in between"),
        (FENCE + MULTIPLY + "add.u32 %r20, %c1, %c1;\n" + WAIT, "reads %c1, to which the wgmma"),
        (FENCE + MULTIPLY + "mov.b32 %c2, 0;\n" + WAIT, "writes %c2, to which the wgmma"),
        (
            FENCE + MULTIPLY + "bar.sync 0; mad.lo.u32 %r2, %r0, 4, %r2;\n"
            + "st.shared.b32 [%r2], %r0; bar.sync 0;\n"
            + WAIT,
            "written before the wait",
        ),
    ],
)  # fmt: skip
def test_checks_find_what_a_product_on_its_way_forbids(body, said):
    x, *_ = operands()
    _, done = chained(body, x, debug=True)
    found = [each for each in done.findings if each.kind == "wgmma"]
    assert len(found) == 1
    assert said in found[0].message
    _, clean = chained(FENCE + MULTIPLY + WAIT, x, debug=True)
    assert clean.findings == ()


@pytest.mark.parametrize(
    "body,said",
    [
        ("setp.lt.u32 %p3, %r0, 96;\n@!%p3 bra over;\n{}over:\n", "does not, or not as often"),
        ("setp.ne.u32 %p3, %r0, 5;\n@!%p3 bra over;\n{}over:\n", "takes no part in it"),
        ("mov.u64 %d5, 0xFFFF;\n{}", "has bits that"),
        ("add.u64 %d5, %d5, 0x3000;\n{}", "is out of range"),
        ("cvt.u64.u32 %d7, %r0;\nadd.u64 %d5, %d5, %d7;\n{}", "differs between threads"),
    ],
)
def test_what_a_warpgroup_must_not_do(body, said):
    x, *_ = operands()
    with pytest.raises(TargetError, match=said) as error:
        chained(body.format(FENCE + MULTIPLY + WAIT), x)
    assert "wgmma" in str(error.value)


def test_a_block_of_three_warps_is_no_warpgroup():
    x, *_ = operands()
    with pytest.raises(TargetError, match="3 warps, no multiple of 4"):
        chained(FENCE + MULTIPLY + WAIT, np.resize(x, SHARED + 2048), threads=96)


@pytest.mark.parametrize(
    "old,new,said",
    [
        ("m64n8k16", "m64n8k32", "its types"),
        ("m64n8k16", "m64n12k16", "its shape"),
        ("mma_async.sync", "mma_async.sp.sync", "sparse"),
        ("%p1, 1, 1, 0, 0", "%p1, 1, 1", "2 numbers behind scale-d, not 4"),
        ("%p1, 1, 1, 0, 0", "%p1, 2, 1, 0, 0", "signs are 1 or -1"),
        ("%c3}", "%c3, %r20}", "5 registers of the result"),
    ],
)
def test_forms_that_do_not_exist(old, new, said):
    x, *_ = operands()
    with pytest.raises(TargetError, match=said):
        chained(FENCE + MULTIPLY.replace(old, new) + WAIT, x)

"""Matrix instructions and asynchronous copies on the PTX simulator."""

import re

import ml_dtypes
import numpy as np
import pytest
from ptx_texts import element, engine_alone, launch
from wia_compiler.base.errors import TargetError

RNG = np.random.default_rng(23)
LANE = np.arange(32)


def fragment_rows_and_columns(rows: int, columns: int, per_register: int, left: bool):
    """For each lane, the (row, column) of each of its elements, register by register.

    Written down from the figures of the PTX ISA: a lane's elements lie ``per_register`` next to
    each other along the summed axis; the groups of 4 lanes go down the other one.
    """
    found = []
    for lane in range(32):
        group, place = lane // 4, lane % 4
        summed = columns if left else rows
        registers = []
        for block in range(summed // (4 * per_register)):
            along = [
                block * 4 * per_register + place * per_register + e for e in range(per_register)
            ]
            downs = [group, group + 8] if left and rows == 16 else [group]
            for down in downs:
                registers.append([(down, a) if left else (a, down) for a in along])
        found.append([pair for register in registers for pair in register])
    return np.array(found)


def spread(matrix: np.ndarray, per_register: int, left: bool) -> np.ndarray:
    """A matrix as the registers of 32 lanes, one row of bytes a lane."""
    places = fragment_rows_and_columns(*matrix.shape, per_register, left)
    return np.ascontiguousarray(matrix[places[..., 0], places[..., 1]])


def multiply(
    shape: str, types: str, a, b, c, per_register: int, engine: str = "auto", depth: int = 0
) -> np.ndarray:
    m, n = c.shape
    left, right = spread(a, per_register, True), spread(b, per_register, False)
    rows = np.array([[g // 4, g // 4, g // 4 + 8, g // 4 + 8] for g in range(32)])[:, : m * n // 32]
    columns = np.array([[2 * (t % 4) + e for e in (0, 1, 0, 1)] for t in range(32)])
    sums = np.ascontiguousarray(c[rows, columns[:, : m * n // 32]])
    wide = a.dtype == np.float64
    letter, size = ("d", 8) if wide else ("r", 4)
    counts = [each.view(np.uint8).shape[1] // size for each in (left, right, sums)]
    x = np.concatenate([each.view(np.uint8) for each in (left, right, sums)], axis=1)
    registers = [f"%{letter}{number}" for number in range(10, 10 + sum(counts))]
    loads = "".join(
        f"ld.global.b{size * 8} {name}, [%d2+{size * number}];\n"
        for number, name in enumerate(registers)
    )
    parts = np.split(np.array(registers), np.cumsum(counts)[:-1])
    groups = ["{" + ", ".join(part) + "}" for part in parts]
    stores = "".join(
        f"st.global.b{size * 8} [%d3+{size * number}], {name};\n"
        for number, name in enumerate(parts[2])
    )
    y = np.zeros_like(sums)
    body = (
        element("%d2", "%d0", x.shape[1])
        + element("%d3", "%d1", sums.view(np.uint8).shape[1])
        + loads
        + f"mma.sync.aligned.{shape}.row.col.{types}\n\t{groups[2]},\n\t{groups[0]},"
        f"\n\t{groups[1]},\n\t{groups[2]};\n" + stores
    )
    with engine_alone(engine):
        done = launch(body, np.ascontiguousarray(x), y, engine=engine)
    k = depth or a.shape[1]
    assert done.counters["flops_tensor"] == 2 * m * n * k
    made = np.zeros_like(c)
    made[rows, columns[:, : m * n // 32]] = y
    return made


def values(shape, dtype):
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        return RNG.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize(
    "shape,types,dtype,sum_dtype",
    [
        ("m16n8k16", "f32.f16.f16.f32", np.float16, np.float32),
        ("m16n8k8", "f32.f16.f16.f32", np.float16, np.float32),
        ("m16n8k16", "f32.bf16.bf16.f32", ml_dtypes.bfloat16, np.float32),
        ("m16n8k16", "f16.f16.f16.f16", np.float16, np.float16),
        ("m16n8k8", "f32.tf32.tf32.f32", np.float32, np.float32),
        ("m16n8k4", "f32.tf32.tf32.f32", np.float32, np.float32),
        ("m16n8k32", "s32.s8.s8.s32", np.int8, np.int32),
        ("m16n8k16", "s32.u8.u8.s32", np.uint8, np.int32),
        ("m16n8k32", "f32.e4m3.e4m3.f32", ml_dtypes.float8_e4m3fn, np.float32),
        ("m16n8k32", "f32.e5m2.e5m2.f32", ml_dtypes.float8_e5m2, np.float32),
        ("m16n8k8", "f16.f16.f16.f16", np.float16, np.float16),
        ("m16n8k8", "f32.bf16.bf16.f32", ml_dtypes.bfloat16, np.float32),
        ("m8n8k16", "s32.s8.s8.s32", np.int8, np.int32),
        ("m8n8k4", "f64.f64.f64.f64", np.float64, np.float64),
        ("m16n8k4", "f64.f64.f64.f64", np.float64, np.float64),
        ("m16n8k8", "f64.f64.f64.f64", np.float64, np.float64),
        ("m16n8k16", "f64.f64.f64.f64", np.float64, np.float64),
    ],
)
@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_products_of_a_warp(shape, types, dtype, sum_dtype, engine):
    m, n, k = map(int, re.findall(r"[0-9]+", shape))
    a, b = values((m, k), dtype), values((k, n), dtype)
    c = values((m, n), np.int16 if sum_dtype == np.int32 else sum_dtype).astype(sum_dtype)
    if "tf32" in types:
        a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
    found = multiply(shape, types, a, b, c, max(1, 4 // np.dtype(dtype).itemsize), engine)
    if sum_dtype == np.int32:
        np.testing.assert_array_equal(found, a.astype("i8") @ b.astype("i8") + c)
    else:
        exact = a.astype("f8") @ b.astype("f8") + c.astype("f8")
        if dtype == np.float64:
            np.testing.assert_allclose(found, exact, rtol=1e-14, atol=1e-14)
        else:
            np.testing.assert_array_equal(found, exact.astype(sum_dtype))


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize(
    "shape,types,bits,low",
    [
        ("m16n8k64", "s32.s4.s4.s32", 4, -8),
        ("m16n8k32", "s32.u4.u4.s32", 4, 0),
        ("m8n8k32", "s32.s4.s4.s32", 4, -8),
        ("m16n8k256", "s32.b1.b1.s32.and.popc", 1, 0),
        ("m16n8k128", "s32.b1.b1.s32.xor.popc", 1, 0),
    ],
)
def test_products_of_elements_narrower_than_a_byte(shape, types, bits, low, engine):
    m, n, k = map(int, re.findall(r"[0-9]+", shape))
    a, b = (RNG.integers(low, low + 2**bits, size) for size in ((m, k), (k, n)))
    c = RNG.integers(-1000, 1000, (m, n)).astype(np.int32)
    per = 32 // bits

    def words(rows: np.ndarray) -> np.ndarray:
        """Rows along the summed axis, packed into 32 bits each."""
        parts = (rows.reshape(len(rows), -1, per) % 2**bits).astype(np.uint64)
        return (parts << (np.arange(per) * bits).astype(np.uint64)).sum(axis=2).astype(np.uint32)

    packed = [words(a), words(b.T).T]
    # A register holds one packed word, as it does one f32 of a product of k / per.
    found = multiply(shape, types, *packed, c, 1, engine, k)
    exact = (a[:, :, None] ^ b).sum(axis=1) if "xor" in types else a @ b
    np.testing.assert_array_equal(found, exact + c)


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
@pytest.mark.parametrize("limited", ["", ".satfinite"])
def test_sums_of_integers_wrap_or_stop(limited, engine):
    a, b = np.full((16, 32), 127, np.int8), np.full((32, 8), 127, np.int8)
    c = np.full((16, 8), np.iinfo(np.int32).max, np.int32)
    found = multiply("m16n8k32", f"s32.s8.s8.s32{limited}", a, b, c, 4, engine)
    wrapped = (c.astype("i8") + 32 * 127 * 127).astype(np.int32)
    np.testing.assert_array_equal(found, c if limited else wrapped)


@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_special_values_in_products(engine):
    a, b = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16)
    a[0, 3], a[1, 4], a[2, 5] = np.nan, np.inf, -np.inf
    b[4, 1] = 0
    with np.errstate(invalid="ignore"):
        exact = (a.astype("f8") @ b.astype("f8")).astype(np.float32)
    found = multiply("m16n8k16", "f32.f16.f16.f32", a, b, np.zeros((16, 8), "f4"), 2, engine)
    np.testing.assert_array_equal(found, exact)
    assert (found.view(np.uint32)[np.isnan(exact)] == 0x7FFFFFFF).all()


def test_products_of_sparse_matrices_are_refused():
    body = """mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%r4, %r5, %r6, %r7},
        {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, {%r4, %r5, %r6, %r7}, %r8, 0;"""
    with pytest.raises(TargetError, match="products of sparse matrices"):
        launch(body, np.zeros(1), np.zeros(1))


def test_tf32_does_not_look_at_the_lower_bits():
    a, b = np.full((16, 8), 1 + 2**-12, np.float32), np.ones((8, 8), np.float32)
    found = multiply("m16n8k8", "f32.tf32.tf32.f32", a, b, np.zeros((16, 8), np.float32), 1)
    assert (found == 8).all()


@pytest.mark.parametrize("transposed", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_matrices_of_shared_memory(count, transposed):
    """Lane 8 j + i gives the address of row i of matrix j; a lane gets two neighbours of a row."""
    tiles = np.arange(count * 64, dtype=np.uint16).reshape(count, 8, 8)
    registers = ", ".join(f"%r{10 + j}" for j in range(count))
    copies = "".join(
        f"ld.global.u32 %r9, [%d2+{128 * j}]; st.shared.u32 [%r5+{128 * j}], %r9;\n"
        for j in range(count)
    )
    stores = "".join(f"st.global.u32 [%d3+{4 * j}], %r{10 + j};\n" for j in range(count))
    body = f"""
        {element("%d2", "%d0", 4)} mov.u32 %r4, tile; mad.lo.u32 %r5, %r0, 4, %r4; {copies}
        bar.sync 0; and.b32 %r6, %r0, {8 * count - 1}; mad.lo.u32 %r6, %r6, 16, %r4;
        ldmatrix.sync.aligned.m8n8.x{count}{transposed}.shared.b16 {{{registers}}}, [%r6];
        {element("%d3", "%d1", 4 * count)} {stores}
    """
    y = np.zeros((32, count, 2), np.uint16)
    done = launch(body, tiles, y, variables=".shared .align 16 .b8 tile[512];")
    for lane in range(32):
        for j in range(count):
            row, column = lane // 4, 2 * (lane % 4)
            tile = tiles[j].T if transposed else tiles[j]
            np.testing.assert_array_equal(y[lane, j], tile[row, column : column + 2])
    unit = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ldsm.sum"
    assert done.counters[unit] == count, "rows next to one another: one wavefront a matrix"


@pytest.mark.parametrize("transposed", ["", ".trans"])
def test_storing_a_matrix_is_the_inverse(transposed):
    tiles = RNG.integers(0, 2**16, (4, 8, 8)).astype(np.uint16)
    body = f"""
        {element("%d2", "%d0", 16)} mov.u32 %r4, tile; mad.lo.u32 %r6, %r0, 16, %r4;
        ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%d2];
        st.shared.v4.u32 [%r6], {{%r10, %r11, %r12, %r13}}; bar.sync 0;
        ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r6];
        bar.sync 0;
        stmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16 [%r6], {{%r10, %r11, %r12, %r13}};
        bar.sync 0; ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r6];
        {element("%d3", "%d1", 16)} st.global.v4.u32 [%d3], {{%r10, %r11, %r12, %r13}};
    """
    y = np.zeros_like(tiles)
    launch(body, tiles, y, variables=".shared .align 16 .b8 tile[512];")
    np.testing.assert_array_equal(y, tiles)


COPY = """
    mov.u32 %r4, tile; mad.lo.u32 %r5, %r0, 16, %r4;
    cp.async.cg.shared.global [%r5], [%d2], 16{size}; cp.async.commit_group;
    add.s64 %d4, %d2, 512; add.u32 %r6, %r5, 512;
    cp.async.cg.shared.global [%r6], [%d4], 16; cp.async.commit_group;
    {wait}
    ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r5];
    st.global.v4.u32 [%d3], {{%r10, %r11, %r12, %r13}};
    ld.shared.v4.u32 {{%r10, %r11, %r12, %r13}}, [%r6]; add.s64 %d3, %d3, 512;
    st.global.v4.u32 [%d3], {{%r10, %r11, %r12, %r13}};
"""


@pytest.mark.parametrize(
    "wait,arrived",
    [
        ("", (False, False)),
        ("cp.async.wait_group 1;", (True, False)),
        ("cp.async.wait_group 0;", (True, True)),
        ("cp.async.wait_all;", (True, True)),
        ("cp.async.wait_group 2;", (False, False)),
    ],
)
def test_copies_arrive_when_they_are_waited_for(wait, arrived):
    """What did not arrive reads as all ones, which no float is: the missing wait shows."""
    x, y = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    body = element("%d2", "%d0", 16) + element("%d3", "%d1", 16) + COPY.format(size="", wait=wait)
    done = launch(body, x, y, variables=".shared .align 16 .b8 tile[1024];")
    for half, here in zip((slice(128), slice(128, 256)), arrived, strict=True):
        np.testing.assert_array_equal(y[half], x[half] if here else np.uint32(0xFFFFFFFF))
    assert done.counters["l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts.sum"] == 2
    assert done.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum"] == 32


@pytest.mark.parametrize("size", [0, 4, 8, 16])
def test_copies_of_less_fill_up_with_zeros(size):
    x, y = np.arange(1, 257, dtype=np.uint32), np.zeros(256, np.uint32)
    text = COPY.format(size=f", {size}", wait="cp.async.wait_all;")
    body = element("%d2", "%d0", 16) + element("%d3", "%d1", 16) + text
    launch(body, x, y, variables=".shared .align 16 .b8 tile[1024];")
    wanted = x[:128].reshape(32, 4).copy()
    wanted[:, size // 4 :] = 0
    np.testing.assert_array_equal(y[:128].reshape(32, 4), wanted)

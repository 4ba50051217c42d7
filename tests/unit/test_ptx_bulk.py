"""Bulk and tensor copies on both engines: bytes, swizzles, edges, counts, groups, refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_async import assembled, both, by_one, text_of, wait
from wia_compiler.base.errors import ArgumentError
from wia_compiler.simulators.ptx import PtxFault, TensorMap, run

MAP = ".param .align 64 .b8 m[128], .param .u64 x"
READ = "sectors_mem_global_op_tma_ld.sum"
GET_MAP = "mov.b64 %d8, m;\ncvta.param.u64 %d9, %d8;\n"
LOAD = "cp.async.bulk.tensor.{axes}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "


def out_of_tile(size: int, block: int = 32) -> str:
    """Store the first bytes of the tile to x, 16 a thread at a time."""
    return (
        f"shl.b32 %r20, %r0, 4;\nCOPY:\nsetp.ge.u32 %p10, %r20, {size};\n@%p10 bra DONE;\n"
        "add.u32 %r21, %r2, %r20;\nld.shared.v4.b32 {%r22,%r23,%r24,%r25}, [%r21];\n"
        "cvt.u64.u32 %d10, %r20;\nadd.u64 %d10, %d0, %d10;\n"
        "st.global.v4.b32 [%d10], {%r22,%r23,%r24,%r25};\n"
        f"add.u32 %r20, %r20, {16 * block};\nbra COPY;\n"
    )


def box_kernel(axes: int, size: int, names: str, *, expect: int | None = None) -> str:
    """Copy one box at the coordinates of the parameters, and give its bytes to x."""
    coordinates = "".join(f"ld.param.s32 %r{10 + n}, [c{n}];\n" for n in range(axes))
    return text_of(
        coordinates
        + GET_MAP
        + by_one(
            "mbarrier.init.shared::cta.b64 [%r1], 1;\n"
            f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], {expect or size};\n"
            + LOAD.format(axes=axes)
            + f"[%r2], [%d9, {{{', '.join(f'%r{10 + n}' for n in range(axes))}}}], [%r1];"
        )
        + wait("%r1", 0, "W")
        + out_of_tile(size),
        parameters=MAP + "".join(f", .param .s32 c{n}" for n in range(axes)),
    )


def boxed(array: np.ndarray[Any, Any], box: tuple[int, ...], at: tuple[int, ...], every=None):
    """The box of an array that begins at a place, zero outside; all outermost first."""
    every = every or (1,) * len(box)
    counts = [-(-size // step) for size, step in zip(box, every, strict=True)]
    made = np.zeros(counts, array.dtype)
    for place in np.ndindex(*counts):
        where = tuple(a + p * s for a, p, s in zip(at, place, every, strict=True))
        if all(0 <= w < n for w, n in zip(where, array.shape, strict=True)):
            made[place] = array[where]
    return made


def swizzled(content: np.ndarray[Any, Any], span: int) -> np.ndarray[Any, Any]:
    """The bytes of a box as a swizzle of a span of bytes puts them, by its definition."""
    given = np.ascontiguousarray(content).reshape(-1).view(np.uint8)
    made = np.zeros_like(given)
    for byte in range(len(given)):
        row, chunk = byte // 128 % 8, byte // 16 % 8
        moved = {32: row % 2, 64: row % 4, 128: row}[span]
        made[byte // 128 * 128 + (chunk ^ moved) * 16 + byte % 16] = given[byte]
    return made


@pytest.mark.parametrize("at", [(0, 0), (50, 16), (-3, -2), (99, 71), (200, 0), (-64, 8)])
def test_boxes_with_edges(at: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(1, 100 * 72 + 1, dtype=np.uint16).reshape(100, 72)
    text = box_kernel(2, 8192, "")
    launch, (_, out, *_) = both(
        text,
        [lambda own: TensorMap(array, box=(64, 64)), np.zeros((64, 64), np.uint16), at[1], at[0]],
        monkeypatch,
    )
    expected = boxed(array, (64, 64), at)
    np.testing.assert_array_equal(out, expected)
    assert launch.totals["smsp__inst_executed_op_tma_ld.sum"] == 1
    # Rows are 144 bytes apart: the sectors that the part inside touches.
    rows = range(max(0, at[0]), min(100, at[0] + 64))
    first, stop = max(0, at[1]), min(72, at[1] + 64)
    sectors = {
        byte // 32 for row in rows for byte in range(row * 144 + 2 * first, row * 144 + 2 * stop)
    }
    assert launch.totals[f"l1tex__m_xbar2l1tex_read_{READ}"] == len(sectors)


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
@pytest.mark.parametrize("start", [0, 128, 512])
def test_swizzles_follow_the_address(
    swizzle: Any, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    span = int(swizzle[:-1])
    array = np.arange(128 * span, dtype=np.uint32).astype(np.uint8).reshape(128, span)
    text = box_kernel(2, 64 * span + 1024, "", expect=64 * span).replace(
        "[%r2], [%d9", f"[%r2+{start}], [%d9"
    )
    _, (_, out, *_) = both(
        text,
        [
            lambda own: TensorMap(array, box=(64, span), swizzle=swizzle),
            np.zeros(64 * span + 1024, np.uint8),
            *(0, 5),
        ],
        monkeypatch,
    )
    content = np.zeros(64 * span + 1024, np.uint8)
    content[start : start + 64 * span] = array[5:69].reshape(-1)
    expected = swizzled(content, span)
    # What lies around the box is not written.
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("shape", "box", "at", "every"),
    [
        ((100,), (32,), (80,), None),
        ((5, 6, 16), (2, 3, 8), (4, 4, 12), None),
        ((3, 4, 5, 16), (2, 2, 3, 8), (-1, 3, 1, 8), None),
        ((2, 3, 4, 5, 16), (2, 1, 2, 3, 4), (1, 2, 3, -1, 2), None),
        ((40, 32), (20, 16), (3, 4), (3, 1)),
        ((40, 32), (20, 16), (-4, 4), (3, 1)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_axes_and_element_strides(
    shape: Any, box: Any, at: Any, every: Any, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    array = np.arange(1, np.prod(shape) + 1, dtype=dtype).reshape(shape)
    tensor = TensorMap(array, box=box, element_strides=every)
    expected = boxed(array, box, at, every)
    assert tensor.box_bytes == expected.nbytes
    text = box_kernel(len(box), expected.nbytes, "")
    _, (_, out, *_) = both(
        text, [lambda own: tensor, np.zeros_like(expected), *at[::-1]], monkeypatch
    )
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_nan_fill_and_strided_views(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.arange(20 * 48).reshape(20, 48).astype(dtype)
    view = whole[2::2, 16:32]
    count = 32 // view.itemsize
    text = box_kernel(2, 8 * 32, "")
    _, (_, out, *_) = both(
        text,
        [
            lambda own: TensorMap(view, box=(8, count), fill="nan"),
            np.zeros((8, count), dtype),
            *(3, 5),
        ],
        monkeypatch,
    )
    expected = boxed(view, (8, count), (5, 3)).astype(np.float64)
    expected[4:] = np.nan
    expected[:, 13:] = np.nan
    np.testing.assert_array_equal(out.astype(np.float64), expected)


def test_a_map_in_device_memory_and_a_generic_barrier(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(64, dtype=np.float32).reshape(8, 8)
    text = text_of(
        "ld.param.u64 %d9, [m];\ncvt.u64.u32 %d5, %r1;\ncvta.shared.u64 %d5, %d5;\n"
        + by_one(
            "mbarrier.init.b64 [%d5], 1;\nmbarrier.arrive.expect_tx.b64 %d6, [%d5], 128;\n"
            "prefetch.tensormap [%d9];\n"
            "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%d9, {0, 0}];\n"
            "mov.b64 %d7, 0;\n"
            + LOAD.format(axes=2)[:-1]
            + ".L2::cache_hint [%r2], [%d9, {4, 2}], [%r1], %d7;"
        )
        + wait("%r1", 0, "W")
        + out_of_tile(128),
        parameters=".param .u64 m, .param .u64 x",
    )
    _, (_, out) = both(
        text, [lambda own: TensorMap(array, box=(8, 4)), np.zeros((8, 4), np.float32)], monkeypatch
    )
    np.testing.assert_array_equal(out, boxed(array, (8, 4), (2, 4)))


def test_runs_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Device to shared memory, within shared memory, and back."""
    text = text_of(
        by_one(
            "mbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.init.shared::cta.b64 [%r1+8], 1;\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 1008;\n"
            "mov.u32 %r3, 1008;\n"
            "cp.async.bulk.prefetch.L2.global [%d0+16], %r3;\n"
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r2], [%d0+16], %r3, [%r1];"
        )
        + wait("%r1", 0, "W")
        + "setp.ne.u32 %p1, %r0, 0;\n@%p1 bra DONE;\n"
        + "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1+8], 32;\n"
        + "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
        + "[%r2+2048], [%r2+16], 32, [%r1+8];\n"
        + wait("%r1+8", 0, "V")
        + "fence.proxy.async.shared::cta;\n"
        + "cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2+2048], 32;\n"
        + "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n"
        + "ld.global.u32 %r20, [%d0+4];\nst.global.u32 [%d0+1020], %r20;\n"
    )
    data = np.arange(256, dtype=np.uint32)
    launch, (out,) = both(text, [data.copy()], monkeypatch)
    expected = data.copy()
    expected[:8] = data[8:16]
    expected[255] = data[9]
    np.testing.assert_array_equal(out, expected)
    assert launch.totals[f"l1tex__m_xbar2l1tex_read_{READ}"] == 32
    assert launch.totals["l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_st.sum"] == 1


def store_kernel(instruction: str, size: int, after: str) -> str:
    """Fill the tile with what x holds, then one thread copies it out and waits in some way."""
    return text_of(
        GET_MAP
        + f"shl.b32 %r20, %r0, 4;\nFILL:\nsetp.ge.u32 %p10, %r20, {size};\n@%p10 bra FILLED;\n"
        + "add.u32 %r21, %r2, %r20;\ncvt.u64.u32 %d10, %r20;\nadd.u64 %d10, %d0, %d10;\n"
        + "ld.global.v4.b32 {%r22,%r23,%r24,%r25}, [%d10];\n"
        + "st.shared.v4.b32 [%r21], {%r22,%r23,%r24,%r25};\n"
        + "add.u32 %r20, %r20, 512;\nbra FILL;\nFILLED:\nfence.proxy.async.shared::cta;\n"
        + "bar.sync 0;\nelect.sync %r5|%p1, 0xffffffff;\n@!%p1 bra DONE;\n"
        + f"{instruction}\n{after}",
        parameters=MAP,
    )


COMMIT = "cp.async.bulk.commit_group;\n"
WAIT = COMMIT + "cp.async.bulk.wait_group 0;\n"


@pytest.mark.parametrize("swizzle", [None, "128B"])
def test_boxes_go_out_within_the_tensor(swizzle: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = store_kernel(
        "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%d9, {40, 6}], [%r2];",
        8 * 128,
        WAIT,
    )
    given = np.arange(8 * 64, dtype=np.uint16).reshape(8, 64)
    source = given if swizzle is None else swizzled(given, 128).view(np.uint16).reshape(8, 64)
    target = np.zeros((10, 80), np.uint16)
    _, (_, _, out) = both(
        text.replace("u64 x)", "u64 x, .param .u64 y)"),
        [lambda own: TensorMap(own[2], box=(8, 64), swizzle=swizzle), source, target],
        monkeypatch,
    )
    expected = np.zeros_like(target)
    expected[6:, 40:] = given[:4, :40]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize(
    ("dtype", "operation", "combine"),
    [
        (np.float32, "add", np.add),
        (np.uint32, "min", np.minimum),
        (np.int32, "max", np.maximum),
        (np.uint64, "xor", np.bitwise_xor),
        (np.float16, "add", np.add),
        (ml_dtypes.bfloat16, "max", np.maximum),
    ],
)
def test_boxes_that_reduce(
    dtype: Any, operation: str, combine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 32 // np.dtype(dtype).itemsize
    text = store_kernel(
        f"cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group "
        "[%d9, {0, 2}], [%r2];",
        4 * 32,
        WAIT,
    ).replace("u64 x)", "u64 x, .param .u64 y)")
    generator = np.random.default_rng(1)
    given, target = (generator.integers(0, 9, (4, count)).astype(dtype) for _ in range(2))
    launch, (_, _, out) = both(
        text, [lambda own: TensorMap(own[2], box=(4, count)), given, target.copy()], monkeypatch
    )
    expected = target.copy()
    expected[2:] = combine(target[2:], given[:2])
    np.testing.assert_array_equal(out, expected)
    assert launch.totals["l1tex__m_l1tex2xbar_write_sectors_mem_global_op_tma_red.sum"] == 2


@pytest.mark.parametrize(
    ("type", "dtype"), [("add.u32", np.uint32), ("add.f32", np.float32), ("max.s64", np.int64)]
)
def test_runs_that_reduce(type: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        store_kernel(
            f"add.u64 %d12, %d0, 128;\n"
            f"cp.reduce.async.bulk.global.shared::cta.bulk_group.{type} [%d12], [%r2], 128;",
            128,
            WAIT,
        )
        .replace(MAP, ".param .u64 x")
        .replace(GET_MAP, "")
    )
    data = np.arange(256 // np.dtype(dtype).itemsize).astype(dtype)
    _, (out,) = both(text, [data.copy()], monkeypatch)
    half = len(data) // 2
    given, old = data[:half], data[half:]
    expected = np.maximum(given, old) if type.startswith("max") else given + old
    np.testing.assert_array_equal(out[half:], expected)


@pytest.mark.parametrize(
    ("after", "sees"),
    [
        # A store that nobody waits for is over with the kernel; its bytes are read at its end.
        ("st.shared.u32 [%r2], -1;\n", 0xFFFFFFFF),
        (COMMIT + "cp.async.bulk.wait_group.read 0;\nst.shared.u32 [%r2], -1;\n", 0),
        (COMMIT + COMMIT + "cp.async.bulk.wait_group.read 2;\nst.shared.u32 [%r2], -1;\n",
         0xFFFFFFFF),
        (COMMIT + COMMIT + "cp.async.bulk.wait_group.read 1;\nst.shared.u32 [%r2], -1;\n", 0),
    ],
)  # fmt: skip
def test_bytes_are_read_when_their_group_is_waited_for(
    after: str, sees: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = store_kernel(
        "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%d9, {0}], [%r2];", 16, after
    ).replace("u64 x)", "u64 x, .param .u64 y)")
    _, (_, _, out) = both(
        text,
        [lambda own: TensorMap(own[2], box=(4,)), np.arange(4, dtype=np.uint32),
         np.zeros(4, np.uint32)],
        monkeypatch,
    )  # fmt: skip
    np.testing.assert_array_equal(out, [sees, 1, 2, 3])


def test_a_wait_that_is_missing_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the phase is over, the bytes on their way are all ones."""
    text = box_kernel(2, 1024, "").replace("@!%p14 bra W;", "")
    text = text.replace("mbarrier.try_wait.parity.shared::cta.b64 %p14, [%r1], 0;", "")
    _, (_, out, *_) = both(
        text,
        [
            lambda own: TensorMap(np.ones((8, 32), np.float32), box=(8, 32)),
            np.zeros((8, 32), np.float32),
            *(0, 0),
        ],
        monkeypatch,
    )
    assert np.isnan(out).all()


@pytest.mark.parametrize("expect", [496, 1008])
@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_a_wrong_number_of_bytes_is_a_deadlock(expect: int, engine: Any) -> None:
    text = box_kernel(1, 512, "", expect=expect)
    with pytest.raises(PtxFault, match=f"tx-count {expect - 512}"):
        tensor = TensorMap(np.zeros(256, np.float32), box=(128,))
        run(text, "k", 1, 32, [tensor, np.zeros(128, np.float32), 0], engine=engine)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[%r2], [%d9", "[%r2+64], [%d9"), "shared address 0x40 is not aligned to 128 bytes"),
        (("[%r2], [%d9", "[%r2+16384], [%d9"), "out of range for 1024 bytes"),
        (("cvta.param.u64 %d9, %d8", "mov.b64 %d9, %d0"), "there is no tensor map at address"),
        (("mbarrier.init.shared::cta.b64 [%r1], 1;", ""), "no mbarrier was initialised there"),
        (("2d.shared", "1d.shared"), None),
    ],
)
@pytest.mark.parametrize("engine", ["numpy", "compiled"])
def test_boxes_that_are_refused(change: tuple[str, str], message: Any, engine: Any) -> None:
    text = box_kernel(2, 1024, "").replace(*change)
    if message is None:
        text = text.replace("{%r10, %r11}", "{%r10}")
        message = "1 coordinates for a tensor map of 2 axes"
    assembled(text)
    tensor = TensorMap(np.zeros((8, 32), np.float32), box=(8, 32))
    with pytest.raises(PtxFault) as caught:
        run(text, "k", 1, 32, [tensor, np.zeros((8, 32), np.float32), 0, 0], engine=engine)
    assert message in str(caught.value) and "thread (0, 0, 0)" in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[%d0+16]", "[%d0+8]"), "is not aligned to 16 bytes"),
        (("[%d0+16]", "[%d0+512]"), "out of range for 1008 bytes"),
        (("%r3, 1008", "%r3, 1000"), "1000 bytes, expected a multiple of 16"),
    ],
)
def test_runs_that_are_refused(change: tuple[str, str], message: str) -> None:
    text = text_of(
        by_one(
            "mbarrier.init.shared::cta.b64 [%r1], 1;\nmov.u32 %r3, 1008;\n"
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r2], [%d0+16], %r3, [%r1];"
        )
    )
    with pytest.raises(PtxFault, match=message):
        run(text.replace(*change), "k", 1, 32, [np.zeros(256, np.uint32)], engine="numpy")


def multicast(mask: int) -> str:
    text = box_kernel(2, 1024, "")
    return (
        text.replace("complete_tx::bytes [", "complete_tx::bytes.multicast::cluster [")
        .replace(", [%r1];\nfence", ", [%r1], %h1;\nfence")
        .replace("mov.b64 %d8, m;", f"mov.b64 %d8, m;\nmov.u16 %h1, {mask};")
    )


def test_multicast_to_the_only_block(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(256, dtype=np.float32).reshape(8, 32)
    _, (_, out, *_) = both(
        multicast(1),
        [lambda own: TensorMap(array, box=(8, 32)), np.zeros_like(array), 0, 0],
        monkeypatch,
    )
    np.testing.assert_array_equal(out, array)
    with pytest.raises(PtxFault, match="a multicast to the blocks 0x3 of a cluster of 1 block"):
        run(multicast(3), "k", 1, 32, [TensorMap(array, box=(8, 32)), array.copy(), 0, 0])


F32 = np.zeros((16, 64), np.float32)


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (F32, {"box": (8, 6)}, "24 bytes, expected a multiple of 16"),
        (F32, {"box": (0, 8)}, "size 0 of axis 0, expected 1 to 256"),
        (np.zeros(1024, np.uint8), {"box": (512,)}, "size 512 of axis 0"),
        (F32, {"box": (8, 64), "swizzle": "128B"}, "256 bytes, expected at most 128"),
        (F32, {"box": (8, 16), "swizzle": "32B"}, "64 bytes, expected at most 32"),
        (F32, {"box": (8, 16), "swizzle": "256B"}, "swizzle='256B': expected None"),
        (F32, {"box": (8, 16), "fill": "one"}, "fill='one': expected 'zero' or 'nan'"),
        (F32.astype(int), {"box": (8, 2), "fill": "nan"}, "int64 has no NaN"),
        (F32, {"box": (8, 16), "interleave": "16B"}, "interleaved layouts are not simulated"),
        (F32, {"box": (8,)}, "box: 1 numbers, expected 2"),
        (F32, {"box": (8, 8), "element_strides": (9, 1)}, "9 of axis 0, expected 1 to 8"),
        (F32, {"box": (8, 8), "element_strides": (1, 2)}, "2 of the last axis, expected 1"),
        (F32.T, {"box": (8, 8)}, "lie 256 bytes apart, expected 4"),
        (F32[:, :63].copy(), {"box": (8, 8)}, "252 bytes of axis 0, expected a multiple of 16"),
        (F32, {"box": (8, 8), "shape": (17, 64)}, "ends at byte 4352, the array at byte 4096"),
        (np.zeros((2,) * 6, np.float32), {"box": (2,) * 6}, "6 axes, expected 1 to 5"),
        (F32.astype(complex), {"box": (8, 1)}, "elements of complex128 have no tensor maps"),
        (np.zeros((0, 64), np.float32), {"box": (8, 8)}, "the last axis lie 0 bytes apart"),
    ],
)  # fmt: skip
def test_maps_that_the_driver_refuses(array: Any, options: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        TensorMap(array, **options)
    assert message in str(caught.value)


def test_maps_of_a_wrong_parameter_or_place() -> None:
    tensor = TensorMap(F32[:, 2:62], box=(8, 8))
    text = box_kernel(2, 256, "")
    with pytest.raises(ArgumentError, match="multiple of 16 bytes"):
        run(text, "k", 1, 32, [tensor, F32, 0, 0])
    tensor = TensorMap(F32, box=(8, 8))
    with pytest.raises(ArgumentError, match=r"aligned to 16 bytes, expected .align 64"):
        short = text.replace(".align 64 .b8 m", ".align 16 .b8 m")
        run(short, "k", 1, 32, [tensor, np.zeros(64, np.float32), 0, 0])
    with pytest.raises(ArgumentError, match="expected 128 bytes by value"):
        run(text, "k", 1, 32, [F32, np.zeros(64, np.float32), 0, 0])


@pytest.mark.parametrize("word", ["im2col", "tile::gather4"])
def test_modes_that_are_not_simulated(word: str) -> None:
    text = box_kernel(2, 256, "").replace("global.tile", f"global.{word}")
    with pytest.raises(Exception, match="not simulated"):
        run(text, "k", 1, 32, [TensorMap(F32, box=(8, 8)), np.zeros(64, np.float32), 0, 0])

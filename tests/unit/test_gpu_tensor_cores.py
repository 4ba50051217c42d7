"""Products by ``mma.sync`` on the PTX simulator: every dtype, order, odd size and epilogue."""

import re

import ml_dtypes
import numpy as np
import pytest
import wia_compiler as wia
from wia_compiler.base.errors import CompileError
from wia_compiler.runtime.session import recording

RNG = np.random.default_rng(11)
BF16 = ml_dtypes.bfloat16
PARAMETERS = "ABCD"
ORDERS = {
    "A @ B": ("ik", "kj"),
    "matmul(transpose(A), B)": ("ki", "kj"),
    "matmul(A, transpose(B))": ("ik", "jk"),
    "matmul(transpose(A), transpose(B))": ("ki", "jk"),
}


def numbers(shape, dtype):
    """Standard normal numbers; of 8-bit integers all values."""
    if np.dtype(dtype) == np.int8:
        return RNG.integers(-128, 128, shape).astype(np.int8)
    return RNG.standard_normal(shape).astype(dtype)


def kernel_of(expression, count):
    inputs = ", ".join(f"input {name}: tensor" for name in PARAMETERS[:count])
    return wia.compile(f"kernel g({inputs}, output Y: tensor) {{ Y = {expression}; }}").g


def built(expression, arrays, target="gpu:sm_80", **options):
    """A build with its record, whose decisions are looked at."""
    with recording():
        return kernel_of(expression, len(arrays)).build(*arrays, target=target, **options)


def is_by_tensor_cores(build):
    decisions = build.stage("schedule").decisions
    return any("tensor cores" in each.reason for each in decisions if each.kind == "schedule")


def check(build, arrays, expected, *, rounding=2.0**-10):
    """Run, and compare with a product in f64, or in 64 bits for integers."""
    assert is_by_tensor_cores(build)
    assert build.resources.get("spill_store_bytes", 0) == 0
    found = np.asarray(build(*arrays))
    if expected.dtype.kind in "iu":
        assert np.array_equal(found, expected.astype(found.dtype))
        return
    size = np.abs(expected).max(initial=1)
    np.testing.assert_allclose(
        found.astype(np.float64), expected, rtol=rounding, atol=rounding * size / 16
    )


def product(expression, a, b):
    """The product in numpy, in f64 or i64."""
    wide = np.int64 if a.dtype == np.int8 else np.float64
    left = a.T if "transpose(A)" in expression else a
    right = b.T if "transpose(B)" in expression else b
    return left.astype(wide) @ right.astype(wide)


@pytest.mark.parametrize("sizes", [(64, 80, 96), (17, 127, 33), (130, 40, 100)])
@pytest.mark.parametrize("dtype", [np.float16, BF16, np.int8])
@pytest.mark.parametrize("expression", ORDERS)
def test_every_order_and_odd_size(expression, dtype, sizes):
    size = dict(zip("ijk", sizes, strict=True))
    arrays = [numbers([size[axis] for axis in axes], dtype) for axes in ORDERS[expression]]
    rounding = 2.0**-7 if dtype == BF16 else 2.0**-10
    check(built(expression, arrays), arrays, product(expression, *arrays), rounding=rounding)


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
@pytest.mark.parametrize("expression", ["A @ B", "matmul(transpose(A), transpose(B))"])
def test_turing_multiplies_in_smaller_pieces_through_registers(expression, dtype):
    arrays = [
        numbers([{"i": 65, "j": 72, "k": 48}[axis] for axis in axes], dtype)
        for axes in ORDERS[expression]
    ]
    build = built(expression, arrays, "gpu:sm_75")
    assert "cp.async" not in build.assembly("ptx")
    shape = "m8n8k16" if dtype == np.int8 else "m16n8k8"
    assert f"mma.sync.aligned.{shape}." in build.assembly("ptx")
    check(build, arrays, product(expression, *arrays))


def test_turing_has_no_tensor_cores_for_bf16():
    arrays = [numbers((64, 64), BF16)] * 2
    assert not is_by_tensor_cores(built("A @ B", arrays, "gpu:sm_75"))
    with pytest.raises(CompileError, match="sm_75 has no tensor cores for bf16, sm_80 has"):
        built("A @ B", arrays, "gpu:sm_75", schedule="use_tensor_cores")


EPILOGUES = {
    "relu(A @ B + C)": ((90,), lambda p, c: np.maximum(p + c, 0)),
    "relu(A @ B) + C": ((65, 90), lambda p, c: np.maximum(p, 0) + c),
    "cast(A @ B, f32) * 3.0 + cast(C, f32)": ((65, 90), lambda p, c: 3 * p + c),
    "where(C > 0.0, A @ B, 0.0)": ((65, 90), lambda p, c: np.where(c > 0, p, 0)),
    "cast(A @ B + C, f64)": ((90,), lambda p, c: p + c),
    "cast(floor(A @ B + C), i32)": ((1,), lambda p, c: np.floor(p + c)),
}


@pytest.mark.parametrize("dtype", [np.float16, BF16])
@pytest.mark.parametrize("expression", EPILOGUES)
def test_what_follows_a_product_is_computed_in_registers(expression, dtype):
    shape, function = EPILOGUES[expression]
    arrays = [numbers((65, 48), dtype), numbers((48, 90), dtype), numbers(shape, dtype)]
    arrays[0], arrays[1] = (np.round(2 * each).astype(dtype) for each in arrays[:2])  # exact sums
    build = built(expression, arrays)
    assert is_by_tensor_cores(build)
    assert len(re.findall(r"\.entry", build.assembly("ptx"))) == 1
    found = np.asarray(build(*arrays)).astype(np.float64)
    total = (arrays[0].astype(np.float64) @ arrays[1].astype(np.float64)).astype(dtype)
    expected = function(total.astype(np.float64), arrays[2].astype(np.float64))
    rounding = 2.0**-6 if dtype == BF16 else 2.0**-9
    limit = 1.0 if "floor" in expression else 0.0
    np.testing.assert_allclose(found, expected, rtol=rounding, atol=limit + 8 * rounding)


@pytest.mark.parametrize(
    "expression,shapes",
    [
        ("A @ B", ((3, 65, 33), (3, 33, 40))),
        ("A @ B", ((2, 3, 40, 64), (64, 72))),
        ("relu(A @ B)", ((2, 2, 33, 48), (2, 48, 65))),
        ("matmul(A, transpose(B, 1, 2))", ((3, 64, 32), (3, 48, 32))),
    ],
)
def test_batches(expression, shapes):
    arrays = [numbers(shape, np.float16) for shape in shapes]
    right = arrays[1].astype(np.float64)
    right = np.swapaxes(right, 1, 2) if "transpose" in expression else right
    expected = arrays[0].astype(np.float64) @ right
    if expression.startswith("relu"):
        expected = np.maximum(expected, 0)
    check(built(expression, arrays), arrays, expected)


@pytest.mark.parametrize(
    "left,right",
    [
        (np.s_[::2, ::2], np.s_[:64]),
        (np.s_[:100, 1:65], np.s_[::-2]),
        (np.s_[::-1, :64], np.s_[64:, 3:67]),
    ],
)
def test_strided_views(left, right):
    arrays = [numbers((200, 128), np.float16)[left], numbers((128, 72), np.float16)[right]]
    check(built("A @ B", arrays), arrays, product("A @ B", *arrays))


def test_products_of_empty_arrays():
    for rows, depth, columns in ((64, 0, 64), (0, 64, 64), (64, 64, 0)):
        arrays = [numbers((rows, depth), np.float16), numbers((depth, columns), np.float16)]
        found = np.asarray(built("A @ B", arrays)(*arrays))
        assert found.shape == (rows, columns)
        assert not found.any()


def test_nan_and_infinity_stay_in_their_rows_and_columns():
    a, b = numbers((40, 40), np.float16), numbers((40, 40), np.float16)
    a[3, 5], b[7, 11] = np.nan, np.inf
    found = np.asarray(built("A @ B", [a, b])(a, b)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    assert np.array_equal(np.isnan(found), np.isnan(expected))
    assert np.array_equal(np.isinf(found), np.isinf(expected))


def test_integers_are_added_up_in_32_bits_where_that_is_asked():
    arrays = [numbers((72, 130), np.int8), numbers((130, 80), np.int8)]
    expected = arrays[0].astype(np.int64) @ arrays[1].astype(np.int64)
    for expression in ("matmul_integer(A, B)", "cast(A, i32) @ cast(B, i32)"):
        build = built(expression, arrays)
        assert "s32.s8.s8.s32" in build.assembly("ptx")
        check(build, arrays, expected)


TILES = (
    "tile i 128, j 128, k 32; tile i 64, j 32 @warp; pipeline k 3; use_tensor_cores",
    "tile i 64, j 128, k 64; tile i 32, j 64 @warp; pipeline k 4; use_tensor_cores",
    "tile i 64, j 64, k 16; tile i 16, j 64 @warp; pipeline k 1; use_tensor_cores",
    "tile i 16, j 16, k 128; tile i 16, j 16 @warp; pipeline k 2; use_tensor_cores",
    "tile j 32; use_tensor_cores; pipeline k 5",
)


@pytest.mark.parametrize("schedule", TILES)
@pytest.mark.parametrize("sizes", [(130, 150, 200), (33, 20, 40)])
def test_tiles_of_a_schedule(schedule, sizes):
    rows, columns, depth = sizes
    arrays = [numbers((rows, depth), np.float16), numbers((depth, columns), np.float16)]
    build = built("A @ B", arrays, schedule=schedule)
    check(build, arrays, product("A @ B", *arrays))


@pytest.mark.parametrize("schedule", TILES[:3])
@pytest.mark.parametrize("expression", ORDERS)
def test_copies_are_waited_for_and_nobody_writes_what_is_read(expression, schedule):
    """The checks of the simulator: races, early reads of copies, reads of what nothing wrote."""
    size = {"i": 70, "j": 72, "k": 104}
    arrays = [numbers([size[axis] for axis in axes], np.float16) for axes in ORDERS[expression]]
    build = built(expression, arrays, schedule=schedule, debug=True)
    check(build, arrays, product(expression, *arrays))


def test_large_shares_of_a_tile_are_stored_at_once():
    """Bytes that no asynchronous copy takes, more than a thread holds beside its sums."""
    arrays = [numbers((131, 203), np.int8), numbers((203, 67), np.int8)]
    schedule = "tile i 128, j 64; use_tensor_cores"
    build = built("A @ B", arrays, schedule=schedule, debug=True)
    assert is_by_tensor_cores(build)
    assert np.array_equal(build(*arrays), product("A @ B", *arrays).astype(np.int8))


def test_the_default_can_be_pasted():
    arrays = [numbers((256, 192), np.float16), numbers((192, 320), np.float16)]
    for target in ("gpu:sm_75", "gpu:sm_80", "gpu:sm_120"):
        chosen = built("A @ B", arrays, target)
        assert "use_tensor_cores" in chosen.schedule
        pasted = built("A @ B", arrays, target, schedule=chosen.schedule)
        assert pasted.assembly("ptx") == chosen.assembly("ptx")


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.int8])
@pytest.mark.parametrize("expression", ORDERS)
def test_memory_is_accessed_without_waste(expression, dtype):
    """No bank conflicts, no sectors but those that are needed, all products by tensor cores."""
    arrays = [numbers((256, 256), dtype)] * 2
    schedule = "tile i 128, j 128; use_tensor_cores"
    kernel = kernel_of(expression, 2).to("gpu:sm_80", schedule=schedule)
    counters = kernel.profile(*arrays).counters
    conflicts = [name for name in counters if "bank_conflicts" in name]
    assert conflicts and not any(counters[name] for name in conflicts)
    assert counters["derived__memory_l2_theoretical_sectors_global_excessive"] == 0
    assert counters["flops_tensor"] == 2 * 256**3
    bytes_read = 2 * 2 * 256 * 256 * arrays[0].itemsize  # each operand by two blocks
    copied = counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ldgsts.sum"]
    assert copied == bytes_read / 32


@pytest.mark.parametrize("expression", ORDERS)
def test_f32_is_rounded_to_tf32_where_a_schedule_says_so(expression):
    size = {"i": 40, "j": 72, "k": 50}
    arrays = [numbers([size[axis] for axis in axes], np.float32) for axes in ORDERS[expression]]
    assert not is_by_tensor_cores(built(expression, arrays))
    build = built(expression, arrays, schedule="use_tensor_cores tf32")
    (decision,) = build.stage("schedule").decisions
    assert decision.numbers["rounds to"] == "tf32"
    assert "use_tensor_cores tf32" in build.schedule
    # Each operand is off by half of its last of 11 bits, so a sum by 2⁻¹⁰ of its terms' sizes.
    found = np.asarray(build(*arrays)).astype(np.float64)
    terms = product(expression, *map(np.abs, arrays))
    error = np.abs(found - product(expression, *arrays))
    assert (error <= 2 * 2.0**-11 * 1.001 * terms + 1e-6).all()
    assert error.max() > 1e-4
    # Whole numbers of few bits are not rounded.
    arrays = [np.round(each * 100).clip(-500, 500).astype(np.float32) for each in arrays]
    assert np.array_equal(np.asarray(build(*arrays)), product(expression, *arrays))


@pytest.mark.parametrize(
    "dtype,schedule,target,message",
    [
        (np.float32, "use_tensor_cores", "sm_80", "round f32 to tf32, 10 bits of mantissa"),
        (np.float16, "use_tensor_cores tf32", "sm_80", "tf32 is for f32, here f16"),
        (np.float16, "use_tensor_cores f32", "sm_80", "takes the word tf32 or none, found f32"),
        (np.float64, "use_tensor_cores", "sm_80", "here f64 is added up in f64"),
        (np.float32, "use_tensor_cores tf32", "sm_75", "sm_75 has no tensor cores for tf32"),
        (np.float16, "tile i 48; use_tensor_cores", "sm_80", "48 is none"),
        (np.float16, "tile k 8; use_tensor_cores", "sm_80", "f16 is added up 16 at a time"),
        (np.float16, "tile i 24 @warp; use_tensor_cores", "sm_80", "a multiple of 16"),
        (np.float16, "tile i 128, j 128, k 256; use_tensor_cores", "sm_86", "bytes of shared"),
        (
            np.float16,
            "tile i 256, j 64; tile i 256, j 64 @warp; use_tensor_cores",
            "sm_80",
            "a thread would hold 512 sums",
        ),
        (np.float16, "thread_tile i 4; use_tensor_cores", "sm_80", "what its matrix unit gives"),
        (np.float16, "tile k 16 @warp; use_tensor_cores", "sm_80", "axis 'k' is folded"),
        (np.float16, "tile i 64 @thread; use_tensor_cores", "sm_80", "of blocks and of warps"),
        (np.float16, "pipeline i 2; use_tensor_cores", "sm_80", "those of the folded axis"),
        (np.float16, "pipeline k 3; use_tensor_cores", "sm_75", "3 stages on sm_75"),
        (np.float16, "tile i 32; tile i 64; use_tensor_cores", "sm_80", "stands twice"),
    ],
)
def test_what_tensor_cores_cannot_do_is_said(dtype, schedule, target, message):
    arrays = [numbers((256, 256), dtype)] * 2
    with pytest.raises(CompileError) as refused:
        built("A @ B", arrays, f"gpu:{target}", schedule=schedule)
    assert message in str(refused.value)
    assert "help: " in str(refused.value)


def test_one_schedule_serves_all_sizes():
    """Where an axis has one point there is no tile: the target chooses, and says so."""
    for rows, depth, columns in ((1, 48, 64), (64, 48, 1), (1, 48, 1), (64, 1, 64), (64, 0, 64)):
        arrays = [numbers((rows, depth), np.float16), numbers((depth, columns), np.float16)]
        build = built("A @ B", arrays, schedule="tile i 64, j 64; use_tensor_cores")
        np.testing.assert_allclose(
            np.asarray(build(*arrays)).astype(np.float64),
            product("A @ B", *arrays),
            rtol=2.0**-9,
            atol=2.0**-9,
        )
        assert any("no tile" in each.reason for each in build.stage("schedule").decisions)


def test_the_nest_before_and_after():
    arrays = [numbers((256, 96), np.float16), numbers((96, 256), np.float16)]
    build = built("A @ B", arrays, schedule=TILES[0])
    before, after = build.stage("loops").text, build.stage("schedule").text
    assert 'memref<1x1xf32, "register">' in before
    for text in (
        'memref.alloc() {wia.layout = "mma(2x4)"} : memref<128x128xf32, "register">',
        'memref.alloc() {wia.swizzle = "rows"} : memref<128x32xf16, "shared">',
        'memref.alloc() {wia.swizzle = "rows"} : memref<32x128xf16, "shared">',
        'tile.for %k0 in 96 step 32 axis "k.0" @serial attributes {wia.pipeline = 3 : i64}',
        "wia.mma = [16 : i64, 8 : i64, 16 : i64]",
        "wia.async",
    ):
        assert text in after, text
    low = build.stage("lower").text
    for op in (
        "nvgpu.device_async_copy",
        "nvgpu.device_async_create_group",
        "nvgpu.device_async_wait",
        "nvgpu.ldmatrix",
        "nvgpu.mma.sync",
    ):
        assert op in low, op

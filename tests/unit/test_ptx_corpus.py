"""PTX that nvcc made of small CUDA sources runs on both engines alike: tests/data/cuda/*.cu.

nvcc 13.5, -ptx -arch=sm_90 -std=c++17 -O3 (hopper.cu: -arch=sm_90a).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from ptx_texts import engine_alone
from wia_compiler.simulators.ptx import Launch, run

DATA = Path(__file__).parents[1] / "data" / "cuda"
RNG = np.random.default_rng(53)
SIZES = [1, 3, 17, 127, 1000]


def both(
    file: str, entry: str, grid: Any, block: Any, args: list[Any], **options: Any
) -> tuple[list[Any], Launch]:
    """Run on both engines; the arguments as they are afterwards, and what was counted."""
    text = (DATA / f"{file}.ptx").read_text("utf-8")
    found: list[tuple[list[Any], Launch]] = []
    for engine in ("numpy", "compiled"):
        mine = [each.copy() if isinstance(each, np.ndarray) else each for each in args]
        with engine_alone(engine):
            done = run(text, entry, grid, block, mine, engine=engine, **options)
        found.append((mine, done))
    (first, counted), (second, compiled) = found
    for a, b in zip(first, second, strict=True):
        if isinstance(a, np.ndarray):
            np.testing.assert_array_equal(a.view(np.uint8), b.view(np.uint8))
    assert dict(counted.totals) == dict(compiled.totals)
    assert dict(counted.lines) == dict(compiled.lines)
    return first, counted


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("tiles", [0, 1, 2, 7])
def test_copies_that_overlap_with_computation(tiles):
    x, w = floats(3, max(tiles, 1), 128), floats(max(tiles, 1))
    (_, _, y, _), done = both(
        "pipeline", "pipelined", 3, 128, [x, w, np.zeros((3, 128), "f4"), tiles]
    )
    places = (np.arange(128) * 5 + 3) % 128
    wanted = np.zeros((3, 128))
    for tile in range(tiles):
        wanted += x[:, tile, places].astype("f8") * w[tile]
    np.testing.assert_allclose(y, wanted, atol=1e-5)
    copies = done.counters.get("l1tex__t_requests_pipe_lsu_mem_global_op_ldgsts.sum", 0)
    assert copies == 3 * tiles


@pytest.mark.parametrize("size", [0, *SIZES])
def test_sums_of_cooperative_groups(size):
    x = RNG.integers(-1000, 1000, max(size, 1)).astype(np.int32)
    (_, y, _), _ = both("cooperation", "sum_of_groups", 1, 96, [x, np.zeros(1, "i4"), size])
    assert y[0] == x[:size].sum()


def test_shuffles_of_a_tile_of_four():
    x = floats(256)
    (_, y), _ = both("cooperation", "largest_of_four", 2, 128, [x, np.zeros(64, "f4")])
    np.testing.assert_array_equal(y, x.reshape(-1, 4).max(axis=1))


@pytest.mark.parametrize("size", SIZES)
def test_threads_that_chose_the_same_way_act_as_one(size):
    x = RNG.integers(-50, 50, size).astype(np.int32)
    (_, count, _), done = both("cooperation", "count_odd", 8, 128, [x, np.zeros(1, "i4"), size])
    assert count[0] == (x % 2 != 0).sum()
    assert done.counters["ptx_branches_divergent"] > 0 or size < 3


def stepped(x: np.float32, n: int) -> np.float32:
    r = x
    for _ in range(n):
        r = np.float32(np.float64(r) * 0.5 + np.float64(x))
    return r


@pytest.mark.parametrize("size", SIZES)
def test_functions_that_are_called(size):
    x = floats(size)
    args = [x, np.zeros(size, "f4"), np.zeros(size, "i4"), size]
    (_, y, z, _), _ = both("control", "calls", -(-size // 64), 64, args)
    for i in range(size):
        s = stepped(x[i], i % 7)
        if i % 3 == 0:
            s = stepped(s, 2) - s
        assert y[i] == s
        quotient = int((i * 37 - 100) / (i % 5 + 1))
        rest = i * 37 - 100 - quotient * (i % 5 + 1)
        n = i % 3
        power = 1 if n == 0 else (i if n & 1 else 1) * (1 if n < 2 else i * i)
        assert z[i] == quotient * 1000 + rest + power


def chosen(i: int, v: int, x: np.ndarray) -> int:
    n = len(x)
    match v:
        case 0:
            return sum(range(i % 3))
        case 1:
            return v * 3 + x[(i + 1) % n]
        case 2:
            return v ^ 0x55
        case 3:
            return (v * 12345 + i).bit_count()
        case 4:
            return i << 7
        case 5 | 6:
            r = 0
            if v == 5:
                r = -v
                for k in range(i % 4):
                    r += k * r
            return r + 1000
        case 7:
            return int(x[(i + 2) % n] / 3)
        case 8:
            return i * i
        case 9:
            return 0
        case 10:
            return x[i // 2] - 1
        case _:
            return 32 - (v % 2**32).bit_length()


@pytest.mark.parametrize("size", SIZES)
def test_a_switch(size):
    x = RNG.integers(-2, 14, size).astype(np.int32)
    (_, y, _), _ = both(
        "control", "choices", -(-size // 64), 64, [x, np.zeros(size + 1, "i4"), size]
    )
    wanted = [chosen(i, int(x[i]), x) for i in range(size)]
    np.testing.assert_array_equal(y[:size], wanted)
    loops = sum(i % 3 for i in range(size) if x[i] == 0)
    assert y[size] == loops + 10 * (x == 9).sum()


def test_arrays_of_a_thread():
    x = RNG.integers(-100, 100, (96, 16)).astype(np.int32)
    (_, y), done = both("control", "sorted", 3, 32, [x, np.zeros_like(x)])
    np.testing.assert_array_equal(y, np.sort(x, axis=1))
    assert done.counters["l1tex__t_requests_pipe_lsu_mem_local_op_ld.sum"] > 0


@pytest.mark.parametrize("size", SIZES)
def test_halves(size):
    x, w = (RNG.standard_normal((size, 2)).astype(np.float16) for _ in range(2))
    args = [x, w, np.zeros_like(x), size]
    (_, _, y, _), _ = both("arithmetic", "halves", -(-size // 128), 128, args)

    def short(value: Any) -> np.ndarray:
        return value.astype(np.float16).astype("f8")

    a, b = x.astype("f8"), w.astype("f8")
    s = short(a * b + short(a + b))
    s = np.maximum(s, short(a * 0.25))
    s = np.where((s[:, :1] > s[:, 1:]), s[:, ::-1], s)
    np.testing.assert_array_equal(y, short(s + a[:, :1]).astype(np.float16))


@pytest.mark.parametrize("size", SIZES)
def test_brain_floats(size):
    x = RNG.standard_normal((size, 2)).astype(ml_dtypes.bfloat16)
    args = [x.view(np.uint16), np.zeros((size, 2), np.uint16), np.zeros(size, "f4"), size]
    (_, y, z, _), _ = both("arithmetic", "brains", -(-size // 128), 128, args)

    def short(value: Any) -> np.ndarray:
        return value.astype(ml_dtypes.bfloat16).astype("f4")

    a = x.astype("f4")
    s = short(a * a + np.float32(1.5))
    np.testing.assert_array_equal(
        y.view(ml_dtypes.bfloat16).astype("f4"), np.minimum(s, short(a + s))
    )
    np.testing.assert_array_equal(z, s[:, 0] + 1)


@pytest.mark.parametrize("size", SIZES)
def test_floats_of_eight_bits(size):
    x = (RNG.standard_normal((size, 2)) * 10.0 ** RNG.integers(-6, 6, (size, 2))).astype("f4")
    x.reshape(-1)[: min(size, 5)] = [np.nan, 449, 1e30, -np.inf, 2.0**-10][: min(size, 5)]
    args = [x, np.zeros((size, 2, 2), np.uint8), np.zeros((size, 2), "f4"), size]
    (_, y, z, _), _ = both("arithmetic", "eighths", -(-size // 128), 128, args)
    wide = []
    for place, (dtype, most) in enumerate(
        ((ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344))
    ):
        wanted = np.clip(x, -most, most).astype(dtype)
        bits = np.where(np.isnan(x), 0x7F, wanted.view(np.uint8))
        np.testing.assert_array_equal(y[:, place], bits)
        wide.append(wanted.astype("f4"))
    np.testing.assert_array_equal(z[:, 0], wide[0][:, 0] + wide[1][:, 0])
    np.testing.assert_array_equal(z[:, 1], wide[0][:, 1] - wide[1][:, 1])


@pytest.mark.parametrize("size", [0, *SIZES])
def test_a_sum_of_doubles(size):
    x = RNG.standard_normal(max(size, 1))
    (_, y, _), done = both("arithmetic", "sum_of_doubles", 1, 256, [x, np.zeros(1), size])
    s = (x[:size] ** 2).sum()
    np.testing.assert_allclose(y[0], np.sqrt(s) / (1 + s), rtol=1e-13)
    assert done.counters["flops_f64"] > 0


def parts(value: int, bits: int, signed: bool) -> list[int]:
    found = [value >> place & (1 << bits) - 1 for place in range(0, 32, bits)]
    return [p - (1 << bits) if signed and p >> (bits - 1) else p for p in found]


def joined(values: list[int], bits: int) -> int:
    return sum((v & (1 << bits) - 1) << bits * n for n, v in enumerate(values))


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def integer_steps(i: int, a: int, b: int) -> int:
    """``integers`` of arithmetic.cu, on numbers of any length."""
    ua, ub = a & 0xFFFFFFFF, b & 0xFFFFFFFF

    def s(value: int) -> int:
        return signed(value, 64)

    r = s(a * b >> 32)
    r = s(r * 31 + (ua * ub >> 32) + (r * s(a * b) >> 64))
    differences = [
        abs(x - y) for x, y in zip(parts(ua, 8, False), parts(ub, 8, False), strict=True)
    ]
    halves = [x + y for x, y in zip(parts(ua, 16, False), parts(ub, 16, False), strict=True)]
    largest = [max(x, y) for x, y in zip(parts(ua, 8, True), parts(ub, 8, True), strict=True)]
    r = s(r * 31 + joined(differences, 8) + joined(halves, 16) + joined(largest, 8))
    fours = sum(x * y for x, y in zip(parts(ua, 8, True), parts(ub, 8, True), strict=True)) + 7
    twos = sum(x * y for x, y in zip(parts(ua, 16, True), parts(ub, 8, True), strict=False)) + 9
    r = s(r * 31 + signed(fours, 32) + signed(twos, 32) + (abs(a - b) + 1 & 0xFFFFFFFF))
    reverse = int(f"{ua:032b}"[::-1], 2)
    first = (ub & -ub).bit_length()
    both_words = ua | ub << 32
    bytes_ = [both_words >> 8 * n & 255 for n in range(8)]
    selector = 0x5140 + (i & 7)
    permuted = joined([bytes_[selector >> 4 * n & 7] for n in range(4)], 8)
    r = s(r * 31 + reverse + first + permuted)
    left = (both_words << (i & 31)) >> 32 & 0xFFFFFFFF
    right = both_words >> min(i + 20, 32) & 0xFFFFFFFF
    r = s(r * 31 + left + right)
    averages = (a + b + 1 >> 1) + (a + b >> 1)
    r = s(r * 31 + averages + 64 - (r & 2**64 - 1).bit_length() + (r & 2**64 - 1).bit_count())
    c, d = signed(a, 16), signed(b, 8) | 1
    short = abs(c) // abs(d) * (1 if (c < 0) == (d < 0) else -1)
    r = s(r * 31 + signed((a & ~b) | (0x1234 ^ b), 32) + short)
    e = b | 1
    whole = abs(a) // abs(e) * (1 if (a < 0) == (e < 0) else -1)
    return s(r + (a & 2**64 - 1) % 1000003 + whole)


@pytest.mark.parametrize("size", SIZES)
def test_integers(size):
    a, b = (RNG.integers(-(2**31) + 1, 2**31, size).astype(np.int32) for _ in range(2))
    args = [a, b, np.zeros(size, np.int64), size]
    (_, _, y, _), _ = both("arithmetic", "integers", -(-size // 128), 128, args)
    wanted = [integer_steps(i, int(a[i]), int(b[i])) for i in range(size)]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize("shape", [(1, 1), (3, 17), (32, 32), (100, 127)])
def test_a_transpose_in_shared_memory(shape):
    x = floats(*shape)
    grid = (-(-shape[1] // 32), -(-shape[0] // 32))
    args = [x, np.zeros(shape[::-1], "f4"), *shape]
    (_, y, *_), done = both("matrices", "transposed", grid, (32, 8), args)
    np.testing.assert_array_equal(y, x.T)
    assert done.counters.get("shared_memory_bank_conflicts", 0) == 0


@pytest.mark.parametrize("size", SIZES)
def test_ballots_and_matches(size):
    x = RNG.integers(-3, 6, size).astype(np.int32)
    args = [x, np.zeros(size, "i4"), np.zeros(size, "i4"), size]
    blocks = -(-size // 64)
    (_, y, same, _), _ = both("matrices", "places", blocks, 64, args)
    padded = np.zeros(blocks * 64, np.int32)
    padded[:size] = x
    for i in range(size):
        warp = padded[i // 32 * 32 :][:32]
        before = (warp[: i % 32] > 0).sum() + 100 * (warp == 5).any() + 1000 * (warp < 100).all()
        assert y[i] == (before if x[i] > 0 else -1)
        assert same[i] == (warp == x[i]).sum() + warp.max()


@pytest.mark.parametrize("sizes", [(16, 16, 16), (32, 48, 64)])
def test_products_of_the_wmma_interface(sizes):
    m, n, k = sizes
    a, b = (RNG.standard_normal(shape).astype(np.float16) for shape in ((m, k), (n, k)))
    args = [a, b, np.zeros((m, n), "f4"), m, n, k]
    (_, _, c, *_), done = both("matrices", "tensor_product", (n // 16, m // 16), 32, args)
    np.testing.assert_allclose(c, a.astype("f8") @ b.astype("f8").T / 2, atol=1e-5)
    assert done.counters["flops_tensor"] == 2 * m * n * k


def test_products_of_bytes_from_shared_memory():
    a, b = (RNG.integers(-128, 128, shape).astype(np.int8) for shape in ((32, 16), (16, 8)))
    (_, _, c), _ = both("matrices", "integer_product", 1, 32, [a, b, np.zeros((8, 32), "i4")])
    np.testing.assert_array_equal(c.T, a.astype("i4") @ b.astype("i4") + 1)


def cores(tiles: np.ndarray) -> np.ndarray:
    """Tiles of rows of 16 halves as wgmma reads them without a swizzle: columns of 8 apart."""
    count, rows, columns = tiles.shape
    return np.ascontiguousarray(tiles.reshape(count, rows, 2, columns // 2).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("tiles", [1, 2, 3, 8])
def test_bulk_copies_barriers_and_products_of_a_warpgroup(tiles):
    a, b = (RNG.standard_normal((tiles, rows, 16)).astype(np.float16) for rows in (64, 32))
    text = (DATA / "hopper.ptx").read_text("utf-8")
    for engine in ("numpy", "compiled"):
        c = np.zeros((64, 32), np.float32)
        done = run(text, "product", 1, 128, [cores(a), cores(b), c, tiles], engine=engine)
        exact = np.einsum("tik,tjk->ij", a.astype("f8"), b.astype("f8"))
        np.testing.assert_allclose(c, exact, atol=1e-5)
        assert done.counters["flops_tensor"] == 2 * 64 * 32 * 16 * tiles
    checked = run(text, "product", 1, 128, [cores(a), cores(b), c, tiles], debug=True)
    assert not [each for each in checked.findings if each.kind == "wgmma"]

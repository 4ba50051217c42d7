"""Matrix products on a GPU by threads: results, counters of the simulator, and what ptxas makes."""

import itertools
import re

import numpy as np
import pytest
import wia_compiler as wia
from unit.gpu_tools import needs_ptxas
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.tile_choice import Product, choose_tiles, modelled
from wia_compiler.backends.gpu.tiling import Tile

PRODUCT = "kernel k(input A: tensor, input B: tensor, output C: tensor) { C = A @ B; }"
LARGE = "tile i 128, j 128, k 8; thread_tile i 8, j 8; pipeline k 2"
CONFLICTS = "shared_memory_bank_conflicts"
EXCESSIVE = "derived__memory_l2_theoretical_sectors_global_excessive"


def numbers(shape, dtype=np.float32):
    generator = np.random.default_rng(sum(shape))
    if np.dtype(dtype).kind == "i":
        return generator.integers(-9, 9, shape).astype(dtype)
    return generator.standard_normal(shape).astype(dtype)


def check(a, b, target="gpu:sm_80", schedule=None):
    build = wia.compile(PRODUCT).k.build(a, b, target=target, schedule=schedule)
    result = build(a, b)
    if a.dtype.kind == "i":
        np.testing.assert_array_equal(result, a @ b)
    else:
        exact = a.astype(np.float64) @ b.astype(np.float64)
        room = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
        assert (np.abs(result - exact) <= np.finfo(a.dtype).eps * (4 + a.shape[-1]) * room).all()
    return build


@pytest.mark.parametrize(
    "size,schedule", [(1, None), (3, None), (17, None), (127, None), (17, LARGE), (130, LARGE)]
)
def test_odd_sizes(size, schedule):
    check(numbers((size, size)), numbers((size, size)), schedule=schedule)


@pytest.mark.parametrize(
    "rows,fold,columns",
    [(1000, 17, 3), (3, 1000, 17), (17, 1, 100), (5, 64, 1000), (64, 12, 64), (0, 4, 5), (4, 0, 5)],
)
def test_long_and_short_sides(rows, fold, columns):
    check(numbers((rows, fold)), numbers((fold, columns)))


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.int16, np.int32, np.int64])
def test_other_types(dtype):
    check(numbers((70, 40), dtype), numbers((40, 66), dtype))


VIEWS = [
    lambda x: x.T.copy().T,
    lambda x: np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::3],
    lambda x: x[::-1, ::-1].copy()[::-1, ::-1],
]


@pytest.mark.parametrize("left", VIEWS)
@pytest.mark.parametrize("right", VIEWS)
def test_strided_operands(left, right):
    check(left(numbers((40, 36))), right(numbers((36, 72))))


@pytest.mark.parametrize("fold", [8, 9, 16, 40])
def test_special_values_go_where_they_belong(fold):
    """What lies past an edge is 0 and is multiplied by nothing else than 0."""
    a, b = numbers((20, fold)), numbers((fold, 24))
    a[3, fold - 1], b[0, 5] = np.inf, np.nan
    build = wia.compile(PRODUCT).k.build(a, b, target="gpu:sm_80", schedule=LARGE)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(build(a, b), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("schedule", [None, LARGE])
def test_shared_memory_without_conflicts_and_global_memory_in_whole_sectors(
    transposed, dtype, schedule
):
    if schedule == LARGE and dtype == np.float64:
        schedule = "tile i 64, j 64, k 8; thread_tile i 4, j 4; pipeline k 2"
    a, b = numbers((128, 128), dtype), numbers((128, 256), dtype)
    if transposed:
        a, b = np.asfortranarray(a), np.asfortranarray(b)
    build = check(a, b, schedule=schedule)
    counters = build.profile(a, b).counters
    assert counters[CONFLICTS] == 0
    assert counters[EXCESSIVE] == 0


@pytest.mark.parametrize("shape", [(127, 127), (130, 33)])
def test_rows_of_any_length_without_conflicts(shape):
    a, b = numbers(shape), numbers((shape[1], 100))
    build = check(a, b, schedule=LARGE)
    assert build.profile(a, b).counters[CONFLICTS] == 0


def instructions(build):
    return re.findall(
        r"^\s+(?:@!?%p\d+\s+)?([a-z][\w.]*)\b.*;", build.assembly("ptx"), re.MULTILINE
    )


def test_a_thread_multiplies_while_it_reads():
    """In the loop: 8 × 8 × 8 multiply-adds, vectors of shared memory, one barrier."""
    specs = [wia.spec((512, 512), "f32")] * 2
    build = wia.compile(PRODUCT).k.build(*specs, target="gpu:sm_80", schedule=LARGE)
    found = instructions(build)
    assert found.count("fma.rn.f32") == 512
    assert found.count("ld.shared.v4.b32") == 32
    assert not [each for each in found if each.startswith("ld.shared") and ".v4" not in each]
    assert found.count("ld.global.nc.v4.b32") == 4, "the first tile, and the next one in the loop"
    assert found.count("bar.sync") == 2
    assert found.count("st.global.v4.b32") == 16
    loop = build.assembly("ptx").partition('.pragma "nounroll"')[2].partition("bra")[0]
    body = re.findall(r"^\s+[a-z][\w.]*\b.*;", loop, re.MULTILINE)
    assert 512 / len(body) > 0.88


@needs_ptxas
@pytest.mark.parametrize("architecture", list(ARCHITECTURES))
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("shape", [(512, 512, 512), (4096, 64, 4096), (127, 65, 99)])
def test_default_tiles_spill_nothing(architecture, dtype, shape):
    rows, fold, columns = shape
    specs = [wia.spec((rows, fold), dtype), wia.spec((fold, columns), dtype)]
    build = wia.compile(PRODUCT).k.build(*specs, target=f"gpu:{architecture}")
    resources = build.resources
    assert resources["spill_store_bytes"] == resources["stack_bytes"] == 0
    assert resources["warnings"] == []


def test_ordered_sums_keep_the_order_of_the_text():
    text = """kernel k(
      input A: tensor<M, K, f32>, input B: tensor<K, N, f32>, output C: tensor<M, N, f32>
    ) {
      for i in 0..M { for j in 0..N {
        C[i, j] = 0.0;
        for k in 0..K { C[i, j] += A[i, k] * B[k, j]; }
      } }
    }"""
    a, b = numbers((33, 48)), numbers((48, 40))
    build = wia.compile(text).k.build(a, b, target="gpu:sm_80")
    expected = np.zeros((33, 40), np.float32)
    for k in range(48):
        expected += a[:, k : k + 1] * b[k : k + 1, :]
    assert (build(a, b) == expected).all()


def test_the_model_fills_the_gpu():
    architecture = ARCHITECTURES["sm_80"]
    small, large = (Product(size, size, size) for size in (512, 8192))
    assert choose_tiles(small, architecture).blocks > architecture.sm_count
    tiles = choose_tiles(large, architecture)
    assert (tiles.rows.block, tiles.columns.block) == (128, 128)
    whole = Tile(128, 8)
    assert (
        modelled(small, whole, whole, architecture).cycles
        > 2 * choose_tiles(small, architecture).cycles
    )


def tiles_of_first_blocks(build, count):
    """Of the blocks that begin first: which tiles along rows and columns they take."""
    loop = re.compile(r"tile\.for %(\w)\d+ in (\d+) step (\d+) .* @grid")
    loops = [(axis, range(0, int(e), int(s))) for axis, e, s in loop.findall(build)]
    found = {axis: set() for axis, _ in loops}
    for place in itertools.islice(itertools.product(*(steps for _, steps in loops)), count):
        at = dict.fromkeys(found, 0)
        for (axis, _), offset in zip(loops, place, strict=True):
            at[axis] += offset
        for axis, offset in at.items():
            found[axis].add(offset)
    return {axis: len(offsets) for axis, offsets in found.items()}


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_blocks_at_work_at_a_time_share_what_they_read(dtype):
    """What the time model cannot see: with 108 blocks in rows it would be all tiles of columns."""
    specs = [wia.spec((4096, 4096), dtype)] * 2
    build = wia.compile(PRODUCT).k.build(*specs, target="gpu:sm_80")
    found = tiles_of_first_blocks(build.stage("schedule").text, 108)
    assert found == {"i": 8, "j": 14}


@pytest.mark.parametrize("shape", [(64, 4096, 64), (20, 4100, 33), (9, 3000, 17)])
def test_a_long_fold_is_shared_by_all_sms(shape):
    rows, fold, columns = shape
    a, b = numbers((rows, fold)), numbers((fold, columns))
    build = check(a, b)
    first, second = build.stage("schedule").decisions
    assert first.numbers["parts"] > 1 and "parts" in first.reason
    assert first.numbers["µs in parts"] < first.numbers["µs in one launch"]
    assert build.resources["kernels"] == 2 and second.reason.startswith("reduction")
    assert (build(a, b) == build(a, b)).all()
    again = check(a, b, schedule=first.numbers["schedule"])
    assert again.assembly("ptx") == build.assembly("ptx")


def test_what_follows_a_shared_fold_comes_after_it():
    text = PRODUCT.replace("A @ B", "relu(A @ B - 1.0)")
    a, b = numbers((20, 4096)), numbers((4096, 24))
    build = wia.compile(text).k.build(a, b, target="gpu:sm_80")
    assert build.resources["kernels"] == 2
    exact = np.maximum(a.astype(np.float64) @ b - 1, 0)
    np.testing.assert_allclose(build(a, b), exact, atol=1e-3)

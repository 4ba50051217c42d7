"""What the default schedule chooses, and from which numbers."""

import numpy as np
import pytest
from unit.gpu_programs import CapturingTarget, compile_text
from wia_compiler.backends.gpu.architecture import ARCHITECTURES
from wia_compiler.backends.gpu.schedule_elementwise import spread_threads
from wia_compiler.backends.gpu.tiling import Tile
from wia_compiler.passes.verify_tile import verify_tile

ARCHITECTURE = ARCHITECTURES["sm_90"]


def schedule(expression, *arrays):
    """The scheduled module and the decisions about ``Y = expression`` of A, B …"""
    names = "ABCD"[: len(arrays)]
    parameters = ", ".join(f"input {name}: tensor" for name in names)
    text = f"kernel k({parameters}, output Y: tensor) {{ Y = {expression}; }}"
    target = CapturingTarget(ARCHITECTURE, lowers=False)
    compiled = compile_text(text, arrays, target, record=True)
    (module,) = target.modules
    verify_tile(module)
    return module, compiled.trace.stage("schedule").decisions


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


@pytest.mark.parametrize(
    "sizes,width,expected",
    [
        ((1000,), 1, {"i": Tile(256, 1)}),
        ((1 << 20,), 4, {"i": Tile(1024, 4)}),
        ((17,), 1, {"i": Tile(17, 1)}),
        ((100, 3), 1, {"i": Tile(85, 1), "j": Tile(3, 1)}),
        ((100, 64), 4, {"i": Tile(16, 1), "j": Tile(64, 4)}),
        ((8, 2, 4), 1, {"i": Tile(8, 1), "j": Tile(2, 1), "k": Tile(4, 1)}),
        ((5, 1000), 1, {"i": Tile(1, 1), "j": Tile(256, 1)}),
    ],
)
def test_threads_go_to_the_last_axis_first(sizes, width, expected):
    tiles = spread_threads("ijk"[: len(sizes)], sizes, width)
    assert tiles == expected
    assert np.prod([tile.block // tile.each for tile in tiles.values()]) <= 256


@pytest.mark.parametrize(
    "arrays,width",
    [
        ((zeros(1 << 22), zeros(1 << 22)), 4),
        ((zeros(1 << 22, dtype=np.float16), zeros(1 << 22, dtype=np.float16)), 8),
        ((zeros(1 << 22, dtype=np.float64), zeros(1 << 22, dtype=np.float64)), 2),
        ((zeros(1000), zeros(1000)), 1),  # too few points: threads matter more
        ((zeros(2048, 2048), zeros(2048, 1)), 4),  # constant along the last axis
        ((zeros(2048, 2049), zeros(1, 2049)), 1),  # rows do not begin at 16 bytes
        ((zeros(2048, 6).T, zeros(6, 2048)), 1),  # not neighbours along the last axis
        ((zeros(4096, 2048)[::2], zeros(2048, 2048)), 1),  # a view may begin anywhere
    ],
)
def test_neighbours_a_thread_takes(arrays, width):
    _, (decision,) = schedule("A + B", *arrays)
    assert decision.numbers["vector"] == width


@pytest.mark.parametrize(
    "shape,axis,reason,threads",
    [
        ((4096, 512), 1, "a warp for each row", 128),
        ((4096, 513), 1, "a block for each row", 128),
        ((4096, 4096), 1, "a block for each row", 512),
        ((4, 300), 1, "a block for each row", 64),  # too few rows for a warp each
        ((4096, 4), 1, "a thread for each row", 256),
        ((64, 1 << 18), 0, "a thread for each row", 256),  # columns: neighbours in memory
        ((64, 8192), 0, "a block for 32 columns", 256),
        ((2048, 512), 0, "a block for 32 columns", 1024),  # few blocks: more threads each
        ((512, 6), 0, "a block for 6 columns", 512),
    ],
)
def test_who_folds_a_row(shape, axis, reason, threads):
    _, (decision,) = schedule(f"reduce_sum(A, axis={axis})", zeros(*shape))
    assert reason in decision.reason
    assert decision.numbers["threads"] == threads


def test_a_value_is_folded_by_all_blocks():
    """In parts for two blocks an SM; a second launch folds what these have."""
    _, (parts, results) = schedule("reduce_sum(A)", zeros(1 << 22))
    assert (parts.numbers["parts"], parts.numbers["threads"]) == (264, 1024)
    assert parts.numbers["schedule"] == "parallel i 15904"
    assert (results.numbers["rows"], results.numbers["row"]) == (1, 264)


def test_a_short_row_is_not_worth_a_second_launch():
    _, (decision,) = schedule("reduce_sum(A)", zeros(10_000))
    assert (decision.numbers["rows"], decision.numbers["threads"]) == (1, 1024)


@pytest.mark.parametrize(
    "expression,shape,launches",
    [
        ("reduce_max(A, axis=1)", (3, 1 << 20), 2),
        ("reduce_all(A > 0)", (1 << 20,), 2),
        ("reduce_any(A > 0)", (1 << 20,), 2),
        ("argmax(A)", (1 << 20,), 4),
        ("softmax(A, axis=1)", (2, 1 << 20), 5),
        ("reduce_sum(A, axis=1)", (400, 1 << 14), 1),  # rows enough for all SMs
    ],
)
def test_each_fold_of_few_long_rows_is_two_launches(expression, shape, launches):
    _, decisions = schedule(expression, zeros(*shape))
    assert len(decisions) == launches


@pytest.mark.parametrize(
    "length,registers,shared", [(512, 1, 0), (45_056, 1, 0), (45_057, 0, 1), (60_000, 0, 0)]
)
def test_rows_that_fit_are_read_once(length, registers, shared):
    """44 elements a thread at most, 45,056 for the largest block; shared memory holds 57,600."""
    _, (decision,) = schedule("softmax(A, axis=1)", zeros(600, length))
    assert decision.numbers["rows kept in registers"] == registers
    assert decision.numbers.get("rows kept in shared memory", 0) == shared


@pytest.mark.parametrize(
    "shape,dtype,neighbours",
    [
        ((4096, 512), np.float32, 4),
        ((4096, 1024), np.float16, 8),
        ((4096, 1022), np.float32, 2),
        ((4096, 1021), np.float32, 1),  # rows begin anywhere
        ((4096, 64), np.float32, 2),  # all lanes have some
        ((4096, 1024), np.float64, 2),
    ],
)
def test_neighbours_of_a_row_that_a_thread_takes(shape, dtype, neighbours):
    _, (decision,) = schedule("softmax(A, axis=1)", zeros(*shape, dtype=dtype))
    assert decision.numbers["neighbours"] == neighbours


@pytest.mark.parametrize(
    "left,right,block,thread",
    [
        ((4096, 4096), (4096, 4096), "128×128×8", "8×8"),
        ((512, 512), (512, 512), "32×64×16", "4×4"),  # larger tiles would leave SMs idle
        ((512, 96), (96, 20), "32×32×16", "4×4"),
        ((16, 96), (96, 64), "16×32×16", "2×4"),
        ((512, 5), (5, 512), "32×64×5", "4×4"),
    ],
)
def test_tiles_of_a_matmul(left, right, block, thread):
    _, (decision,) = schedule("A @ B", zeros(*left), zeros(*right))
    assert decision.numbers["block tile"] == block
    assert decision.numbers["thread tile"] == thread
    assert decision.numbers["stages"] == (2 if left[1] > 16 else 1)


@pytest.mark.parametrize(
    "left,right,reason",
    [
        ((4096, 4096), (4096,), "vector product: a warp for each row, 4 a block"),
        ((4096,), (4096, 100), "vector product: a block for 8 columns, 128 rows at a time"),
        ((4096,), (4096, 8192), "vector product: a block for 32 columns, 32 rows at a time"),
        ((4096,), (4096,), "vector product: 8 warps for each row"),
    ],
)
def test_vectors(left, right, reason):
    _, (decision,) = schedule("A @ B", zeros(*left), zeros(*right))
    assert decision.reason == reason


@pytest.mark.parametrize(
    "expression,arrays",
    [
        ("gather(A, 0, B)", (zeros(100, 64), zeros(50, 64, dtype=np.int64))),
        ("gather(A, 1, B)", (zeros(100, 64), zeros(100, 20, dtype=np.int64))),
        ("index_select(A, 0, B)", (zeros(100, 64), zeros(50, dtype=np.int64))),
        ("embedding(B, A)", (zeros(100, 64), zeros(50, dtype=np.int64))),
        ("one_hot(A, 100)", (zeros(50, dtype=np.int64),)),
        ("tril(A)", (zeros(100, 64),)),
        ("flip(A, [0])", (zeros(100, 64),)),
        ("argmax(A, 1)", (zeros(100, 64),)),
    ],
)
def test_nests_that_know_where_they_are_are_shared_among_threads(expression, arrays):
    """Arrays of positions stand before the loops, and do not hide them."""
    _, decisions = schedule(expression, *arrays)
    assert min(each.numbers["threads"] for each in decisions) >= 32


def test_filters_share_what_a_thread_reads():
    _, (decision,) = schedule("conv2d(A, B, padding=1)", zeros(1, 3, 32, 32), zeros(4, 3, 3, 3))
    assert decision.numbers["results a thread"] == 4


def test_a_one_by_one_convolution_is_a_matmul():
    _, (decision,) = schedule("conv2d(A, B)", zeros(2, 32, 16, 16), zeros(64, 32, 1, 1))
    assert "tiles in shared memory" in decision.reason

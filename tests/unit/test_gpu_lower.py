"""Scheduled nests to kernels, run by an interpreter that sees races."""

import numpy as np
import pytest
from unit.gpu_interpreter import Buffer, KernelFault, run_kernel
from unit.gpu_nests import leaf, matmul, nest, run_nest, softmax
from wia_compiler.backends.gpu import lower
from wia_compiler.backends.gpu.distribute import LayoutError
from wia_compiler.dialects.gpu_memory import is_workgroup

RNG = np.random.default_rng(7)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def add(size: int, per_block: int = 256, per_thread: int = 4):
    place = "%i0 + %i1 + i"
    body = leaf(
        "map", "thread", f"i = {per_thread}", "%i0, %i1",
        "^bb0(%x: f32, %y: f32):\n%z = arith.addf %x, %y : f32\ntile.yield %z : f32",
        ins=[f"%{name}[{place}] : memref<{size}xf32>" for name in "ab"],
        outs=[f"%c[{place}] : memref<{size}xf32>"], bounds=f"{place} < {size}",
    )  # fmt: skip
    loops = f"""tile.for %i0 in {size} step {per_block} axis "i.0" @grid {{
      tile.for %i1 in {per_block} step {per_thread} axis "i.1" @thread {{ {body} }} }}"""
    arguments = ", ".join(f"%{name}: memref<{size}xf32>" for name in "abc")
    return nest(arguments, loops, per_block // per_thread)


@pytest.mark.parametrize("size", [1, 3, 17, 127, 256, 1000, 1001])
def test_elementwise(size):
    a, b, c = floats(size), floats(size), floats(size)
    run_nest(add(size), [a, b], [c])
    np.testing.assert_array_equal(c, a + b)


def test_more_blocks_than_a_grid_holds():
    a, b, c = floats(1000), floats(1000), floats(1000)
    function = add(1000, 64)
    run_nest(function, [a, b], [c], max_blocks=3)
    assert function.attributes["wia.grid_size"].value.data == 3
    np.testing.assert_array_equal(c, a + b)


@pytest.mark.parametrize(
    "shape", [(64, 64, 16), (1, 1, 1), (3, 17, 5), (70, 65, 33), (128, 130, 7)]
)
def test_matmul(shape):
    rows, columns, depth = shape
    a, b, c = floats(rows, depth), floats(depth, columns), floats(rows, columns)
    run_nest(matmul(*shape), [a, b], [c])
    np.testing.assert_allclose(c, a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("level,threads", [("warp", 128), ("block", 64), ("block", 256)])
@pytest.mark.parametrize("rows,length", [(1, 2), (5, 33), (3, 127), (4, 256), (2, 1000)])
def test_softmax(level, threads, rows, length):
    x, y = floats(rows, length), floats(rows, length)
    run_nest(softmax(rows, length, level, threads), [x], [y])
    e = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-5)


def test_softmax_takes_nan_through():
    x, y = floats(2, 40), floats(2, 40)
    x[1, 7] = np.nan
    run_nest(softmax(2, 40, "warp", 64), [x], [y])
    assert np.isnan(y[1]).all() and not np.isnan(y[0]).any()


def kinds_of(function):
    return [op.name for op in function.walk()]


def test_matmul_waits_twice_a_step():
    """Before the tiles are read, and before they are overwritten."""
    function = matmul(128, 128, 64)
    lower.lower_nest(function)
    assert kinds_of(function).count("gpu.barrier") == 2


def test_accumulators_are_values_that_the_loop_carries():
    function = matmul(128, 128, 64)
    lower.lower_nest(function)
    assert "memref.alloca" not in kinds_of(function)
    (loop,) = [op for op in function.walk() if op.name == "scf.for"]
    assert len(loop.results) == 4 * 4
    assert all(result.first_use is not None for result in loop.results)


def test_a_row_in_registers_has_no_memory():
    function = softmax(8, 96, "warp", 128)
    lower.lower_nest(function)
    loads = [op for op in function.walk() if op.name == "memref.load"]
    assert len(loads) == 3 and "memref.alloca" not in kinds_of(function)


def test_block_fold_waits_once_a_fold():
    function = softmax(2, 1000, "block", 256)
    lower.lower_nest(function)
    kinds = kinds_of(function)
    assert kinds.count("gpu.barrier") == 2
    assert kinds.count("gpu.shuffle") == 2 * (5 + 3)


def test_warp_fold_needs_no_barrier():
    function = softmax(8, 100, "warp", 128)
    lower.lower_nest(function)
    kinds = kinds_of(function)
    assert kinds.count("gpu.barrier") == 0
    assert kinds.count("gpu.shuffle") == 2 * 5


@pytest.mark.parametrize("kept", [0, 1])
def test_the_interpreter_sees_a_missing_barrier(kept):
    """What the other tests rely on: without either of the two barriers there is a race."""
    a, b, c = floats(64, 48), floats(48, 64), floats(64, 64)
    function = matmul(64, 64, 48)
    lower.lower_nest(function)
    barriers = [op for op in function.walk() if op.name == "gpu.barrier"]
    barriers[1 - kept].detach()
    with pytest.raises(KernelFault, match="race"):
        run_kernel(function, [Buffer(a), Buffer(b), Buffer(c)])


def test_the_interpreter_sees_a_barrier_in_a_branch():
    function = add(301)
    lower.lower_nest(function)
    # One block is whole, the other ends after 45 points: some of its threads take a branch.
    branches = [op for op in function.walk() if op.name == "scf.if"]
    for branch in branches:
        block = branch.true_region.block
        block.insert_op_before(lower.gpu.BarrierOp(), block.first_op)
    with pytest.raises(KernelFault, match="do not reach"):
        run_kernel(function, [Buffer(floats(301)) for _ in range(3)])


def test_the_interpreter_sees_memory_that_was_not_written():
    function = matmul(64, 64, 16)
    lower.lower_nest(function)
    stores = [op for op in function.walk() if op.name == "memref.store"]
    shared = [op for op in stores if is_workgroup(op.memref.type)]
    shared[0].detach()
    buffers = [Buffer(floats(64, 16)), Buffer(floats(16, 64)), Buffer(floats(64, 64))]
    with pytest.raises(KernelFault, match="nothing was written"):
        run_kernel(function, buffers)


def test_a_row_walked_in_two_orders_is_refused():
    """Elements would have to change threads between the leaves."""
    row = 'memref<4x8xf32, "register">'
    put = leaf(
        "copy", "warp", "i = 4, j = 8", "", "^bb0(%v: f32): tile.yield %v : f32",
        ins=["%x[i, j] : memref<4x8xf32>"], outs=[f"%r[i, j] : {row}"],
    )  # fmt: skip
    take = leaf(
        "copy", "warp", "j = 8, i = 4", "", "^bb0(%v: f32): tile.yield %v : f32",
        ins=[f"%r[i, j] : {row}"], outs=["%y[i, j] : memref<4x8xf32>"],
    )  # fmt: skip
    body = f"%r = memref.alloc() : {row}\n{put}\n{take}"
    function = nest("%x: memref<4x8xf32>, %y: memref<4x8xf32>", body, 32)
    with pytest.raises(LayoutError):
        lower.lower_nest(function)


@pytest.mark.parametrize(
    "type,dtype,combiner,fold",
    [
        ("f64", np.float64, "arith.addf", np.sum),
        ("f16", np.float16, "arith.maximumf", np.max),
        ("i64", np.int64, "arith.addi", np.sum),
        ("i32", np.int32, "arith.minsi", np.min),
        ("i8", np.int8, "arith.maxsi", np.max),
        ("i16", np.int16, "arith.muli", np.prod),
        ("i1", np.bool_, "arith.andi", np.all),
    ],
)
@pytest.mark.parametrize("level,threads", [("warp", 32), ("block", 128)])
def test_folds_of_every_width(type, dtype, combiner, fold, level, threads):
    """Values of 64 bits are exchanged in halves, small ones widened."""
    size = 300
    x = RNG.integers(-2, 3, size).astype(dtype) if dtype != np.bool_ else np.ones(size, bool)
    y = np.zeros((), dtype)
    start = fold(x[:1])  # what the output holds before the fold takes part in it
    y[()] = start
    body = leaf(
        "reduce", level, f"i = {size} reduce", "",
        f"^bb0(%v: {type}, %h: {type}):\n%w = {combiner} %h, %v : {type}\ntile.yield %w : {type}",
        ins=[f"%x[i] : memref<{size}x{type}>"], outs=[f"%y[] : memref<{type}>"],
    )  # fmt: skip
    function = nest(f"%x: memref<{size}x{type}>, %y: memref<{type}>", body, threads)
    lower.lower_nest(function)
    run_kernel(function, [Buffer(x), Buffer(y)])
    with np.errstate(over="ignore"):
        expected = fold(np.append(x, start)).astype(dtype)
    np.testing.assert_array_equal(y, expected)


def test_lowering_is_deterministic():
    texts = set()
    for _ in range(2):
        function = matmul(70, 65, 33)
        lower.lower_nest(function)
        texts.add(str(function))
    assert len(texts) == 1

"""Leaves over registers that lie across a block: tiles in a grid of threads, folds, refusals."""

import numpy as np
import pytest
from unit.gpu_nests import leaf, nest, run_nest
from wia_compiler.backends.gpu.barriers import leaves_behind_barrier
from wia_compiler.backends.gpu.distribute import LayoutError
from wia_compiler.backends.gpu.index import Index
from wia_compiler.backends.gpu.layouts_threads import ThreadGridLayout, thread_grid_layout
from wia_compiler.dialects.tile import ComputeOp
from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType, f32

GRID = 'memref<64x32xf32, "register">'
ROWS = 'memref<64xf32, "register">'
SAME = "^bb0(%x: f32): tile.yield %x : f32"
READ = leaf(
    "map", "block", "i = 64, j = 32", "", SAME,
    ins=["%a[i, j] : memref<64x32xf32>"], outs=[f"%t[i, j] : {GRID}"],
)  # fmt: skip
FILL = leaf(
    "map", "block", "i = 64", "", "%z = arith.constant 0.5 : f32\ntile.yield %z : f32",
    outs=[f"%s[i] : {ROWS}"],
)  # fmt: skip
FOLD = leaf(
    "reduce", "block", "i = 64, j = 32 reduce", "",
    "^bb0(%x: f32, %h: f32):\n%r = arith.addf %h, %x : f32\ntile.yield %r : f32",
    ins=[f"%t[i, j] : {GRID}"], outs=[f"%s[i] : {ROWS}"],
)  # fmt: skip
WRITE = leaf(
    "map", "block", "i = 64, j = 32", "",
    "^bb0(%x: f32, %y: f32):\n%r = arith.mulf %x, %y : f32\ntile.yield %r : f32",
    ins=[f"%t[i, j] : {GRID}", f"%s[i] : {ROWS}"], outs=["%b[i, j] : memref<64x32xf32>"],
)  # fmt: skip
ARGUMENTS = "%a: memref<64x32xf32>, %b: memref<64x32xf32>"


def buffers(tile="threads(16x16)", rows="threads(16x16) rows 64x32"):
    return (
        f'%t = memref.alloc() {{wia.layout = "{tile}"}} : {GRID}\n'
        f'%s = memref.alloc() {{wia.layout = "{rows}"}} : {ROWS}\n'
    )


@pytest.mark.parametrize(("neighbours", "columns"), [(1, 48), (2, 32), (4, 128)])
def test_each_element_is_with_one_thread(neighbours, columns):
    layout = ThreadGridLayout(16, 16, neighbours).of((64, columns))
    held = {
        tuple(each.constant for each in layout.place(slot, Index((), thread)))
        for thread in range(256)
        for slot in range(layout.slots)
    }
    assert held == {(i, j) for i in range(64) for j in range(columns)}
    assert layout.slots * 256 == 64 * columns


def test_a_spelled_layout_reads_back():
    for layout in (ThreadGridLayout(16, 16), ThreadGridLayout(8, 16, 4, (32, 64))):
        buffer = memref.AllocOp([], [], MemRefType(f32, [64, 64]))
        assert thread_grid_layout(buffer) is None
        buffer.attributes["wia.layout"] = layout.attribute
        assert thread_grid_layout(buffer) == layout
    with pytest.raises(ValueError, match="no tile of threads"):
        ThreadGridLayout(16, 16).of((40, 64))


@pytest.mark.parametrize(
    ("tile", "rows", "threads"),
    [
        ("threads(16x16)", "threads(16x16) rows 64x32", 256),
        ("threads(16x16) by 2", "threads(16x16) rows 64x32", 256),
        ("mma(4x1)", "mma(4x1) rows 64x32", 128),
    ],
)
def test_rows_are_folded_where_they_lie(tile, rows, threads):
    a = np.random.default_rng(0).standard_normal((64, 32)).astype(np.float32)
    b = np.zeros_like(a)
    text = buffers(tile, rows) + READ + FILL + FOLD + WRITE
    run_nest(nest(ARGUMENTS, text, threads), [a], [b])
    np.testing.assert_allclose(b, a * (0.5 + a.sum(axis=1, keepdims=True)), rtol=1e-4, atol=1e-5)


def test_a_row_of_several_warps_is_refused():
    text = buffers("mma(2x2)", "mma(2x2) rows 64x32") + READ + FILL + FOLD + WRITE
    arrays = [np.zeros((64, 32), np.float32)]
    with pytest.raises(LayoutError, match="several warps"):
        run_nest(nest(ARGUMENTS, text, 128), arrays, [np.zeros((64, 32), np.float32)])


def test_a_slice_of_another_layout_is_refused():
    text = buffers("mma(4x1)", "mma(2x1) rows 64x32") + READ + FILL + FOLD + WRITE
    arrays = [np.zeros((64, 32), np.float32)]
    with pytest.raises(LayoutError, match="does not lie beside"):
        run_nest(nest(ARGUMENTS, text, 128), arrays, [np.zeros((64, 32), np.float32)])


def test_a_loop_waits_where_its_later_turns_must():
    """The copy of the next turn waits for reads of this one, and its reads for it: two barriers."""
    shared = 'memref<32xf32, "shared">'
    body = leaf(
        "copy", "block", "i = 32", "%k0", SAME,
        ins=["%a[%k0 + i] : memref<128xf32>"], outs=[f"%t[i] : {shared}"],
    ) + leaf(
        "map", "block", "i = 32", "%k0", SAME,
        ins=[f"%t[31 - i] : {shared}"], outs=["%b[%k0 + i] : memref<128xf32>"],
    )  # fmt: skip
    text = (
        f'%t = memref.alloc() : {shared}\ntile.for %k0 in 128 step 32 axis "k.0" @serial {{{body}}}'
    )
    function = nest("%a: memref<128xf32>, %b: memref<128xf32>", text, 32)
    leaves = [op for op in function.walk() if isinstance(op, ComputeOp)]
    assert leaves_behind_barrier(function.body.block) == set(leaves)
    a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    run_nest(function, [a], [b])
    np.testing.assert_array_equal(b, a.reshape(4, 32)[:, ::-1].reshape(-1))

"""Rewrites of nests leave the results as they were, on sizes that no tile divides; or refuse."""

import pytest
from mid_building import check, kernel, lowered, sample, spec
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    drop_bounds,
    find_loop,
    interchange,
    leaves_of,
    loops_of,
    remove_unit_loops,
    set_leaf_level,
    set_level,
    share_values,
    split_loop,
    stage_operand,
    tile_axis,
    tile_reduction,
)
from wia_compiler.passes.verify_tile import verify_tile
from xdsl.dialects.func import FuncOp

M, K, N = 37, 29, 23


def matmul(ops, a, b, c):
    return ops.max(ops.add(ops.matmul(a, b), c), ops.constant(0.0, "f32"))


MATMUL = kernel([spec((M, K)), spec((K, N)), spec((N,))], matmul, fused=True)
INPUTS = [sample(spec((M, K))), sample(spec((K, N)), 1), sample(spec((N,)), 2)]


def nest_of(module):
    (nest,) = (op for op in module.ops if isinstance(op, FuncOp) and "wia.nest" in op.attributes)
    return nest


def contraction(nest):
    (leaf,) = (leaf for leaf in leaves_of(nest) if leaf.kind.data in ("contract", "window"))
    return leaf


def same(rewrite, module=MATMUL, inputs=INPUTS):
    def verified(nests):
        rewrite(nest_of(nests))
        nests.verify()
        verify_tile(nests)

    return check(module, inputs, tolerance=1e-5, rewrite=verified)


@pytest.mark.parametrize("size", [1, 2, 8, 23, 64])
def test_tile_axis(size):
    def rewrite(nest):
        tile_axis(nest, "i", size)
        tile_axis(nest, "j", size)

    text = str(same(rewrite))
    assert f"i = {min(size, M)}" in text
    assert ("bounds" in text) == any(extent % min(size, extent) for extent in (M, N))


def test_tile_axis_grows_register_buffers_and_leaves_fills_unbounded():
    nests = same(lambda nest: tile_axis(nest, "j", 8))
    assert 'memref<1x8xf32, "register">' in str(nests)
    fill, *others = leaves_of(nests)
    assert not fill.limit_values and all(leaf.limit_values == (N,) for leaf in others)


@pytest.mark.parametrize("sizes", [(8, 4), (12, 5), (64, 8), (16, 1)])
def test_split_loop(sizes):
    outer, inner = sizes

    def rewrite(nest):
        tile_axis(nest, "i", inner) if inner > 1 else None
        size = outer - outer % inner
        split_loop(nest, "i.0", size)
        split_loop(nest, "j.0", 7)

    text = str(same(rewrite))
    assert 'axis "i.1"' in text and 'axis "j.1"' in text


def test_splitting_twice_numbers_loops_from_the_outermost():
    def rewrite(nest):
        split_loop(nest, "i.0", 12)
        split_loop(nest, "i.0", 24)
        split_loop(nest, "i.2", 5)
        assert [loop.axis.data for loop in loops_of(nest, "i")] == ["i.0", "i.1", "i.2", "i.3"]

    same(rewrite)


@pytest.mark.parametrize("size", [1, 4, 29, 100])
def test_tile_reduction(size):
    def rewrite(nest):
        tile_axis(nest, "i", 4)
        tile_reduction(contraction(nest), "k", size)

    assert "@serial" in str(same(rewrite))


def test_tile_reduction_twice():
    def rewrite(nest):
        _, leaf = tile_reduction(contraction(nest), "k", 12)
        loop, _ = tile_reduction(leaf, "k", 5)
        assert loop.axis.data == "k.1"

    same(rewrite)


def test_interchange():
    def rewrite(nest):
        interchange(find_loop(nest, "i.0"), find_loop(nest, "j.0"))

    text = str(same(rewrite))
    assert text.index('"j.0"') < text.index('"i.0"')


def test_remove_unit_loops():
    def rewrite(nest):
        tile_axis(nest, "j", 100)
        remove_unit_loops(nest)
        assert [loop.axis.data for loop in loops_of(nest)] == ["i.0"]

    same(rewrite)


def three_levels(nest, *, scope="shared", level="block", threads="thread"):
    """Blocks of 16 × 12, threads of 4 × 3, steps of 8 along k, both operands staged."""
    for axis, block, thread in (("i", 16, 4), ("j", 12, 3)):
        tile_axis(nest, axis, thread)
        split_loop(nest, f"{axis}.0", block)
    interchange(find_loop(nest, "i.1"), find_loop(nest, "j.0"))
    for name, where in (("i.0", "grid"), ("j.0", "grid"), ("i.1", threads), ("j.1", threads)):
        set_level(find_loop(nest, name), where)
    loop, leaf = tile_reduction(contraction(nest), "k", 8)
    for operand in (0, 1):
        _, _, leaf = stage_operand(leaf, operand, loop, scope, level=level)
    return leaf


def test_three_levels_through_shared_memory():
    def rewrite(nest):
        leaf = three_levels(nest)
        assert drop_bounds(leaf).limit_values == ()

    text = str(same(rewrite))
    assert 'memref<16x8xf32, "shared">' in text and 'memref<8x12xf32, "shared">' in text
    assert "tile.compute copy @block" in text


def test_a_copy_walks_another_order_than_its_padded_buffer_has():
    def rewrite(nest):
        tile_axis(nest, "i", 4)
        tile_axis(nest, "j", 8)
        interchange(find_loop(nest, "i.0"), find_loop(nest, "j.0"))
        buffer, copy, _ = stage_operand(
            contraction(nest),
            1,
            find_loop(nest, "j.0"),
            "packed",
            order=["k", "j"],
            copied=["j", "k"],
            padding=3,
        )
        assert buffer.memref.type.get_shape() == (K, 11)
        assert (copy.axis_names, copy.sizes) == (("j", "k"), (8, K))
        with pytest.raises(IllegalRewrite, match=r"the copy walks \['k'\], the buffer has other"):
            stage_operand(contraction(nest), 0, find_loop(nest, "i.0"), "packed", copied=["k"])

    same(rewrite)


def test_staging_packs_a_panel_for_the_loops_inside():
    def rewrite(nest):
        tile_axis(nest, "i", 4)
        tile_axis(nest, "j", 8)
        interchange(find_loop(nest, "i.0"), find_loop(nest, "j.0"))
        buffer, _, leaf = stage_operand(
            contraction(nest), 1, find_loop(nest, "j.0"), "packed", order=["k", "j"]
        )
        assert buffer.memref.type.get_shape() == (K, 8)
        _, copy, _ = stage_operand(leaf, 0, find_loop(nest, "i.0"), "packed", order=["k", "i"])
        assert copy.sizes == (K, 4)

    same(rewrite)


def test_staging_a_panel_outside_a_loop_over_its_axis():
    def rewrite(nest):
        tile_axis(nest, "i", 5)
        split_loop(nest, "i.0", 20)
        tile_axis(nest, "j", 4)
        buffer, _, _ = stage_operand(contraction(nest), 0, find_loop(nest, "i.0"), "packed")
        assert buffer.memref.type.get_shape() == (20, K)

    same(rewrite)


def test_ragged_tiles_inside_ragged_tiles():
    def rewrite(nest):
        tile_axis(nest, "i", 3)
        split_loop(nest, "i.0", 15)
        split_loop(nest, "i.1", 6)
        loop, leaf = tile_reduction(contraction(nest), "k", 10)
        _, leaf = tile_reduction(leaf, "k", 4)
        for operand in (0, 1):
            _, _, leaf = stage_operand(leaf, operand, loop, "packed")
        drop_bounds(leaf)

    same(rewrite)


def test_convolution_in_tiles():
    x, w = spec((2, 3, 9, 11)), spec((5, 3, 3, 3))

    def body(ops, x, w):
        from wia_compiler.dialects.wia.ops import make_op

        op = make_op("conv2d", {"input": x, "weight": w}, {"padding": 1, "stride": (2, 1)})
        return ops.append(op)

    def rewrite(nest):
        tile_axis(nest, "x", 4)
        tile_axis(nest, "f", 2)
        loop, leaf = tile_reduction(contraction(nest), "c", 2)
        _, copy, leaf = stage_operand(leaf, 0, loop, "shared")
        assert copy.is_padded == (True,)
        stage_operand(leaf, 1, loop, "shared")

    same(rewrite, kernel([x, w], body), [sample(x), sample(w)])


def test_rows_in_tiles():
    each = spec((19, 13))

    def rewrite(nest):
        tile_axis(nest, "i", 4)
        for leaf in leaves_of(nest):
            if leaf.kind.data == "reduce":
                tile_reduction(leaf, "j", 5)

    same(rewrite, kernel([each], softmax, fused=True), [sample(each)])


def softmax(ops, x):
    e = ops.exp(ops.sub(x, ops.reduce_max(x, dim=-1, keepdim=True)), hint="e")
    return ops.div(e, ops.reduce_sum(e, dim=-1, keepdim=True))


@pytest.mark.parametrize("tiled", [False, True])
def test_shared_values_are_computed_once(tiled):
    each = spec((19, 13))

    def rewrite(nest):
        (buffer,) = share_values(nest, "register", 1000)
        assert buffer.memref.type.get_shape() == (1, 13)
        if tiled:
            tile_axis(nest, "i", 4)
        assert [op.name for op in nest.walk()].count("math.exp") == 1
        last = leaves_of(nest)[-1]
        assert {value.name_hint for value in last.inputs} == {"e", "sum"}

    same(rewrite, kernel([each], softmax, fused=True), [sample(each)])


def test_nothing_is_shared_that_is_large_cheap_or_computed_once():
    each = spec((19, 13))
    nests, _ = lowered(kernel([each], softmax, fused=True))
    assert share_values(nest_of(nests), "register", 12) == []

    def centred(ops, x):
        d = ops.sub(x, ops.reduce_max(x, dim=-1, keepdim=True))
        return ops.div(d, ops.reduce_sum(d, dim=-1, keepdim=True))

    nests, _ = lowered(kernel([each], centred, fused=True))
    assert share_values(nest_of(nests), "register", 1000) == []
    nests, _ = lowered(kernel([each], lambda ops, x: ops.exp(ops.exp(x)), fused=True))
    assert share_values(nest_of(nests), "register", 1000) == []


def test_the_largest_shared_value_is_kept():
    each = spec((5, 13))

    def body(ops, x):
        e = ops.mul(ops.exp(ops.tanh(x)), x)
        return ops.div(e, ops.reduce_sum(e, dim=-1, keepdim=True))

    def rewrite(nest):
        assert len(share_values(nest, "register", 1000)) == 1
        assert len(leaves_of(nest)[1].inputs) == 1

    same(rewrite, kernel([each], body, fused=True), [sample(each)])


def test_elementwise_with_a_constant_result_is_bounded():
    module = kernel([spec((10,))], lambda ops, a: ops.constant(2.0, "f32", (11, 3)))

    def rewrite(nest):
        tile_axis(nest, "i", 4)

    same(rewrite, module, [sample(spec((10,)))])


REFUSED = {
    "no loop": lambda nest: tile_axis(nest, "k", 4),
    "already takes": lambda nest: [tile_axis(nest, "i", 4), tile_axis(nest, "i", 4)],
    "a tile of 0": lambda nest: tile_axis(nest, "i", 0),
    "no multiple": lambda nest: [tile_axis(nest, "i", 4), split_loop(nest, "i.0", 6)],
    "the nest has i.0, j.0": lambda nest: split_loop(nest, "n.0", 6),
    "does not fold 'i'": lambda nest: tile_reduction(contraction(nest), "i", 4),
    "does not stand directly": lambda nest: interchange(
        find_loop(nest, "j.0"), find_loop(nest, "i.0")
    ),
    "holds more than": lambda nest: interchange(
        find_loop(nest, "j.0"), tile_reduction(contraction(nest), "k", 4)[0]
    ),
    "both loops walk": lambda nest: interchange(*split_loop(nest, "j.0", 6)),
    "walks a folded axis": lambda nest: set_level(
        tile_reduction(contraction(nest), "k", 4)[0], "thread"
    ),
    "cannot stand inside": lambda nest: [
        set_level(find_loop(nest, "i.0"), "thread"),
        set_level(find_loop(nest, "j.0"), "grid"),
    ],
    "cannot hold": lambda nest: [
        set_level(find_loop(nest, "i.0"), "grid"),
        set_level(find_loop(nest, "j.0"), "grid"),
        set_level(find_loop(nest, "i.0"), "thread"),
    ],
    "which of them it is in": lambda nest: [
        set_level(find_loop(nest, "i.0"), "grid"),
        set_level(find_loop(nest, "j.0"), "thread"),
        set_leaf_level(contraction(nest), "block"),
    ],
    "not one numbered 2": lambda nest: stage_operand(
        contraction(nest), 2, find_loop(nest, "i.0"), "shared"
    ),
    "the order names": lambda nest: stage_operand(
        contraction(nest), 0, find_loop(nest, "i.0"), "shared", order=["j"]
    ),
    "not staged": lambda nest: drop_bounds(contraction(nest)),
    "needs its bounds": lambda nest: drop_bounds(leaves_of(nest)[-1]),
    "no loop level": lambda nest: set_level(find_loop(nest, "i.0"), "gpu"),
    "no leaf level": lambda nest: set_leaf_level(contraction(nest), "grid"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_illegal_rewrites_say_why(reason):
    nests, _ = lowered(MATMUL)
    with pytest.raises(IllegalRewrite, match=reason):
        REFUSED[reason](nest_of(nests))
    nests.verify()

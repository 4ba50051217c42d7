"""A folded axis outside of kept ones: sums wait between blocks, and come out to the last bit."""

import numpy as np
import pytest
from mid_building import check, kernel, lowered, run, sample, spec
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    block_fold,
    find_loop,
    leaves_of,
    loops_of,
    set_level,
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


def contraction(nest):
    (leaf,) = (leaf for leaf in leaves_of(nest) if leaf.kind.data in ("contract", "window"))
    return leaf


def same(rewrite, module=MATMUL, inputs=INPUTS, tolerance=1e-5):
    def verified(nests):
        nests_of = [op for op in nests.ops if isinstance(op, FuncOp)]
        (nest,) = (op for op in nests_of if "wia.nest" in op.attributes)
        rewrite(nest)
        nests.verify()
        verify_tile(nests)

    return check(module, inputs, tolerance=tolerance, rewrite=verified)


def names(nest):
    return [loop.axis.data for loop in loops_of(nest)]


@pytest.mark.parametrize("size", [1, 7, 8, 28, 29, 64])
@pytest.mark.parametrize("place", ["i.0", "j.0"])
def test_blocks_of_a_fold_around_kept_axes(size, place):
    def rewrite(nest):
        tile_axis(nest, "i", 8)
        tile_axis(nest, "j", 5)
        block_fold(contraction(nest), "k", size, find_loop(nest, place))
        assert names(nest)[:2] == (["k.0", "i.0"] if place == "i.0" else ["i.0", "k.0"])

    nests = same(rewrite)
    assert '"packed"' not in str(nests), "the sums wait in the result"
    assert str(nests).count("wia.waiting") == (2 if size < 29 else 0)


def test_blocks_before_tiles_and_splits():
    def rewrite(nest):
        block_fold(contraction(nest), "k", 8, find_loop(nest, "i.0"))
        tile_axis(nest, "i", 4)
        tile_axis(nest, "j", 4)
        split_loop(nest, "i.0", 16)
        split_loop(nest, "j.0", 12)

    same(rewrite)


@pytest.mark.parametrize("sizes", [(16, 8, 4), (16, 5, 3), (12, 12, 5)])
def test_two_levels_of_blocks(sizes):
    outer, inner, leaf = sizes

    def rewrite(nest):
        tile_axis(nest, "i", 4)
        block_fold(contraction(nest), "k", outer, find_loop(nest, "i.0"))
        block_fold(contraction(nest), "k", inner, find_loop(nest, "j.0"))
        tile_reduction(contraction(nest), "k", leaf)

    nests = same(rewrite)
    assert str(nests).count("wia.waiting") == 2


def test_blocks_around_staged_operands():
    def rewrite(nest):
        tile_axis(nest, "i", 8)
        tile_axis(nest, "j", 8)
        split_loop(nest, "j.0", 16)
        block_fold(contraction(nest), "k", 8, find_loop(nest, "i.0"))
        stage_operand(contraction(nest), 1, find_loop(nest, "k.0"), "packed")

    same(rewrite)


def halved(ops, a, b):
    return ops.cast(ops.matmul(a, b), dtype="f16")


def squared(ops, a, b):
    product = ops.matmul(a, b)
    return ops.mul(product, product), ops.add(product, product)


@pytest.mark.parametrize("body", [halved, squared])
def test_where_sums_wait(body):
    """In a buffer where no result can hold them, in the first of several that can."""
    inputs = [spec((13, 29)), spec((29, 9))]
    module = kernel(inputs, body, fused=True)

    def rewrite(nests):
        tile_axis(nests, "i", 4)
        block_fold(contraction(nests), "k", 10, find_loop(nests, "i.0"))

    arrays = [sample(each, number) for number, each in enumerate(inputs)]
    text = str(same(rewrite, module, arrays, tolerance=1e-2))
    assert ('memref<16x9xf32, "packed">' in text) == (body is halved)


def test_refusals():
    def rewrite(nest):
        leaf = contraction(nest)
        outer = find_loop(nest, "i.0")
        with pytest.raises(IllegalRewrite, match="does not fold 'j'"):
            block_fold(leaf, "j", 4, outer)
        with pytest.raises(IllegalRewrite, match="a tile of 0 points"):
            block_fold(leaf, "k", 0, outer)
        set_level(outer, "grid")
        with pytest.raises(IllegalRewrite, match=r"i\.0 is @grid"):
            block_fold(leaf, "k", 4, outer)
        block_fold(leaf, "k", 4, find_loop(nest, "j.0"))
        with pytest.raises(IllegalRewrite, match=r"stands inside i\.0 already"):
            set_level(outer, "serial")
            block_fold(contraction(nest), "k", 2, outer)

    same(rewrite)


def test_bits_do_not_change():
    """The order in which an element is summed stays."""
    plain, blocked = lowered(MATMUL)[0], lowered(MATMUL)[0]
    tile_axis(blocked, "i", 8)
    block_fold(contraction(blocked), "k", 1, find_loop(blocked, "i.0"))
    tile_reduction(contraction(plain), "k", 1)
    (one,), (other,) = (run(each, INPUTS, [spec((M, N))]) for each in (plain, blocked))
    np.testing.assert_array_equal(one, other)

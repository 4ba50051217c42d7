"""Copied tiles as panels: another layout, the same results; or a refusal."""

import pytest
from mid_building import check, kernel, sample, spec
from wia_compiler.passes.tile_rewrites import (
    IllegalRewrite,
    block_fold,
    find_loop,
    leaves_of,
    split_loop,
    split_panels,
    stage_operand,
    tile_axis,
)
from wia_compiler.passes.verify_tile import verify_tile
from xdsl.dialects.func import FuncOp

M, K, N = 37, 29, 43
MODULE = kernel([spec((M, K)), spec((K, N))], lambda ops, a, b: ops.matmul(a, b), fused=True)
INPUTS = [sample(spec((M, K))), sample(spec((K, N)), 1)]


def contraction(nest):
    (leaf,) = (leaf for leaf in leaves_of(nest) if leaf.kind.data == "contract")
    return leaf


def same(rewrite):
    def verified(nests):
        (nest,) = (op for op in nests.ops if isinstance(op, FuncOp) and "wia.nest" in op.attributes)
        rewrite(nest)
        nests.verify()
        verify_tile(nests)

    return str(check(MODULE, INPUTS, tolerance=1e-5, rewrite=verified))


def blocked(nest):
    tile_axis(nest, "i", 4)
    tile_axis(nest, "j", 8)
    split_loop(nest, "j.0", 24)
    block_fold(contraction(nest), "k", 10, find_loop(nest, "i.0"))


def test_panels_of_one_operand():
    def rewrite(nest):
        blocked(nest)
        _, _, leaf = stage_operand(
            contraction(nest), 1, find_loop(nest, "k.0"), "packed", order=["k", "j"]
        )
        split_panels(leaf, 1, "j")

    assert 'memref<6x10x8xf32, "packed">' in same(rewrite)


def test_panels_of_both_operands():
    def rewrite(nest):
        blocked(nest)
        _, _, leaf = stage_operand(
            contraction(nest), 0, find_loop(nest, "k.0"), "packed", order=["k", "i"]
        )
        leaf = split_panels(leaf, 0, "i")
        _, _, leaf = stage_operand(leaf, 1, find_loop(nest, "k.0"), "packed", order=["k", "j"])
        split_panels(leaf, 1, "j")

    text = same(rewrite)
    assert 'memref<10x10x4xf32, "packed">' in text
    assert 'memref<6x10x8xf32, "packed">' in text


def test_one_panel_stays_as_it_is():
    def rewrite(nest):
        blocked(nest)
        _, _, leaf = stage_operand(contraction(nest), 1, find_loop(nest, "j.1"), "packed")
        assert split_panels(leaf, 1, "j") is leaf

    same(rewrite)


def test_refusals():
    def rewrite(nest):
        blocked(nest)
        with pytest.raises(IllegalRewrite, match="stage it first"):
            split_panels(contraction(nest), 1, "j")
        _, _, leaf = stage_operand(contraction(nest), 1, find_loop(nest, "k.0"), "packed")
        with pytest.raises(IllegalRewrite, match="does not read axis 'i'"):
            split_panels(leaf, 1, "i")

    same(rewrite)

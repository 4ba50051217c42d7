"""The axis of the lanes, and copies of the part of an array that windows read."""

import pytest
from mid_building import check, kernel, sample, spec
from wia_compiler.passes.tile_rewrites import IllegalRewrite, find_loop, leaves_of, tile_axis
from wia_compiler.passes.tile_rewrites.lanes import run_lanes_along
from wia_compiler.passes.tile_rewrites.regions import stage_region
from wia_compiler.passes.verify_tile import verify_tile
from xdsl.dialects.func import FuncOp


def convolution(shape, weights, **attributes):
    inputs = [spec(shape), spec(weights)]
    module = kernel(
        inputs,
        lambda ops, x, w: ops.max(ops.conv2d(x, w, **attributes), ops.constant(0.0, "f32")),
        fused=True,
    )
    return module, [sample(inputs[0]), sample(inputs[1], 1)]


PADDED = convolution((2, 3, 7, 9), (12, 3, 3, 3), padding=1)
STRIDED = convolution((1, 4, 11, 10), (6, 4, 3, 3), stride=2, dilation=2, padding=3)


def window(nest):
    (leaf,) = (leaf for leaf in leaves_of(nest) if leaf.kind.data == "window")
    return leaf


def same(case, rewrite):
    module, inputs = case

    def verified(nests):
        (nest,) = (op for op in nests.ops if isinstance(op, FuncOp) and "wia.nest" in op.attributes)
        rewrite(nest)
        nests.verify()
        verify_tile(nests)

    return str(check(module, inputs, tolerance=1e-5, rewrite=verified))


def test_lanes_along_an_axis_turn_leaves_and_the_buffers_they_share():
    def rewrite(nest):
        tile_axis(nest, "f", 8)
        tile_axis(nest, "x", 4)
        run_lanes_along(nest, "f")

    text = same(PADDED, rewrite)
    assert "axes [n = 1, y = 1, x = 4, f = 8, c = 3 reduce, r = 3 reduce, s = 3 reduce]" in text
    assert 'memref<1x1x4x8xf32, "register">' in text


def test_lanes_along_an_axis_that_is_last_change_nothing():
    def rewrite(nest):
        before = str(nest)
        run_lanes_along(nest, "x")
        assert str(nest) == before

    same(PADDED, rewrite)


def test_lanes_along_a_folded_axis_are_refused():
    def rewrite(nest):
        with pytest.raises(IllegalRewrite, match="'c' is folded"):
            run_lanes_along(nest, "c")
        with pytest.raises(IllegalRewrite, match="no leaf has an axis 'q'"):
            run_lanes_along(nest, "q")

    same(PADDED, rewrite)


def test_an_image_is_copied_once_with_its_padding():
    def rewrite(nest):
        stage_region(window(nest), 0, find_loop(nest, "n.0"), "packed")

    text = same(PADDED, rewrite)
    assert 'memref<9x1x3x11xf32, "packed">' in text
    (copied,) = (line for line in text.splitlines() if "tile.compute copy" in line)
    assert "c = 3, y_r = 7, x_s = 9" in copied  # what lies inside the image; the margins are fills
    assert text.count("arith.constant 0.000000e+00 : f32") == 6


def test_rows_that_overlap_are_copied_for_each_row_of_the_result():
    def rewrite(nest):
        stage_region(window(nest), 0, find_loop(nest, "y.0"), "packed")

    assert 'memref<1x3x3x11xf32, "packed">' in same(PADDED, rewrite)


def test_regions_of_strides_dilations_and_ragged_tiles():
    def rewrite(nest):
        tile_axis(nest, "x", 4)
        tile_axis(nest, "y", 2)
        stage_region(window(nest), 0, find_loop(nest, "f.0"), "packed")

    assert '"packed">' in same(STRIDED, rewrite)


def test_a_region_at_a_loop_that_is_not_around_is_refused():
    def rewrite(nest):
        leaf = window(nest)
        with pytest.raises(IllegalRewrite, match="2 inputs, not one numbered 2"):
            stage_region(leaf, 2, find_loop(nest, "n.0"), "packed")

    same(PADDED, rewrite)

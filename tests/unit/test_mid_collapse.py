"""Axes walked as one: the rewrite of a convolution to a product, by the mid level's reference."""

import numpy as np
import pytest
from wia_compiler.dialects.text import parse_ir
from wia_compiler.passes.tile_rewrites import IllegalRewrite, leaves_of
from wia_compiler.passes.tile_rewrites.collapse import collapse_folded, collapse_kept, parts_of
from wia_compiler.passes.tile_rewrites.join_dimensions import join_dimensions
from wia_compiler.passes.verify_tile import verify_tile
from wia_compiler.reference.tile import run_tile_module
from xdsl.dialects.func import FuncOp
from xdsl.ir.affine import AffineExpr

CONVOLUTION = """
func.func @host(%x: memref<3x6x7xf32>, %w: memref<4x3x3x2xf32>, %y: memref<4x4x6xf32>)
    attributes {wia.host} {
  func.call @nest(%x, %w, %y) : (memref<3x6x7xf32>, memref<4x3x3x2xf32>, memref<4x4x6xf32>) -> ()
  func.return
}
func.func @nest(%x: memref<3x6x7xf32>, %w: memref<4x3x3x2xf32>, %y: memref<4x4x6xf32>)
    attributes {wia.nest} {
  tile.for %f0 in 4 step 1 axis "f.0" @serial {
    tile.for %y0 in 4 step 1 axis "y.0" @serial {
      tile.for %x0 in 6 step 1 axis "x.0" @serial {
        %acc = memref.alloc() : memref<1x1x1xf32, "register">
        tile.compute map @thread axes [f = 1, y = 1, x = 1] at (%f0, %y0, %x0)
            ins() outs(%acc[f, y, x] : memref<1x1x1xf32, "register">) {
          %0 = arith.constant 0.0 : f32
          tile.yield %0 : f32
        }
        tile.compute window @thread
            axes [f = 1, y = 1, x = 1, c = 3 reduce, r = 3 reduce, s = 2 reduce] at (%f0, %y0, %x0)
            ins(padded %x[c, %y0 + y + r - 1, %x0 + x + s] : memref<3x6x7xf32>,
                %w[%f0 + f, c, r, s] : memref<4x3x3x2xf32>)
            outs(%acc[f, y, x] : memref<1x1x1xf32, "register">) {
        ^bb0(%a: f32, %b: f32, %sum: f32):
          %1 = arith.mulf %a, %b : f32
          %2 = arith.addf %sum, %1 : f32
          tile.yield %2 : f32
        }
        tile.compute map @thread axes [f = 1, y = 1, x = 1] at (%f0, %y0, %x0)
            ins(%acc[f, y, x] : memref<1x1x1xf32, "register">)
            outs(%y[%f0 + f, %y0 + y, %x0 + x] : memref<4x4x6xf32>) {
        ^bb0(%a: f32):
          tile.yield %a : f32
        }
      }
    }
  }
  func.return
}
"""


def convolution():
    module = parse_ir(CONVOLUTION)
    nest = list(module.body.block.ops)[1]
    assert isinstance(nest, FuncOp)
    return module, nest


def result(module):
    generator = np.random.default_rng(5)
    x = generator.integers(-9, 9, (3, 6, 7)).astype(np.float32)
    w = generator.integers(-9, 9, (4, 3, 3, 2)).astype(np.float32)
    y = np.full((4, 4, 6), np.nan, np.float32)
    verify_tile(module)
    run_tile_module(module, [x, w], [y])
    return y


def window(nest):
    return next(leaf for leaf in leaves_of(nest) if leaf.kind.data in ("window", "contract"))


@pytest.mark.parametrize("axes", [["y", "x"], ["f", "y"], ["f", "y", "x"]])
def test_kept_axes_as_one(axes):
    expected = result(convolution()[0])
    module, nest = convolution()
    assert collapse_kept(nest, axes) == "".join(axes)
    np.testing.assert_array_equal(result(module), expected)
    join_dimensions(module, nest)
    np.testing.assert_array_equal(result(module), expected)


@pytest.mark.parametrize("axes", [["c", "r", "s"], ["c", "r"], ["r", "s"]])
def test_folded_axes_as_one(axes):
    expected = result(convolution()[0])
    module, nest = convolution()
    name, leaf = collapse_folded(window(nest), axes)
    assert leaf.kind.data == "contract" and name in leaf.axis_names
    np.testing.assert_array_equal(result(module), expected)
    join_dimensions(module, nest)
    np.testing.assert_array_equal(result(module), expected)


def test_a_convolution_is_a_product_of_matrices():
    expected = result(convolution()[0])
    module, nest = convolution()
    collapse_kept(nest, ["y", "x"])
    collapse_folded(window(nest), ["c", "r", "s"])
    join_dimensions(module, nest)
    np.testing.assert_array_equal(result(module), expected)
    shapes = [tuple(argument.type.get_shape()) for argument in nest.body.block.args]
    # What is read with padding keeps its edges; filters and results become matrices.
    assert shapes == [(3, 6, 7), (4, 18), (4, 24)]
    leaf = window(nest)
    assert dict(zip(leaf.axis_names, leaf.sizes, strict=True)) == {"f": 1, "yx": 1, "crs": 18}


def test_what_cannot_be_walked_as_one():
    _, nest = convolution()
    with pytest.raises(IllegalRewrite, match="does not hold"):
        collapse_kept(nest, ["f", "x"])
    with pytest.raises(IllegalRewrite, match="has 0 loops"):
        collapse_kept(nest, ["x", "c"])
    with pytest.raises(IllegalRewrite, match="one after the other"):
        collapse_folded(window(nest), ["c", "s"])
    with pytest.raises(IllegalRewrite, match="does not fold all of"):
        collapse_folded(window(nest), ["x", "c"])


def test_positions_along_axes():
    places = parts_of(AffineExpr.dimension(0), (4, 3, 2))
    found = [tuple(each.eval([k], []) for each in places) for k in range(24)]
    assert found == list(np.ndindex(4, 3, 2))

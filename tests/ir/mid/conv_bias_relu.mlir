// RUN: wia-opt --fusion --decompose --lower-to-nests %s | filecheck %s
// A window reads its input past the edges as 0; output channels are split into groups.

// CHECK-LABEL: func.func @k
// CHECK: func.func @{{\w+}}(%x: memref<2x4x9x9xf32>, %w: memref<6x2x3x3xf32>
// CHECK-SAME: attributes {wia.nest}
// CHECK-NEXT: tile.for %n0 in 2 step 1 axis "n.0"
// CHECK-NEXT: tile.for %g0 in 2 step 1 axis "g.0"
// CHECK-NEXT: tile.for %f0 in 3 step 1 axis "f.0"
// CHECK-NEXT: tile.for %y0 in 5 step 1 axis "y.0"
// CHECK-NEXT: tile.for %x0 in 5 step 1 axis "x.0"
// CHECK-NEXT: %acc = memref.alloc() : memref<1x1x1x1x1xf32, "register">
// CHECK: tile.compute window @thread axes [n = 1, g = 1, f = 1, y = 1, x = 1, c = 2 reduce, r = 3 reduce, s = 3 reduce] at (%n0, %g0, %f0, %y0, %x0)
// CHECK-SAME: padded %x[%n0 + n, %g0 * 2 + g * 2 + c, %y0 * 2 + y * 2 + r - 1, %x0 * 2 + x * 2 + s - 1]
// CHECK-SAME: %w[%g0 * 3 + g * 3 + %f0 + f, c, r, s]
// CHECK-SAME: outs(%acc[n, g, f, y, x]
// CHECK: tile.compute map
// CHECK: arith.addf
// CHECK: arith.maximumf
// CHECK-NOT: tile.compute
func.func @k(%x: tensor<2x4x9x9xf32>, %w: tensor<6x2x3x3xf32>, %b: tensor<6xf32>) -> tensor<2x6x5x5xf32> {
  %c = wia.conv2d %x, %w, %b {stride = 2 : i64, padding = 1 : i64, dilation = 1 : i64, groups = 2 : i64, given = ["input", "weight", "bias"]} : (tensor<2x4x9x9xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<2x6x5x5xf32>
  %r = wia.relu %c : (tensor<2x6x5x5xf32>) -> tensor<2x6x5x5xf32>
  func.return %r : tensor<2x6x5x5xf32>
}

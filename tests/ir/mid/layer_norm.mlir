// RUN: wia-opt --fusion --decompose --lower-to-nests %s | filecheck %s
// Two passes over a row; what a row has one of (mean, 1/deviation) is computed once, between them.

// CHECK-LABEL: func.func @k
// CHECK: func.func @layer_norm(%x: memref<5x127xf32>
// CHECK-SAME: attributes {wia.nest}
// CHECK: tile.compute reduce @thread axes [i = 1, j = 127 reduce] at (%i0) ins(%x[%i0 + i, j] : memref<5x127xf32>) outs(%sum[i]
// CHECK: tile.compute map @thread axes [i = 1] at (%i0) ins(%sum[i] : memref<1xf32, "register">) outs(%div[i]
// CHECK: arith.divf
// CHECK: tile.compute reduce @thread axes [i = 1, j = 127 reduce] at (%i0) ins(%x[%i0 + i, j] : memref<5x127xf32>, %div[i] : memref<1xf32, "register">) outs(%sum1[i]
// CHECK-NOT: arith.divf
// CHECK: tile.compute map @thread axes [i = 1] at (%i0) ins(%sum1[i] : memref<1xf32, "register">) outs(%rsqrt[i]
// CHECK: arith.divf
// CHECK: math.rsqrt
// CHECK: tile.compute map @thread axes [i = 1, j = 127] at (%i0)
// CHECK-SAME: %div[i] : memref<1xf32, "register">, %rsqrt[i] : memref<1xf32, "register">
// CHECK-NOT: arith.divf
// CHECK-NOT: math.rsqrt
// CHECK: func.return
func.func @k(%x: tensor<5x127xf32>, %w: tensor<127xf32>, %b: tensor<127xf32>) -> tensor<5x127xf32> {
  %r = wia.layer_norm %x, %w, %b {normalized_shape = 127 : i64, eps = 1.0e-05 : f64, given = ["input", "weight", "bias"]} : (tensor<5x127xf32>, tensor<127xf32>, tensor<127xf32>) -> tensor<5x127xf32>
  func.return %r : tensor<5x127xf32>
}

// RUN: wia-opt --lower-to-nests %s | filecheck %s
// The extreme of a row, then the smallest position at which an element is it, or is NaN.

// CHECK-LABEL: func.func @k
// CHECK: func.func @k_argmax
// CHECK-NEXT: %position = tile.positions : memref<127xi64, "positions">
// CHECK: tile.compute reduce @thread axes [i = 1, j = 127 reduce] at (%i0) ins(%x[%i0 + i, j] : memref<4x127xf32>) outs(%max[i]
// CHECK: arith.maximumf
// CHECK: tile.compute reduce @thread axes [i = 1, j = 127 reduce] at (%i0) ins(%x[%i0 + i, j]
// CHECK-SAME: %position[j] : memref<127xi64, "positions">) outs(%place[i]
// CHECK: arith.cmpf oeq
// CHECK: arith.cmpf une
// CHECK: arith.minsi
func.func @k(%x: tensor<4x127xf32>) -> tensor<4xi64> {
  %0 = wia.argmax %x {dim = 1 : i64, keepdim = false} : (tensor<4x127xf32>) -> tensor<4xi64>
  func.return %0 : tensor<4xi64>
}

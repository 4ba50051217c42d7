// RUN: wia-opt --lower-to-nests %s | filecheck %s
// A window over an array: the middle has all taps, a row at an edge those inside; none is tested.

// CHECK-LABEL: func.func @k
// CHECK-NOT: bounds
// CHECK: func.func @k_reduce_window
// CHECK: tile.for %i0 in 18 step 1
// CHECK: tile.compute reduce @thread axes [i = 1, r = 3 reduce] at (%i0) ins(%x[%i0 + i + r] : memref<20xf32>)
// CHECK: [%i0 + i + 1] : memref<20xf32>)
// CHECK: func.func @k_reduce_window_1
// CHECK: tile.compute reduce @thread axes [r = 2 reduce] at () ins(%x[r] : memref<20xf32>)
// CHECK: [0] : memref<20xf32>)
// CHECK: func.func @k_reduce_window_2
// CHECK: tile.compute reduce @thread axes [r = 2 reduce] at () ins(%x[r + 18] : memref<20xf32>)
// CHECK: [19] : memref<20xf32>)
func.func @k(%x: tensor<20xf32>) -> tensor<20xf32> {
  %0 = wia.reduce_window %x {kind = "max", kernel_size = [3], stride = [1], padding = 1 : i64, dilation = 1 : i64} : (tensor<20xf32>) -> tensor<20xf32>
  func.return %0 : tensor<20xf32>
}

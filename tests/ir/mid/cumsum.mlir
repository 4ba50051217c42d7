// RUN: wia-opt --lower-to-nests %s | filecheck %s
// A running sum: a loop in order, one point of the folded axis at a time, that writes as it goes.

// CHECK-LABEL: func.func @k
// CHECK: func.func @k_cumsum(%x: memref<5x9xf32>
// CHECK-NEXT: tile.for %j0 in 9 step 1 axis "j.0" @serial
// CHECK-NEXT: %sum = memref.alloc() : memref<1xf32, "register">
// CHECK-NEXT: tile.compute map @thread axes [j = 1] at (%j0) ins() outs(%sum[j]
// CHECK: tile.for %i0 in 5 step 1 axis "i.0" @serial
// CHECK-NEXT: tile.compute reduce @thread axes [j = 1, i = 1 reduce] at (%j0, %i0) ins(%x[%i0 + i, %j0 + j] : memref<5x9xf32>) outs(%sum[j]
// CHECK: tile.compute map @thread axes [j = 1, i = 1] at (%j0, %i0) ins(%sum[j]
// CHECK-SAME: [%i0 + i, %j0 + j] : memref<5x9xf32>)
func.func @k(%x: tensor<5x9xf32>) -> tensor<5x9xf32> {
  %0 = wia.cumsum %x {dim = 0 : i64} : (tensor<5x9xf32>) -> tensor<5x9xf32>
  func.return %0 : tensor<5x9xf32>
}

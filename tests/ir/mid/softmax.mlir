// RUN: wia-opt --fusion --decompose --lower-to-nests %s | filecheck %s
// Rows of two leading axes are one loop; three passes over a row; exp is computed twice, not stored.

// CHECK-LABEL: func.func @k
// CHECK: memref.reinterpret_cast %x to offset: [0], sizes: [51, 127], strides: [127, 1] : memref<3x17x127xf32> to memref<51x127xf32>
// CHECK: func.call @[[NEST:\w+]]
// CHECK-LABEL: func.func @{{\w+}}(%x: memref<51x127xf32>
// CHECK-SAME: attributes {wia.nest}
// CHECK-NEXT: tile.for %i0 in 51 step 1 axis "i.0" @serial {
// CHECK-NEXT: %max = memref.alloc() : memref<1xf32, "register">
// CHECK-NEXT: %sum = memref.alloc() : memref<1xf32, "register">
// CHECK-NEXT: %div = memref.alloc() : memref<1xf32, "register">
// CHECK-NEXT: tile.compute map @thread axes [i = 1] at (%i0) ins() outs(%max[i]
// CHECK-NEXT: arith.constant 0xff800000 : f32
// CHECK: tile.compute reduce @thread axes [i = 1, j = 127 reduce] at (%i0) ins(%x[%i0 + i, j] : memref<51x127xf32>) outs(%max[i]
// CHECK: arith.maximumf
// CHECK: tile.compute map @thread axes [i = 1] at (%i0) ins() outs(%sum[i]
// CHECK: tile.compute reduce @thread axes [i = 1, j = 127 reduce] at (%i0) ins(%x[%i0 + i, j] : memref<51x127xf32>, %max[i] : memref<1xf32, "register">) outs(%sum[i]
// CHECK: arith.subf
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: tile.compute map @thread axes [i = 1] at (%i0) ins(%sum[i] : memref<1xf32, "register">) outs(%div[i]
// CHECK: arith.divf
// CHECK: tile.compute map @thread axes [i = 1, j = 127] at (%i0) ins(%x[%i0 + i, j] : memref<51x127xf32>, %max[i] : memref<1xf32, "register">, %div[i] : memref<1xf32, "register">) outs({{%\w+}}[%i0 + i, j] : memref<51x127xf32>)
// CHECK: math.exp
// CHECK-NEXT: arith.mulf
// CHECK-NOT: tile.compute
func.func @k(%x: tensor<3x17x127xf32>) -> tensor<3x17x127xf32> {
  %r = wia.softmax %x {dim = -1 : i64} : (tensor<3x17x127xf32>) -> tensor<3x17x127xf32>
  func.return %r : tensor<3x17x127xf32>
}

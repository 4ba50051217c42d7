// RUN: wia-opt --fusion --decompose --lower-to-nests %s | filecheck %s
// One nest: the product is summed in a register in f32, rounded, and leaves through the epilogue.

// CHECK-LABEL: func.func @k(%a: memref<127x64xf16>, %b: memref<64x17xf16>, %bias: memref<17xf16>,
// CHECK-SAME: attributes {wia.host}
// CHECK-NEXT: func.call @[[NEST:\w+]](%a, %b, %bias, [[OUT:%\w+]])
// CHECK-NEXT: func.return
// CHECK: func.func @[[NEST]](%a: memref<127x64xf16>, %b: memref<64x17xf16>, %bias: memref<17xf16>, [[R:%\w+]]: memref<127x17xf16>) attributes {wia.nest} {
// CHECK-NEXT: tile.for %i0 in 127 step 1 axis "i.0" @serial {
// CHECK-NEXT: tile.for %j0 in 17 step 1 axis "j.0" @serial {
// CHECK-NEXT: %acc = memref.alloc() : memref<1x1xf32, "register">
// CHECK-NEXT: tile.compute map @thread axes [i = 1, j = 1] at (%i0, %j0) ins() outs(%acc[i, j] : memref<1x1xf32, "register">) {
// CHECK-NEXT: [[ZERO:%\w+]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT: tile.yield [[ZERO]] : f32
// CHECK-NEXT: }
// CHECK-NEXT: tile.compute contract @thread axes [i = 1, j = 1, k = 64 reduce] at (%i0, %j0) ins(%a[%i0 + i, k] : memref<127x64xf16>, %b[k, %j0 + j] : memref<64x17xf16>) outs(%acc[i, j] : memref<1x1xf32, "register">) {
// CHECK-NEXT: ^bb0([[X:%\w+]]: f16, [[Y:%\w+]]: f16, [[SUM:%\w+]]: f32):
// CHECK-NEXT: [[WIDEX:%\w+]] = arith.extf [[X]] : f16 to f32
// CHECK-NEXT: [[WIDEY:%\w+]] = arith.extf [[Y]] : f16 to f32
// CHECK-NEXT: [[PRODUCT:%\w+]] = arith.mulf [[WIDEX]], [[WIDEY]] : f32
// CHECK-NEXT: [[NEW:%\w+]] = arith.addf [[SUM]], [[PRODUCT]] : f32
// CHECK-NEXT: tile.yield [[NEW]] : f32
// CHECK-NEXT: }
// CHECK-NEXT: tile.compute map @thread axes [i = 1, j = 1] at (%i0, %j0) ins(%acc[i, j] : memref<1x1xf32, "register">, %bias[%j0 + j] : memref<17xf16>) outs([[R]][%i0 + i, %j0 + j] : memref<127x17xf16>) {
// CHECK-NEXT: ^bb0([[HELD:%\w+]]: f32, [[BIAS:%\w+]]: f16):
// CHECK-NEXT: [[ROUNDED:%\w+]] = arith.truncf [[HELD]] : f32 to f16
// CHECK-NEXT: [[A:%\w+]] = arith.extf [[ROUNDED]] : f16 to f32
// CHECK-NEXT: [[B:%\w+]] = arith.extf [[BIAS]] : f16 to f32
// CHECK-NEXT: [[ADDED:%\w+]] = arith.addf [[A]], [[B]] : f32
// CHECK-NEXT: arith.truncf [[ADDED]] : f32 to f16
// CHECK: arith.maximumf
// CHECK-NEXT: [[RESULT:%\w+]] = arith.truncf
// CHECK-NEXT: tile.yield [[RESULT]] : f16
// CHECK-NOT: tile.compute
func.func @k(%a: tensor<127x64xf16>, %b: tensor<64x17xf16>, %bias: tensor<17xf16>) -> tensor<127x17xf16> {
  %p = wia.matmul %a, %b : (tensor<127x64xf16>, tensor<64x17xf16>) -> tensor<127x17xf16>
  %s = wia.add %p, %bias : (tensor<127x17xf16>, tensor<17xf16>) -> tensor<127x17xf16>
  %r = wia.relu %s : (tensor<127x17xf16>) -> tensor<127x17xf16>
  func.return %r : tensor<127x17xf16>
}

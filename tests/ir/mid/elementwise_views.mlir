// RUN: wia-opt --lower-to-nests %s | filecheck %s
// Movement between kernels moves nothing; contiguous axes are one loop; a transpose is a map.

// CHECK-LABEL: func.func @k(%a: memref<6x4xf32>
// CHECK: [[T:%\w+]] = memref.alloc() : memref<6x4xf32>
// CHECK: func.call @k_neg
// CHECK: memref.reinterpret_cast [[T]] to offset: [0], sizes: [12, 2], strides: [1, 12]
// CHECK: func.call @k_add
// CHECK-NOT: memref.alloc
// CHECK: func.func @k_neg
// CHECK-NEXT: tile.for %i0 in 24 step 1
// CHECK: func.func @k_add
// CHECK: tile.for %i0 in 12 step 1
// CHECK-NEXT: tile.for %j0 in 2 step 1
// CHECK-NEXT: ins({{%\w+}}[%i0 + i, %j0 + j] : memref<12x2xf32, strided<[1, 12]>>, %b[%j0 + j] : memref<2xf32>)
func.func @k(%a: tensor<6x4xf32>, %b: tensor<2xf32>) -> tensor<12x2xf32> {
  %0 = wia.neg %a : (tensor<6x4xf32>) -> tensor<6x4xf32>
  %1 = wia.reshape %0 {shape = [2, 12]} : (tensor<6x4xf32>) -> tensor<2x12xf32>
  %2 = wia.permute %1 {dims = [1, 0]} : (tensor<2x12xf32>) -> tensor<12x2xf32>
  %3 = wia.add %2, %b : (tensor<12x2xf32>, tensor<2xf32>) -> tensor<12x2xf32>
  func.return %3 : tensor<12x2xf32>
}

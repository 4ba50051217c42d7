// RUN: wia-opt --lower-to-nests %s | filecheck %s
// Equal nests are one function; the product of another shape has its own.

// CHECK: func.func @k(%x: memref<5x8xf32>, %w: memref<8x8xf32>, %v: memref<8x3xf32>
// CHECK-NEXT: %a = memref.alloc() : memref<5x8xf32>
// CHECK-NEXT: func.call @k_matmul(%x, %w, %a)
// CHECK-NEXT: %b = memref.alloc() : memref<5x8xf32>
// CHECK-NEXT: func.call @k_matmul(%a, %w, %b)
// CHECK-NEXT: %c = memref.alloc() : memref<5x8xf32>
// CHECK: func.call @k_abs(
// CHECK-NEXT: func.call @k_matmul_1(%c, %v, [[OUT:%\w+]])
// CHECK-NEXT: func.return
// CHECK: func.func @k_matmul(%x: memref<5x8xf32>, %w: memref<8x8xf32>, %a: memref<5x8xf32>) attributes {wia.nest}
// CHECK: func.func @k_abs(
// CHECK: func.func @k_matmul_1(%c: memref<5x8xf32>, %v: memref<8x3xf32>,
// CHECK-NOT: func.func
func.func @k(%x: tensor<5x8xf32>, %w: tensor<8x8xf32>, %v: tensor<8x3xf32>) -> tensor<5x3xf32> {
  %a = wia.matmul %x, %w : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  %b = wia.matmul %a, %w : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  %c = wia.abs %b : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %d = wia.matmul %c, %v : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  func.return %d : tensor<5x3xf32>
}

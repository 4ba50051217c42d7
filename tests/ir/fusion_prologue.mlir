// RUN: wia-opt --fusion %s | filecheck %s
// A product of a matrix and a vector reads the matrix once: what makes it is computed on the way.

// CHECK: func.func @k
// CHECK-NEXT: [[F:%\w+]] = wia.fused @fused_cast_mul_matmul (
// CHECK: [[C:%\w+]] = wia.cast
// CHECK-NEXT: [[M:%\w+]] = wia.mul [[C]]
// CHECK-NEXT: wia.matmul [[M]]
// CHECK: func.return [[F]]
func.func @k(%w: tensor<16x32xi8>, %v: tensor<32xf32>) -> tensor<16xf32> {
  %scale = wia.constant 0.05 : f64 : tensor<f32>
  %c = wia.cast %w {dtype = "f32"} : (tensor<16x32xi8>) -> tensor<16x32xf32>
  %m = wia.mul %c, %scale : (tensor<16x32xf32>, tensor<f32>) -> tensor<16x32xf32>
  %p = wia.matmul %m, %v : (tensor<16x32xf32>, tensor<32xf32>) -> tensor<16xf32>
  func.return %p : tensor<16xf32>
}

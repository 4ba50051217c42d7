// RUN: wia-opt --expand %s | filecheck %s
// An op of several kernels is its steps; one that fusion takes whole stays.

// CHECK: func.func @k
// CHECK-NEXT: [[FIRST:%\w+]] = wia.gelu %x {approximate = "none"}
// CHECK-NEXT: [[TURNED:%\w+]] = wia.permute %w {dims = [1 : i64, 0 : i64]}
// CHECK-NEXT: [[PRODUCT:%\w+]] = wia.matmul [[FIRST]], [[TURNED]]
// CHECK-NEXT: [[DENSE:%\w+]] = wia.add [[PRODUCT]], %b
// CHECK-NEXT: wia.softmax [[DENSE]] {dim = -1 : i64}
// CHECK-NEXT: func.return
func.func @k(%x: tensor<4x8xf32>, %w: tensor<3x8xf32>, %b: tensor<3xf32>) -> tensor<4x3xf32> {
  %g = wia.gelu %x {approximate = "none"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %l = wia.linear %g, %w, %b {given = ["input", "weight", "bias"]} : (tensor<4x8xf32>, tensor<3x8xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %s = wia.softmax %l {dim = -1 : i64} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  func.return %s : tensor<4x3xf32>
}

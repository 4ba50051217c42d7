// RUN: wia-opt --fusion %s | filecheck %s
// Two reductions of the same rows, what lies between them and after them, and per-row values
// (rsqrt) are one kernel: nothing is computed twice.

// CHECK: func.func @k
// CHECK-NEXT: wia.fused @fused_reduce_mean_sub_mul_reduce_mean_rsqrt_mul
// CHECK: wia.yield
// CHECK-NOT: wia.fused
func.func @k(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %m = wia.reduce_mean %x {dim = 1 : i64, keepdim = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %c = wia.sub %x, %m : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  %q = wia.mul %c, %c : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %v = wia.reduce_mean %q {dim = 1 : i64, keepdim = true} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %r = wia.rsqrt %v : (tensor<4x1xf32>) -> tensor<4x1xf32>
  %n = wia.mul %c, %r : (tensor<4x8xf32>, tensor<4x1xf32>) -> tensor<4x8xf32>
  func.return %n : tensor<4x8xf32>
}

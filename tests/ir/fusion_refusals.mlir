// RUN: wia-opt --fusion --decisions %s | filecheck %s
// Each refusal says why, with its numbers.

// CHECK: refused vertical tanh → exp: tanh has another consumer, matmul
// CHECK-SAME: other_users=1, other_user_names=matmul
// CHECK-SAME: would_fuse_if=nothing but the kernel of exp read tanh
// CHECK-NEXT: refused vertical tanh → matmul: tanh has another consumer, exp
// CHECK-SAME: would_fuse_if=nothing but the kernel of matmul read tanh and matmul read each element of tanh once, not 4 times
// CHECK-NEXT: refused vertical exp → matmul: each element of exp would be computed 4 times, as often as matmul reads them
// CHECK-SAME: times_computed=4, would_fuse_if=matmul read each element of exp once, not 4 times
// CHECK-NEXT: refused vertical matmul → matmul: one kernel holds one contraction, here are two: matmul and matmul
// CHECK-NEXT: refused vertical matmul → softmax: softmax folds rows of 8 elements of matmul's result: a row would have to stay in 8 registers until it is folded
// CHECK-SAME: row_elements=8, row_registers=8, would_fuse_if=softmax folded rows of 1 element, not 8
// CHECK-NEXT: refused vertical softmax → sub: one kernel folds one set of axes: softmax folds axis 1 of 4x8, reduce_max axis 0 of 4x8
// CHECK-SAME: would_fuse_if=softmax folded axis 0 of 4x8
// CHECK-NEXT: taken vertical reduce_max → sub
func.func @k(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = wia.tanh %w : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = wia.exp %r : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = wia.matmul %x, %e : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %n = wia.matmul %m, %r : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = wia.softmax %n {dim = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = wia.reduce_max %y {dim = 0 : i64, keepdim = true} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %u = wia.sub %s, %t : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  func.return %u : tensor<4x8xf32>
}

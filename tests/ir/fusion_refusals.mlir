// RUN: wia-opt --fusion --decisions %s | filecheck %s
// Each refusal says why, with its numbers.

// CHECK: refused vertical relu → exp: relu has another consumer, div
// CHECK-SAME: other_users=1, other_user_names=div
// CHECK-NEXT: refused vertical relu → div: relu has another consumer, exp
// CHECK-NEXT: refused vertical exp → matmul: each element of exp would be computed 4 times, as often as matmul reads them
// CHECK-SAME: times_computed=4
// CHECK-NEXT: refused vertical div → matmul
// CHECK-NEXT: refused vertical matmul → matmul: one kernel holds one contraction, here are two: matmul and matmul
// CHECK-NEXT: refused vertical matmul → softmax: softmax folds rows of 8 elements of matmul's result: a row would have to stay in 8 registers until it is folded
// CHECK-SAME: row_elements=8, row_registers=8
// CHECK-NEXT: refused vertical softmax → sub: one kernel folds one set of axes: softmax folds axis 1 of 4x8, reduce_max axis 0 of 4x8
// CHECK-NEXT: taken vertical reduce_max → sub
func.func @k(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %r = wia.relu %w : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %e = wia.exp %r : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %d = wia.div %r, %w : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = wia.matmul %x, %e : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %n = wia.matmul %m, %d : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %s = wia.softmax %n {dim = -1 : i64} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %t = wia.reduce_max %y {dim = 0 : i64, keepdim = true} : (tensor<4x8xf32>) -> tensor<1x8xf32>
  %u = wia.sub %s, %t : (tensor<4x8xf32>, tensor<1x8xf32>) -> tensor<4x8xf32>
  func.return %u : tensor<4x8xf32>
}

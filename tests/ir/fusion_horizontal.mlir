// RUN: wia-opt --fusion --decisions %s | filecheck %s
// Independent kernels over the same points become one; other shapes, other axes and what waits for
// another kernel stay apart.

// CHECK: taken horizontal add | mul: both read x, y: 256 B of traffic and one launch less
// CHECK-NEXT: refused horizontal add and mul | exp: one nest runs over one domain, here are 4x8 and 8
// CHECK-SAME: would_fuse_if=both ran over 4x8
// CHECK-NEXT: taken horizontal reduce_sum | reduce_max: both read x: 128 B of traffic and one launch less
// CHECK-NEXT: refused horizontal reduce_sum and reduce_max | reduce_min: one kernel folds one set of axes, here are axis 1 of 4x8 and axis 0 of 4x8
func.func @k(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %z: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>) {
  %a = wia.add %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %m = wia.mul %x, %y : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = wia.exp %z : (tensor<8xf32>) -> tensor<8xf32>
  %s = wia.reduce_sum %x {dim = 1 : i64, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  %l = wia.reduce_max %x {dim = 1 : i64, keepdim = false} : (tensor<4x8xf32>) -> tensor<4xf32>
  %n = wia.reduce_min %y {dim = 0 : i64, keepdim = false} : (tensor<4x8xf32>) -> tensor<8xf32>
  func.return %a, %m, %e, %s, %l, %n : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
}

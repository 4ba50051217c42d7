// RUN: wia-opt --facts=launch_cost_bytes=0 --fusion %s | filecheck %s
// relu is cheap: each of the two kernels that read it computes it, and it is never written.

// CHECK: func.func @k
// CHECK-NEXT: wia.fused @fused_relu_exp (
// CHECK-NEXT: [[R:%\w+]] = wia.relu
// CHECK-NEXT: wia.exp [[R]]
// CHECK: wia.fused @fused_relu_reduce_sum (
// CHECK-NEXT: [[S:%\w+]] = wia.relu
// CHECK-NEXT: wia.reduce_sum [[S]]
// CHECK-NOT: wia.relu
func.func @k(%x: tensor<40x80xf32>) -> (tensor<40x80xf32>, tensor<40xf32>) {
  %r = wia.relu %x : (tensor<40x80xf32>) -> tensor<40x80xf32>
  %e = wia.exp %r : (tensor<40x80xf32>) -> tensor<40x80xf32>
  %s = wia.reduce_sum %r {dim = 1 : i64, keepdim = false} : (tensor<40x80xf32>) -> tensor<40xf32>
  func.return %e, %s : tensor<40x80xf32>, tensor<40xf32>
}

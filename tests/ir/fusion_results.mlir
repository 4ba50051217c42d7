// RUN: wia-opt --fusion %s | filecheck %s
// A value that is returned and read is written by the kernel that reads it: one kernel, two results.

// CHECK: func.func @k
// CHECK-NEXT: [[F:%\w+]], [[G:%\w+]] = wia.fused @fused_relu_exp (
// CHECK-NEXT: [[R:%\w+]] = wia.relu
// CHECK-NEXT: [[E:%\w+]] = wia.exp [[R]]
// CHECK-NEXT: wia.yield [[R]], [[E]]
// CHECK: func.return [[F]], [[G]]
func.func @k(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %r = wia.relu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %e = wia.exp %r : (tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return %r, %e : tensor<4x8xf32>, tensor<4x8xf32>
}

// RUN: wia-opt --facts=register_capacity=2 --fusion --decisions %s | filecheck %s
// A kernel that would need more registers than fit is not made.

// CHECK: refused vertical add → mul: the kernel would need 3 registers, 2 fit [registers=3, register_capacity=2
func.func @k(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = wia.add %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %m = wia.mul %a, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %m : tensor<4xf32>
}

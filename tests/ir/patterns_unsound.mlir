// RUN: not wia-opt --apply-patterns %s | filecheck %s
// x + 0.0 is not x: the sum of -0.0 and 0.0 is 0.0. The error shows the input.

func.func @Plus0.match(%x: !wia.tensor, %y: !wia.tensor) -> !wia.tensor {
  %zero = wia.constant 0.0 : f64 : !wia.literal
  %m = wia.add %x, %zero : (!wia.tensor, !wia.literal) -> !wia.tensor
  %n = wia.mul %m, %y : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %n : !wia.tensor
}
func.func @Plus0.rewrite(%x: !wia.tensor, %y: !wia.tensor) -> !wia.tensor {
  %n = wia.mul %x, %y : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %n : !wia.tensor
}

// CHECK: CompileError: error: pattern 'Plus0' cannot be used: its rewrite computes something else: with %x = -0.0, %y = 0.0 its match (mul) gives 0.0, its rewrite (mul) -0.0
// CHECK: help: tried through the reference on %x: tensor<4x1xf32>, %y: tensor<5xf32>; write a rewrite
func.func @k(%x: tensor<4x1xf32>, %y: tensor<100xf32>) -> tensor<4x100xf32> {
  %0 = wia.constant 0.0 : f64 : tensor<f32>
  %a = wia.add %x, %0 : (tensor<4x1xf32>, tensor<f32>) -> tensor<4x1xf32>
  %b = wia.mul %a, %y : (tensor<4x1xf32>, tensor<100xf32>) -> tensor<4x100xf32>
  func.return %b : tensor<4x100xf32>
}

// RUN: wia-opt --apply-patterns --decisions %s | filecheck %s
// Where a pattern nearly matches, the decision says what is otherwise there.

func.func @Scale.match(%x: !wia.tensor, %y: !wia.tensor) -> !wia.tensor {
  %two = wia.constant 2 : i64 : !wia.literal
  %m = wia.mul %x, %two : (!wia.tensor, !wia.literal) -> !wia.tensor
  %s = wia.softmax %m {dim = -1 : i64} : (!wia.tensor) -> !wia.tensor
  %d = wia.add %s, %y : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %d : !wia.tensor
}
func.func @Scale.rewrite(%x: !wia.tensor, %y: !wia.tensor) -> !wia.tensor {
  %m = wia.add %x, %x : (!wia.tensor, !wia.tensor) -> !wia.tensor
  %s = wia.softmax %m {dim = -1 : i64} : (!wia.tensor) -> !wia.tensor
  %d = wia.add %y, %s : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %d : !wia.tensor
}
func.func @Absent.match(%x: !wia.tensor) -> !wia.tensor {
  %e = wia.erf %x : (!wia.tensor) -> !wia.tensor
  func.return %e : !wia.tensor
}
func.func @Absent.rewrite(%x: !wia.tensor) -> !wia.tensor {
  %e = wia.tanh %x : (!wia.tensor) -> !wia.tensor
  func.return %e : !wia.tensor
}

// CHECK: taken pattern Scale: mul, softmax, add: mul, softmax, add → add, softmax, add [matched_ops=3, new_ops=3, inputs_tried=
// CHECK-NEXT: refused pattern Scale: mul, softmax, add: the pattern has the number 2.0 where 3.0 is read [matched_ops=3, would_fire_if=3.0 were 2.0]
// CHECK-NEXT: refused pattern Scale: mul, softmax, add: softmax has dim=0, the pattern -1 [matched_ops=2, would_fire_if=dim of softmax were -1]
// CHECK-NEXT: refused pattern Scale: mul, softmax, add: %s is inside of the match and has another consumer, the result r [matched_ops=3, would_fire_if=nothing but the match read %s]
// CHECK-NEXT: refused pattern Absent: erf: matches nothing: the kernel has no erf
func.func @k(%x: tensor<3x5xf32>, %y: tensor<3x5xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>) {
  %2 = wia.constant 2.0 : f64 : tensor<f32>
  %3 = wia.constant 3.0 : f64 : tensor<f32>
  %a = wia.mul %2, %x : (tensor<f32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %b = wia.softmax %a {dim = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %c = wia.add %y, %b : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %d = wia.mul %x, %3 : (tensor<3x5xf32>, tensor<f32>) -> tensor<3x5xf32>
  %e = wia.softmax %d {dim = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %f = wia.add %e, %y : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %g = wia.mul %x, %2 : (tensor<3x5xf32>, tensor<f32>) -> tensor<3x5xf32>
  %h = wia.softmax %g {dim = 0 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %i = wia.add %h, %y : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  %q = wia.mul %y, %2 : (tensor<3x5xf32>, tensor<f32>) -> tensor<3x5xf32>
  %r = wia.softmax %q {dim = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
  %s = wia.add %r, %x : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  func.return %c, %f, %i, %r, %s : tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>, tensor<3x5xf32>
}

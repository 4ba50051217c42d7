// RUN: wia-opt --infer-shapes=A:4x8xf16,alpha:f16 %s | filecheck %s
// Arguments fix every type; a literal takes the dtype it meets, a scalar becomes rank 0.

// CHECK: func.func @k(%A: tensor<4x8xf16>, %alpha: tensor<f16>) -> (tensor<4xf16>, tensor<4x8xi1>)
// CHECK-NEXT: [[TWO:%\w+]] = wia.constant 2.000000e+00 : f64 : tensor<f16>
// CHECK-NEXT: [[S:%\w+]] = wia.mul %A, [[TWO]] : (tensor<4x8xf16>, tensor<f16>) -> tensor<4x8xf16>
// CHECK-NEXT: [[T:%\w+]] = wia.add [[S]], %alpha : (tensor<4x8xf16>, tensor<f16>) -> tensor<4x8xf16>
// CHECK-NEXT: [[R:%\w+]] = wia.reduce_sum [[T]]
// CHECK-SAME: -> tensor<4xf16>
// CHECK-NEXT: [[MINUS:%\w+]] = wia.constant -1.000000e+00 : f64 : tensor<f16>
// CHECK-NEXT: wia.gt [[T]], [[MINUS]]
// CHECK-NOT: wia.declare
// CHECK-NOT: !wia.literal
func.func @k(%A: !wia.tensor, %alpha: f16) -> (!wia.tensor, !wia.tensor) {
  %a = wia.declare %A as "k" "A" dims ["M", 8 : i64] dtype "f16" scope 0 : i64 : !wia.tensor -> !wia.tensor
  %two = wia.constant 2 : i64 : !wia.literal
  %s = wia.mul %a, %two : (!wia.tensor, !wia.literal) -> !wia.tensor
  %t = wia.add %s, %alpha : (!wia.tensor, f16) -> !wia.tensor
  %r = wia.reduce_sum %t {dim = 1 : i64, keepdim = false} : (!wia.tensor) -> !wia.tensor
  %one = wia.constant 1 : i64 : !wia.literal
  %minus = wia.neg %one : (!wia.literal) -> !wia.literal
  %g = wia.gt %t, %minus : (!wia.tensor, !wia.literal) -> !wia.tensor
  %c = wia.declare %r as "k" "C" dims ["M"] dtype unit scope 0 : i64 : !wia.tensor -> !wia.tensor
  func.return %c, %g : !wia.tensor, !wia.tensor
}

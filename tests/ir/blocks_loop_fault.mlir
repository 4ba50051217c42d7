// RUN: not wia-opt --infer-shapes=x:3xf32 %s | filecheck %s
// A loop whose value grows: the type as it begins and the type as it comes back.

// CHECK: v is tensor<3xf32> as the loop begins and tensor<3x1xf32> as it comes back
// CHECK-NOT: on another
func.func @k(%x: !wia.tensor) -> !wia.tensor {
  cf.br ^head(%x : !wia.tensor)
^head(%v: !wia.tensor):
  %w = wia.reshape %v {shape = [3 : i64, 1 : i64]} : (!wia.tensor) -> !wia.tensor
  %zero = wia.constant 0.0 : f64 : !wia.literal
  %s = wia.reduce_sum %v {dim = unit, keepdim = false} : (!wia.tensor) -> !wia.tensor
  %p = wia.gt %s, %zero : (!wia.tensor, !wia.literal) -> !wia.tensor
  %c = wia.condition %p : (!wia.tensor) -> i1
  cf.cond_br %c, ^head(%w : !wia.tensor), ^end
^end:
  func.return %v : !wia.tensor
}

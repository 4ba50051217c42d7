// RUN: wia-opt --infer-shapes=x:3xf16,p:bool %s | filecheck %s
// A name that holds numbers alone takes the dtype of what it first meets.

// CHECK: ^a:
// CHECK-NEXT: [[TWO:%\w+]] = wia.constant 2.000000e+00 : f64 : tensor<f16>
// CHECK: ^join(%k: tensor<f16>):
// CHECK-NEXT: wia.mul %x, %k : (tensor<3xf16>, tensor<f16>) -> tensor<3xf16>
func.func @scale(%x: !wia.tensor, %p: !wia.tensor) -> !wia.tensor {
  %c = wia.condition %p : (!wia.tensor) -> i1
  cf.cond_br %c, ^a, ^b
^a:
  %two = wia.constant 2.0 : f64 : !wia.literal
  cf.br ^join(%two : !wia.literal)
^b:
  %three = wia.constant 3 : i64 : !wia.literal
  cf.br ^join(%three : !wia.literal)
^join(%k: !wia.tensor):
  %y = wia.mul %x, %k : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %y : !wia.tensor
}

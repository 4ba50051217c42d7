// RUN: wia-opt --infer-shapes=A:4x4xf32,x:4x1xf32 %s | filecheck %s
// What comes over every edge gives an argument its type; a number that only counts is i64.

// CHECK: func.func @power(%A: tensor<4x4xf32>, %x: tensor<4x1xf32>) -> tensor<4x1xf32>
// CHECK-NEXT: [[ZERO:%\w+]] = wia.constant 0 : i64 : tensor<i64>
// CHECK: cf.br ^head(%x, [[ZERO]], {{.*}} : tensor<4x1xf32>, tensor<i64>, tensor<4x1xf32>)
// CHECK-NEXT: ^head(%v: tensor<4x1xf32>, %n: tensor<i64>, %s: tensor<4x1xf32>):
// CHECK: wia.condition {{.*}} : (tensor<i1>) -> i1
// CHECK: cf.br ^head({{.*}} : tensor<4x1xf32>, tensor<i64>, tensor<4x1xf32>)
// CHECK-NOT: !wia
func.func @power(%A: !wia.tensor, %x: !wia.tensor) -> !wia.tensor {
  %zero = wia.constant 0 : i64 : !wia.literal
  %start = wia.constant 0.0 : f64 : !wia.literal
  cf.br ^head(%x, %zero, %start : !wia.tensor, !wia.literal, !wia.literal)
^head(%v: !wia.tensor, %n: !wia.tensor, %s: !wia.tensor):
  %five = wia.constant 5 : i64 : !wia.literal
  %more = wia.lt %n, %five : (!wia.tensor, !wia.literal) -> !wia.tensor
  %c = wia.condition %more : (!wia.tensor) -> i1
  cf.cond_br %c, ^body, ^end
^body:
  %w = wia.matmul %A, %v : (!wia.tensor, !wia.tensor) -> !wia.tensor
  %t = wia.add %s, %w : (!wia.tensor, !wia.tensor) -> !wia.tensor
  %one = wia.constant 1 : i64 : !wia.literal
  %m = wia.add %n, %one : (!wia.tensor, !wia.literal) -> !wia.tensor
  cf.br ^head(%w, %m, %t : !wia.tensor, !wia.tensor, !wia.tensor)
^end:
  func.return %s : !wia.tensor
}

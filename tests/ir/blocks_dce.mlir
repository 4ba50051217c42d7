// RUN: wia-opt --dce %s | filecheck %s
// A value that only its own loop passes on goes with what computes it; the counter stays.

// CHECK: cf.br ^head({{%\w+}}, %x : tensor<i64>, tensor<4xf32>)
// CHECK-NEXT: ^head(%n: tensor<i64>, %v: tensor<4xf32>):
// CHECK-NOT: wia.exp
// CHECK-NOT: %u
// CHECK: cf.br ^head({{%\w+}}, {{%\w+}} : tensor<i64>, tensor<4xf32>)
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %zero = wia.constant 0 : i64 : tensor<i64>
  %ten = wia.constant 10 : i64 : tensor<i64>
  %one = wia.constant 1 : i64 : tensor<i64>
  cf.br ^head(%zero, %x, %x : tensor<i64>, tensor<4xf32>, tensor<4xf32>)
^head(%n: tensor<i64>, %u: tensor<4xf32>, %v: tensor<4xf32>):
  %p = wia.lt %n, %ten : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %c = wia.condition %p : (tensor<i1>) -> i1
  cf.cond_br %c, ^body, ^end
^body:
  %m = wia.add %n, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %e = wia.exp %u : (tensor<4xf32>) -> tensor<4xf32>
  %w = wia.neg %v : (tensor<4xf32>) -> tensor<4xf32>
  cf.br ^head(%m, %e, %w : tensor<i64>, tensor<4xf32>, tensor<4xf32>)
^end:
  func.return %v : tensor<4xf32>
}

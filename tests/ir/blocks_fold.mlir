// RUN: wia-opt --fold-constants --dce %s | filecheck %s
// A branch on a constant is a plain one, what it leaves behind goes, chains of blocks are one,
// and what is the same on every way is no argument: here everything folds to a constant.

// CHECK: func.func @k(%x: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: [[C:%\w+]] = wia.constant 7.000000e+00
// CHECK-NEXT: wia.add %x, [[C]]
// CHECK-NEXT: func.return
// CHECK-NOT: cf.
// CHECK-NOT: ^
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = wia.constant 1.0 : f64 : tensor<f32>
  %two = wia.constant 2.0 : f64 : tensor<f32>
  %p = wia.lt %one, %two : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %c = wia.condition %p : (tensor<i1>) -> i1
  cf.cond_br %c, ^a, ^b
^a:
  %five = wia.constant 5.0 : f64 : tensor<f32>
  %t = wia.add %five, %two : (tensor<f32>, tensor<f32>) -> tensor<f32>
  cf.br ^join(%t : tensor<f32>)
^b:
  %e = wia.reduce_sum %x {dim = unit, keepdim = false} : (tensor<4xf32>) -> tensor<f32>
  cf.br ^join(%e : tensor<f32>)
^join(%r: tensor<f32>):
  %q = wia.gt %r, %one : (tensor<f32>, tensor<f32>) -> tensor<i1>
  %d = wia.condition %q : (tensor<i1>) -> i1
  cf.cond_br %d, ^f, ^g
^f:
  cf.br ^end(%r : tensor<f32>)
^g:
  cf.br ^end(%two : tensor<f32>)
^end(%s: tensor<f32>):
  %y = wia.add %x, %s : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

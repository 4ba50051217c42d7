// RUN: not wia-opt --infer-shapes=x:3xf32,y:4xf32 %s | filecheck %s
// Types that do not agree are told with both edges, conditions with what was found.

// CHECK: CompileError
// CHECK: a condition is one bool, found tensor<3xf32>
// CHECK: compare it with a number, e.g. x > 0
// CHECK: a condition is one bool, found tensor<3xbool>
// CHECK: a branch is taken once; for any of them: reduce_max(cast(…, i8)) > 0
// CHECK: r is tensor<3xf32> on one way and tensor<4xf32> on another
// CHECK: where branches meet, a name has one shape and one dtype
func.func @k(%x: !wia.tensor, %y: !wia.tensor) -> !wia.tensor {
  %c = wia.condition %x : (!wia.tensor) -> i1
  cf.cond_br %c, ^a, ^b
^a:
  cf.br ^join(%x : !wia.tensor)
^b:
  %zero = wia.constant 0.0 : f64 : !wia.literal
  %p = wia.gt %x, %zero : (!wia.tensor, !wia.literal) -> !wia.tensor
  %d = wia.condition %p : (!wia.tensor) -> i1
  cf.cond_br %d, ^e, ^join(%y : !wia.tensor)
^e:
  cf.br ^join(%x : !wia.tensor)
^join(%r: !wia.tensor):
  func.return %r : !wia.tensor
}

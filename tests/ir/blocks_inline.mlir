// RUN: wia-opt --inline %s | filecheck %s
// RUN: wia-opt --inline --infer-shapes=x:3xf32 %s | filecheck %s
// A callee with blocks splits the block of its call; every call gets blocks of its own.

// CHECK: func.func @twice(%x:
// CHECK: cf.cond_br {{%\w+}}, ^yes, ^no
// CHECK: ^yes:
// CHECK: [[N:%\w+]] = wia.neg %x
// CHECK: cf.br ^done([[N]]
// CHECK: ^no:
// CHECK: cf.br ^done(%x
// CHECK: ^done([[R:%\w+]]:
// CHECK: cf.br [[AFTER:\^\w+]]([[R]]
// CHECK: [[AFTER]](%once:
// CHECK: wia.exp %once
// CHECK: cf.cond_br {{%\w+}}, ^yes_1, ^no_1
// CHECK: ({{%again\w*}}:
// CHECK: wia.add %once, %again
// CHECK-NOT: func.call
// CHECK-NOT: @magnitude
func.func @magnitude(%a: !wia.tensor) -> !wia.tensor {
  %zero = wia.constant 0.0 : f64 : !wia.literal
  %s = wia.reduce_sum %a {dim = unit, keepdim = false} : (!wia.tensor) -> !wia.tensor
  %p = wia.lt %s, %zero : (!wia.tensor, !wia.literal) -> !wia.tensor
  %c = wia.condition %p : (!wia.tensor) -> i1
  cf.cond_br %c, ^yes, ^no
^yes:
  %n = wia.neg %a : (!wia.tensor) -> !wia.tensor
  cf.br ^done(%n : !wia.tensor)
^no:
  cf.br ^done(%a : !wia.tensor)
^done(%r: !wia.tensor):
  func.return %r : !wia.tensor
}
func.func @twice(%x: !wia.tensor) -> !wia.tensor {
  %once = func.call @magnitude(%x) : (!wia.tensor) -> !wia.tensor
  %e = wia.exp %once : (!wia.tensor) -> !wia.tensor
  %again = func.call @magnitude(%e) : (!wia.tensor) -> !wia.tensor
  %y = wia.add %once, %again : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %y : !wia.tensor
}

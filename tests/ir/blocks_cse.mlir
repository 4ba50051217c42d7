// RUN: wia-opt --cse %s | filecheck %s
// What was computed on every way to a block is not computed again there; what was computed on one
// way only is.

// CHECK: [[E:%\w+]] = wia.exp %x
// CHECK: ^a:
// CHECK-NEXT: [[L:%\w+]] = wia.tanh %x
// CHECK-NEXT: wia.add [[E]], [[L]]
// CHECK: ^b:
// CHECK-NEXT: [[M:%\w+]] = wia.tanh %x
// CHECK-NEXT: wia.sub [[E]], [[M]]
// CHECK: ^join({{.*}}):
// CHECK-NEXT: [[N:%\w+]] = wia.tanh %x
// CHECK-NEXT: wia.add {{%\w+}}, [[N]]
// CHECK-NOT: wia.exp
func.func @k(%x: tensor<4xf32>, %p: tensor<i1>) -> tensor<4xf32> {
  %e = wia.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %c = wia.condition %p : (tensor<i1>) -> i1
  cf.cond_br %c, ^a, ^b
^a:
  %f = wia.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %l = wia.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %s = wia.add %f, %l : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  cf.br ^join(%s : tensor<4xf32>)
^b:
  %m = wia.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %g = wia.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %t = wia.sub %g, %m : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  cf.br ^join(%t : tensor<4xf32>)
^join(%r: tensor<4xf32>):
  %n = wia.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  %y = wia.add %r, %n : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// RUN: wia-opt --canonicalize --fold-constants --cse --dce %s | filecheck %s
// An endless loop keeps the way out by which the function would return.

// CHECK: [[C:%\w+]] = wia.condition
// CHECK-NEXT: cf.cond_br [[C]], ^body, ^end
// CHECK: func.return
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^head(%x : tensor<4xf32>)
^head(%v: tensor<4xf32>):
  %true = wia.constant true : tensor<i1>
  %c = wia.condition %true : (tensor<i1>) -> i1
  cf.cond_br %c, ^body, ^end
^body:
  %w = wia.exp %v : (tensor<4xf32>) -> tensor<4xf32>
  cf.br ^head(%w : tensor<4xf32>)
^end:
  func.return %v : tensor<4xf32>
}

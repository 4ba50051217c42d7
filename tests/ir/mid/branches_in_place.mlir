// RUN: wia-opt --lower-to-nests %s | filecheck %s
// Both ways write straight to the output: a join copies nothing.

// CHECK: func.func @either(%x: memref<3xf32>, %p: memref<i1>, %r: memref<3xf32>)
// CHECK-NEXT: [[C:%\w+]] = memref.load %p[] : memref<i1>
// CHECK-NEXT: cf.cond_br [[C]], ^a, ^b
// CHECK-NEXT: ^a:
// CHECK-NEXT: func.call @either_exp(%x, %r)
// CHECK-NEXT: cf.br ^join
// CHECK-NEXT: ^b:
// CHECK-NEXT: func.call @either_neg(%x, %r)
// CHECK-NEXT: cf.br ^join
// CHECK-NEXT: ^join:
// CHECK-NEXT: func.return
func.func @either(%x: tensor<3xf32>, %p: tensor<i1>) -> tensor<3xf32> {
  %c = wia.condition %p : (tensor<i1>) -> i1
  cf.cond_br %c, ^a, ^b
^a:
  %e = wia.exp %x : (tensor<3xf32>) -> tensor<3xf32>
  cf.br ^join(%e : tensor<3xf32>)
^b:
  %n = wia.neg %x : (tensor<3xf32>) -> tensor<3xf32>
  cf.br ^join(%n : tensor<3xf32>)
^join(%r: tensor<3xf32>):
  func.return %r : tensor<3xf32>
}

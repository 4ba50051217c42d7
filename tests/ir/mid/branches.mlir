// RUN: wia-opt --lower-to-nests %s | filecheck %s
// A loop that swaps two values at its end: each is copied once the other has been read, one of them
// through an array of its own. The condition is read from an array of rank 0.

// CHECK: func.func @swap(%x: memref<3xf32>, %y: memref<3xf32>, %n: memref<i64>, %a: memref<3xf32>)
// CHECK: [[B:%\w+]] = memref.alloc() : memref<3xf32>
// CHECK: [[I:%\w+]] = memref.alloc() : memref<i64>
// CHECK: func.call @swap_copy(%x, %a)
// CHECK: cf.br ^head
// CHECK: ^head:
// CHECK: func.call @swap_lt([[I]], %n, [[P:%\w+]])
// CHECK-NEXT: [[C:%\w+]] = memref.load [[P]][] : memref<i1>
// CHECK-NEXT: cf.cond_br [[C]], ^body, ^end
// CHECK: ^body:
// CHECK: func.call @swap_copy([[B]], [[T:%\w+]])
// CHECK-NEXT: func.call @swap_copy(%a, [[B]])
// CHECK-NEXT: func.call @swap_copy([[T]], %a)
// CHECK: cf.br ^head
// CHECK: ^end:
// CHECK-NEXT: func.return
func.func @swap(%x: tensor<3xf32>, %y: tensor<3xf32>, %n: tensor<i64>) -> tensor<3xf32> {
  %zero = wia.constant 0 : i64 : tensor<i64>
  cf.br ^head(%x, %y, %zero : tensor<3xf32>, tensor<3xf32>, tensor<i64>)
^head(%a: tensor<3xf32>, %b: tensor<3xf32>, %i: tensor<i64>):
  %p = wia.lt %i, %n : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %c = wia.condition %p : (tensor<i1>) -> i1
  cf.cond_br %c, ^body, ^end
^body:
  %one = wia.constant 1 : i64 : tensor<i64>
  %j = wia.add %i, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
  cf.br ^head(%b, %a, %j : tensor<3xf32>, tensor<3xf32>, tensor<i64>)
^end:
  func.return %a : tensor<3xf32>
}

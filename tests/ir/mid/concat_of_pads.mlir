// RUN: wia-opt --lower-to-nests %s | filecheck %s
// A concat of a value and of a padded one: each part is written in place, with what follows it.

// CHECK-LABEL: func.func @k(%x: memref<3xf32>, %y: memref<2xf32>
// CHECK-NOT: memref.alloc
// CHECK: func.call @group
// CHECK-NEXT: func.call @group_1
// CHECK-NEXT: func.call @group_2
// CHECK: func.func @group(%x: memref<3xf32>
// CHECK-NEXT: tile.for %i0 in 3 step 1 axis "i.0"
// CHECK: outs({{%\w+}}[%i0 + i] : memref<8xf32>)
// CHECK: arith.negf
// CHECK: func.func @group_1
// CHECK: outs({{%\w+}}[3] : memref<8xf32>)
// CHECK: arith.constant 7.0
// CHECK: func.func @group_2(%y: memref<2xf32>
// CHECK: ins(%y[%i0 + i] : memref<2xf32>) outs({{%\w+}}[%i0 + i + 4] : memref<8xf32>)
// CHECK: func.func @group_3
// CHECK: outs({{%\w+}}[%i0 + i + 6] : memref<8xf32>)
func.func @k(%x: tensor<3xf32>, %y: tensor<2xf32>) -> tensor<8xf32> {
  %r = wia.fused @group (%a = %x : tensor<3xf32>, %b = %y : tensor<2xf32>) -> (tensor<8xf32>) {
    %0 = wia.neg %a : (tensor<3xf32>) -> tensor<3xf32>
    %1 = wia.pad %b {pad = [1, 2], mode = "constant", value = 7 : i64, interior = unit} : (tensor<2xf32>) -> tensor<5xf32>
    %2 = wia.concat %0, %1 {dim = 0 : i64} : (tensor<3xf32>, tensor<5xf32>) -> tensor<8xf32>
    %3 = wia.exp %2 : (tensor<8xf32>) -> tensor<8xf32>
    wia.yield %3 : tensor<8xf32>
  }
  func.return %r : tensor<8xf32>
}

// RUN: wia-opt --lower-to-nests %s | filecheck %s
// Rows at positions that another array holds: a leaf that looks them up, with a check of its own.

// CHECK-LABEL: func.func @k
// CHECK: func.func @k_index_select(%i: memref<6xi64>, %x: memref<50x8xf32>
// CHECK: %position = tile.positions : memref<8xi64, "positions">
// CHECK: tile.compute map @thread axes [i = 1, j = 1] at (%i0, %j0) ins(%i[%i0 + i] : memref<6xi64>, %position[%j0 + j]
// CHECK: tile.lookup %x[{{%\w+}}, {{%\w+}}] checks [0 : i64] number 0 : i64 : memref<50x8xf32> -> f32
func.func @k(%x: tensor<50x8xf32>, %i: tensor<6xi64>) -> tensor<6x8xf32> {
  %0 = wia.index_select %x, %i {dim = 0 : i64} : (tensor<50x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
  func.return %0 : tensor<6x8xf32>
}

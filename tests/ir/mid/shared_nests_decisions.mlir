// RUN: wia-opt --lower-to-nests --decisions %s | filecheck %s
// A decision says which nest serves how many calls.

// CHECK: taken share k_matmul: equal but for lines, names and arrays: scheduled and compiled once [calls=2]
// CHECK-NOT: share
func.func @k(%x: tensor<5x8xf32>, %w: tensor<8x8xf32>) -> tensor<5x8xf32> {
  %a = wia.matmul %x, %w : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  %b = wia.abs %a : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %c = wia.matmul %b, %w : (tensor<5x8xf32>, tensor<8x8xf32>) -> tensor<5x8xf32>
  func.return %c : tensor<5x8xf32>
}

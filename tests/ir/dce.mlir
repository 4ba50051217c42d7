// RUN: wia-opt --dce %s | filecheck %s
// A whole chain that no result needs goes, constants with it.

// CHECK: func.func @k(%x: tensor<4xf32>, %unused: tensor<4xf32>)
// CHECK-NEXT: [[E:%\w+]] = wia.exp %x
// CHECK-NEXT: func.return [[E]]
func.func @k(%x: tensor<4xf32>, %unused: tensor<4xf32>) -> tensor<4xf32> {
  %one = wia.constant 1.0 : f64 : tensor<f32>
  %a = wia.add %unused, %one : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = wia.log %a : (tensor<4xf32>) -> tensor<4xf32>
  %e = wia.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %e : tensor<4xf32>
}

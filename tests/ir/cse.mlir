// RUN: wia-opt --cse %s | filecheck %s
// Equal ops merge, commutative ones in either order; +0.0 and -0.0 are different numbers.

// CHECK: func.func @k
// CHECK: wia.constant 0.000000e+00
// CHECK-NEXT: wia.constant -0.000000e+00
// CHECK-NEXT: [[E:%\w+]] = wia.exp %x
// CHECK-NEXT: [[A:%\w+]] = wia.add [[E]], %y
// CHECK-NEXT: [[D:%\w+]] = wia.sub [[A]], [[A]]
// CHECK-NEXT: wia.sub %y, [[E]]
// CHECK-NEXT: wia.sub [[E]], %y
// CHECK-NOT: wia.exp
func.func @k(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) {
  %z = wia.constant 0.0 : f64 : tensor<f32>
  %m = wia.constant -0.0 : f64 : tensor<f32>
  %e = wia.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %f = wia.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %a = wia.add %e, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %b = wia.add %y, %f : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = wia.sub %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %g = wia.sub %y, %e : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %h = wia.sub %f, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %d, %g, %h, %z, %m : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>
}

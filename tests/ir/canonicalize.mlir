// RUN: wia-opt --canonicalize %s | filecheck %s

// CHECK: func.func @k
// CHECK-NEXT: [[ABS:%\w+]] = wia.abs %x
// CHECK-NEXT: [[SQUARE:%\w+]] = wia.mul [[ABS]], [[ABS]]
// CHECK-NEXT: [[INVERSE:%\w+]] = wia.constant 1.250000e-01 : f64
// CHECK-NEXT: [[EIGHTH:%\w+]] = wia.mul [[SQUARE]], [[INVERSE]]
// CHECK-NEXT: [[BACK:%\w+]] = wia.sub [[EIGHTH]], %y
// CHECK-NEXT: func.return [[BACK]]
func.func @k(%x: tensor<4x4xf32>, %y: tensor<4xf32>) -> tensor<4x4xf32> {
  %n = wia.neg %x : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %a = wia.abs %n : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %two = wia.constant 2.0 : f64 : tensor<f32>
  %p = wia.pow %a, %two : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %eight = wia.constant 8.0 : f64 : tensor<f32>
  %d = wia.div %p, %eight : (tensor<4x4xf32>, tensor<f32>) -> tensor<4x4xf32>
  %t = wia.transpose %d {dim0 = 0 : i64, dim1 = 1 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %u = wia.transpose %t {dim0 = -1 : i64, dim1 = -2 : i64} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %one = wia.constant 1.0 : f64 : tensor<f32>
  %m = wia.mul %one, %u : (tensor<f32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %z = wia.neg %y : (tensor<4xf32>) -> tensor<4xf32>
  %b = wia.broadcast %z {shape = [4 : i64, 4 : i64]} : (tensor<4xf32>) -> tensor<4x4xf32>
  %r = wia.add %b, %m : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %r : tensor<4x4xf32>
}

// RUN: wia-opt --canonicalize %s | filecheck %s
// What would change -0, NaN or a rounding stays as it is written.

// CHECK: func.func @k
// CHECK: wia.add %x, %zero
// CHECK: wia.mul {{.*}}, %zero
// CHECK: wia.sub [[V:%\w+]], [[V]]
// CHECK: wia.div {{.*}}, %three
// CHECK: wia.eq [[W:%\w+]], [[W]]
// CHECK: wia.cast
// CHECK: wia.cast
func.func @k(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>, tensor<4xf32>) {
  %zero = wia.constant 0.0 : f64 : tensor<f32>
  %three = wia.constant 3.0 : f64 : tensor<f32>
  %a = wia.add %x, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %b = wia.mul %a, %zero : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %c = wia.sub %b, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %d = wia.div %c, %three : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %e = wia.eq %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %f = wia.cast %x {dtype = "f16"} : (tensor<4xf32>) -> tensor<4xf16>
  %g = wia.cast %f {dtype = "f32"} : (tensor<4xf16>) -> tensor<4xf32>
  func.return %d, %e, %g : tensor<4xf32>, tensor<4xi1>, tensor<4xf32>
}

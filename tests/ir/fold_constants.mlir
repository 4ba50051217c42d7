// RUN: wia-opt --fold-constants %s | filecheck %s
// Constants are folded with the rounding of their dtype, and what that makes possible is done too.

// CHECK: func.func @k
// CHECK-NEXT: [[SUM:%\w+]] = wia.constant 2.048000e+03 : f64 : tensor<f16>
// CHECK-NEXT: [[R:%\w+]] = wia.add %x, [[SUM]]
// CHECK-NEXT: [[WRAPPED:%\w+]] = wia.constant -128 : i64 : tensor<2xi8>
// CHECK-NEXT: [[S:%\w+]] = wia.constant 1.200000e+01 : f64 : tensor<f32>
// CHECK-NEXT: func.return [[R]], [[WRAPPED]], [[S]]
func.func @k(%x: tensor<4xf16>) -> (tensor<4xf16>, tensor<2xi8>, tensor<f32>) {
  %large = wia.constant 2048.0 : f64 : tensor<f16>
  %one = wia.constant 1.0 : f64 : tensor<f16>
  %sum = wia.add %large, %one : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %zero = wia.sub %one, %one : (tensor<f16>, tensor<f16>) -> tensor<f16>
  %power = wia.exp %zero : (tensor<f16>) -> tensor<f16>
  %same = wia.mul %x, %power : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
  %r = wia.add %same, %sum : (tensor<4xf16>, tensor<f16>) -> tensor<4xf16>
  %most = wia.constant 127 : i64 : tensor<2xi8>
  %step = wia.constant 1 : i64 : tensor<i8>
  %wrapped = wia.add %most, %step : (tensor<2xi8>, tensor<i8>) -> tensor<2xi8>
  %twos = wia.constant 2.0 : f64 : tensor<2x3xf32>
  %s = wia.reduce_sum %twos {dim = unit, keepdim = false} : (tensor<2x3xf32>) -> tensor<f32>
  func.return %r, %wrapped, %s : tensor<4xf16>, tensor<2xi8>, tensor<f32>
}

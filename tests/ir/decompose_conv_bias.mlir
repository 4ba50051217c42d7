// RUN: wia-opt --fusion --decompose %s | filecheck %s
// The bias of a convolution becomes an addition in the same kernel, relu a maximum with 0.

// CHECK: wia.fused @fused_conv2d_relu
// CHECK-NEXT: [[C:%\w+]] = wia.conv2d {{%\w+}}, {{%\w+}} {
// CHECK-SAME: given = ["input", "weight"]
// CHECK-NEXT: [[B:%\w+]] = wia.reshape {{%\w+}} {shape = [4 : i64, 1 : i64, 1 : i64]}
// CHECK-NEXT: [[A:%\w+]] = wia.add [[C]], [[B]]
// CHECK-NEXT: [[ZERO:%\w+]] = wia.constant 0.000000e+00
// CHECK-NEXT: wia.max [[A]], [[ZERO]]
func.func @k(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x4x6x6xf32> {
  %c = wia.conv2d %x, %w, %b {stride = 1 : i64, padding = 0 : i64, dilation = 1 : i64, groups = 1 : i64, given = ["input", "weight", "bias"]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  %r = wia.relu %c : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  func.return %r : tensor<1x4x6x6xf32>
}

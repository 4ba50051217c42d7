// RUN: wia-opt --fusion %s | filecheck %s
// A convolution and what follows it are one kernel; the bias is read through an index map.

// CHECK: func.func @k
// CHECK-NEXT: [[R:%\w+]] = wia.fused @fused_conv2d_add_relu (
// CHECK-NEXT: [[C:%\w+]] = wia.conv2d
// CHECK-NEXT: [[B:%\w+]] = wia.reshape
// CHECK-NEXT: [[A:%\w+]] = wia.add [[C]], [[B]]
// CHECK-NEXT: [[M:%\w+]] = wia.relu [[A]]
// CHECK-NEXT: wia.yield [[M]]
// CHECK: func.return [[R]]
func.func @k(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<4xf32>) -> tensor<1x4x6x6xf32> {
  %c = wia.conv2d %x, %w {stride = 1 : i64, padding = 0 : i64, dilation = 1 : i64, groups = 1 : i64, given = ["input", "weight"]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %s = wia.reshape %b {shape = [4 : i64, 1 : i64, 1 : i64]} : (tensor<4xf32>) -> tensor<4x1x1xf32>
  %a = wia.add %c, %s : (tensor<1x4x6x6xf32>, tensor<4x1x1xf32>) -> tensor<1x4x6x6xf32>
  %r = wia.relu %a : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  func.return %r : tensor<1x4x6x6xf32>
}

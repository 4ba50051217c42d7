// RUN: wia-opt --apply-patterns %s | filecheck %s
// The chapter's pattern: conv2d, add and relu become the kernel that its rewrite names. Operands
// of add match in either order; the conv2d that something else reads too stays as it is.

func.func @ConvBiasRelu.match(%input: !wia.tensor, %weight: !wia.tensor, %bias: !wia.tensor) -> !wia.tensor {
  %conv = wia.conv2d %input, %weight {stride = 1 : i64, padding = 0 : i64, dilation = 1 : i64, groups = 1 : i64, given = ["input", "weight"]} : (!wia.tensor, !wia.tensor) -> !wia.tensor
  %bias_add = wia.add %conv, %bias : (!wia.tensor, !wia.tensor) -> !wia.tensor
  %output = wia.relu %bias_add : (!wia.tensor) -> !wia.tensor
  func.return %output : !wia.tensor
}
func.func @ConvBiasRelu.rewrite(%input: !wia.tensor, %weight: !wia.tensor, %bias: !wia.tensor) -> !wia.tensor {
  %output = wia.fuse_match "fused_conv_bias_relu" %input, %weight, %bias : (!wia.tensor, !wia.tensor, !wia.tensor) -> (!wia.tensor)
  func.return %output : !wia.tensor
}

// CHECK: func.func @k
// CHECK-NEXT: [[R:%\w+]] = wia.fused @fused_conv_bias_relu (
// CHECK-NEXT: [[C:%\w+]] = wia.conv2d
// CHECK-NEXT: [[A:%\w+]] = wia.add %{{\w+}}, [[C]]
// CHECK-NEXT: [[M:%\w+]] = wia.relu [[A]]
// CHECK-NEXT: wia.yield [[M]]
// CHECK: [[D:%\w+]] = wia.conv2d [[R]]
// CHECK-NEXT: [[E:%\w+]] = wia.add [[D]]
// CHECK-NEXT: [[F:%\w+]] = wia.relu [[E]]
// CHECK-NEXT: func.return [[D]], [[F]]
func.func @k(%x: tensor<1x3x8x8xf32>, %w: tensor<3x3x3x3xf32>, %b: tensor<3x1x1xf32>) -> (tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>) {
  %c = wia.conv2d %x, %w {stride = 1 : i64, padding = 0 : i64, dilation = 1 : i64, groups = 1 : i64, given = ["input", "weight"]} : (tensor<1x3x8x8xf32>, tensor<3x3x3x3xf32>) -> tensor<1x3x6x6xf32>
  %a = wia.add %b, %c : (tensor<3x1x1xf32>, tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf32>
  %r = wia.relu %a : (tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xf32>
  %d = wia.conv2d %r, %w {stride = 1 : i64, padding = 0 : i64, dilation = 1 : i64, groups = 1 : i64, given = ["input", "weight"]} : (tensor<1x3x6x6xf32>, tensor<3x3x3x3xf32>) -> tensor<1x3x4x4xf32>
  %e = wia.add %d, %b : (tensor<1x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %f = wia.relu %e : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32>
  func.return %d, %f : tensor<1x3x4x4xf32>, tensor<1x3x4x4xf32>
}

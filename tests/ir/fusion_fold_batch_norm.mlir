// RUN: wia-opt --facts=launch_cost_bytes=0,bytes_per_flop=10 --fusion %s | filecheck %s
// batch_norm goes into the weights: γ/√(σ²+ε) is computed once a channel, one addition stays.

// CHECK: func.func @k
// CHECK-NEXT: [[F:%\w+]] = wia.fused @fused_add_rsqrt_mul (
// CHECK: [[W:%\w+]] = wia.fused @fused_mul (
// CHECK: [[S:%\w+]] = wia.fused @fused_mul_sub (
// CHECK: [[R:%\w+]] = wia.fused @fused_conv2d_add (
// CHECK-NOT: wia.batch_norm
// CHECK: func.return [[R]]
func.func @k(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<1x4x6x6xf32> {
  %c = wia.conv2d %x, %w {stride = 1 : i64, padding = 0 : i64, dilation = 1 : i64, groups = 1 : i64, given = ["input", "weight"]} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  %n = wia.batch_norm %c, %m, %v, %g, %b {eps = 1.0e-5 : f64, given = ["input", "running_mean", "running_var", "weight", "bias"]} : (tensor<1x4x6x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x6x6xf32>
  func.return %n : tensor<1x4x6x6xf32>
}

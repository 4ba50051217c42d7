// RUN: wia-opt --facts=register_capacity=4,launch_cost_bytes=0 --fusion --decisions %s | filecheck %s
// With 3 of 4 registers taken, a spill is likely: the benefit is below 1.5 × the cost.

// CHECK: refused vertical add → mul: benefit 1.33 × cost, needs 1.5
// CHECK-SAME: saved_bytes=32768, saved_launches=1, benefit=32768.0, cost=24576.0, ratio=1.333, threshold=1.5, would_fuse_if=5 values fitted in registers, not 4; or a launch cost what moving 4.1 KB does, not 0 B
func.func @k(%x: tensor<4096xf32>, %y: tensor<4096xf32>) -> tensor<4096xf32> {
  %a = wia.add %x, %y : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  %m = wia.mul %a, %y : (tensor<4096xf32>, tensor<4096xf32>) -> tensor<4096xf32>
  func.return %m : tensor<4096xf32>
}

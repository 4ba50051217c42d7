// RUN: wia-opt --facts=launch_cost_bytes=0,vector_bytes=64 --fusion %s | filecheck %s
// Two narrow products of one matrix are one, with the weights side by side, and a slice for each.

// CHECK: func.func @k
// CHECK-NEXT: [[W:%\w+]] = wia.concat %q, %p {dim = 1 : i64}
// CHECK-NEXT: [[M:%\w+]] = wia.matmul %x, [[W]]
// CHECK-NEXT: [[A:%\w+]] = wia.slice [[M]] {starts = [0 : i64, 0 : i64], stops = [128 : i64, 4 : i64]
// CHECK-NEXT: [[B:%\w+]] = wia.slice [[M]] {starts = [0 : i64, 4 : i64], stops = [128 : i64, 6 : i64]
// CHECK-NEXT: func.return [[A]], [[B]]
func.func @k(%x: tensor<128x64xf32>, %q: tensor<64x4xf32>, %p: tensor<64x2xf32>) -> (tensor<128x4xf32>, tensor<128x2xf32>) {
  %a = wia.matmul %x, %q : (tensor<128x64xf32>, tensor<64x4xf32>) -> tensor<128x4xf32>
  %b = wia.matmul %x, %p : (tensor<128x64xf32>, tensor<64x2xf32>) -> tensor<128x2xf32>
  func.return %a, %b : tensor<128x4xf32>, tensor<128x2xf32>
}

// RUN: wia-opt --decompose %s | filecheck %s
// The exponential is of -|x|, which never overflows.

// CHECK: wia.fused @sigmoid
// CHECK-NEXT: [[A:%\w+]] = wia.abs
// CHECK-NEXT: [[N:%\w+]] = wia.neg [[A]]
// CHECK-NEXT: [[E:%\w+]] = wia.exp [[N]]
// CHECK: [[W:%\w+]] = wia.where {{%\w+}}, [[E]], [[ONE:%\w+]] :
// CHECK-NEXT: [[S:%\w+]] = wia.add [[ONE]], [[E]]
// CHECK-NEXT: wia.div [[W]], [[S]]
func.func @k(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = wia.sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return %s : tensor<4xf32>
}

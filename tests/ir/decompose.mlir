// RUN: wia-opt --decompose %s | filecheck %s
// A composite op on its own gets a kernel; f16 is carried in f32 and rounded once.

// CHECK: wia.fused @softmax
// CHECK-NEXT: [[WIDE:%\w+]] = wia.cast {{%\w+}} {dtype = "f32"}
// CHECK-NEXT: [[MAX:%\w+]] = wia.reduce_max [[WIDE]] {dim = [1 : i64], keepdim = true}
// CHECK-NEXT: [[SHIFTED:%\w+]] = wia.sub [[WIDE]], [[MAX]]
// CHECK-NEXT: [[EXP:%\w+]] = wia.exp [[SHIFTED]]
// CHECK-NEXT: [[SUM:%\w+]] = wia.reduce_sum [[EXP]] {dim = [1 : i64], keepdim = true}
// CHECK-NEXT: [[ONE:%\w+]] = wia.constant
// CHECK-NEXT: [[INVERSE:%\w+]] = wia.div [[ONE]], [[SUM]]
// CHECK-NEXT: [[QUOTIENT:%\w+]] = wia.mul [[EXP]], [[INVERSE]]
// CHECK-NEXT: [[NARROW:%\w+]] = wia.cast [[QUOTIENT]] {dtype = "f16"}
// CHECK-NEXT: wia.yield [[NARROW]]
// CHECK: wia.permute {{%\w+}} {dims = [1 : i64, 0 : i64]}
func.func @k(%x: tensor<4x8xf16>) -> tensor<8x4xf16> {
  %s = wia.softmax %x {dim = -1 : i64} : (tensor<4x8xf16>) -> tensor<4x8xf16>
  %t = wia.transpose %s {dim0 = 0 : i64, dim1 = 1 : i64} : (tensor<4x8xf16>) -> tensor<8x4xf16>
  func.return %t : tensor<8x4xf16>
}

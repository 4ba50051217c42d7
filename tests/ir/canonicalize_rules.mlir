// RUN: wia-opt --canonicalize --decisions %s | filecheck %s
// Each rewrite is a decision that shows its rule.

// CHECK: taken rewrite logical_not(eq(x, y)) → ne(x, y)
// CHECK-NEXT: taken rewrite where(logical_not(c), x, y) → where(c, y, x)
// CHECK-NEXT: taken rewrite cast(cast(x, wider), t) → cast(x, t)
// CHECK-NEXT: taken rewrite cast(x: t, t) → x
// CHECK-NEXT: taken rewrite reshape(reshape(x)) → reshape(x)
func.func @k(%x: tensor<4xi32>, %c: tensor<4xi1>, %h: tensor<4xf16>) -> (tensor<4xi1>, tensor<4xi32>, tensor<2x2xf16>) {
  %e = wia.eq %x, %x : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %y = wia.neg %x : (tensor<4xi32>) -> tensor<4xi32>
  %f = wia.eq %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  %n = wia.logical_not %f : (tensor<4xi1>) -> tensor<4xi1>
  %m = wia.logical_not %c : (tensor<4xi1>) -> tensor<4xi1>
  %w = wia.where %m, %x, %y : (tensor<4xi1>, tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %p = wia.cast %h {dtype = "f32"} : (tensor<4xf16>) -> tensor<4xf32>
  %q = wia.cast %p {dtype = "f16"} : (tensor<4xf32>) -> tensor<4xf16>
  %r = wia.reshape %q {shape = [4 : i64, 1 : i64]} : (tensor<4xf16>) -> tensor<4x1xf16>
  %s = wia.reshape %r {shape = [2 : i64, 2 : i64]} : (tensor<4x1xf16>) -> tensor<2x2xf16>
  func.return %n, %w, %s : tensor<4xi1>, tensor<4xi32>, tensor<2x2xf16>
}

// RUN: wia-opt --expand %s | filecheck %s
// Steps that are composites of several kernels are written out too; nothing unused is left.

// CHECK: func.func @k
// CHECK-NEXT: wia.pad %x {pad = [2 : i64, 2 : i64, 0 : i64, 0 : i64], mode = "constant", value = 0 : i64, interior = [1 : i64, 0 : i64]}
// CHECK-NEXT: wia.slice %w {starts, stops, steps = [1 : i64, 1 : i64, -1 : i64, -1 : i64]}
// CHECK-NEXT: wia.permute {{%\w+}} {dims = [1 : i64, 0 : i64, 2 : i64, 3 : i64]}
// CHECK-NEXT: wia.conv2d
// CHECK-NEXT: func.return
func.func @k(%x: tensor<1x1x1x4xf32>, %w: tensor<1x1x1x3xf32>) -> tensor<1x1x1x9xf32> {
  %y = wia.conv_transpose2d %x, %w {stride = [1 : i64, 2 : i64], padding = 0 : i64, output_padding = 0 : i64, groups = 1 : i64, dilation = 1 : i64, given = ["input", "weight"]} : (tensor<1x1x1x4xf32>, tensor<1x1x1x3xf32>) -> tensor<1x1x1x9xf32>
  func.return %y : tensor<1x1x1x9xf32>
}

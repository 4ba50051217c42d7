// RUN: wia-opt --inline %s | filecheck %s
// A called kernel's body takes the place of the call, each copy with a scope of its own.

// CHECK-NOT: @scale
// CHECK: func.func @k(%A: !wia.tensor) -> !wia.tensor
// CHECK-NEXT: [[X:%\w+]] = wia.declare %A as "scale" "X" dims ["M"] dtype unit scope [[FIRST:\d+]] : i64
// CHECK-NEXT: [[ONCE:%\w+]] = wia.add [[X]], [[X]]
// CHECK-NEXT: wia.declare [[ONCE]] as "scale" "X" dims ["M"] dtype unit scope
// CHECK-NOT: scope [[FIRST]] :
// CHECK: [[TWICE:%\w+]] = wia.add
// CHECK-NEXT: func.return [[TWICE]]
func.func @scale(%X: !wia.tensor) -> !wia.tensor {
  %0 = wia.declare %X as "scale" "X" dims ["M"] dtype unit scope 0 : i64 : !wia.tensor -> !wia.tensor
  %1 = wia.add %0, %0 : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %1 : !wia.tensor
}
func.func @k(%A: !wia.tensor) -> !wia.tensor {
  %0 = func.call @scale(%A) : (!wia.tensor) -> !wia.tensor
  %1 = func.call @scale(%0) : (!wia.tensor) -> !wia.tensor
  func.return %1 : !wia.tensor
}

// RUN: wia-opt --inline %s | filecheck %s
// Callees of callees come along; functions that nothing calls any more are gone.

// CHECK-NOT: @inner
// CHECK-NOT: @outer
// CHECK: func.func @k
// CHECK-NEXT: wia.exp %A
// CHECK-NEXT: [[R:%\w+]] = wia.neg
// CHECK-NEXT: func.return [[R]]
// CHECK-NOT: func.call
func.func @inner(%X: !wia.tensor) -> !wia.tensor {
  %0 = wia.exp %X : (!wia.tensor) -> !wia.tensor
  func.return %0 : !wia.tensor
}
func.func @outer(%X: !wia.tensor) -> !wia.tensor {
  %0 = func.call @inner(%X) : (!wia.tensor) -> !wia.tensor
  %1 = wia.neg %0 : (!wia.tensor) -> !wia.tensor
  func.return %1 : !wia.tensor
}
func.func @k(%A: !wia.tensor) -> !wia.tensor {
  %0 = func.call @outer(%A) : (!wia.tensor) -> !wia.tensor
  func.return %0 : !wia.tensor
}

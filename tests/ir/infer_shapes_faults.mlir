// RUN: not wia-opt --infer-shapes=A:4x8xf32,B:5x3xf32,C:8xi8 %s 2>&1 | filecheck %s
// Every fault is found, and names the values, the axis and the sizes.

// CHECK: CompileError
// CHECK: size K is 8 on axis 1 of A, and 5 on axis 0 of B
// CHECK: axis 1 of B is declared 4, found size 3
// CHECK: matmul: axis 1 of A: tensor<4x8xf32> has size 8, axis 0 of B: tensor<5x3xf32> has size 5
// CHECK: i8 cannot hold 300 (a literal takes the dtype of C)
// CHECK: dtypes f32 and i8 do not mix: A: tensor<4x8xf32> and C: tensor<8xi8>
func.func @k(%A: !wia.tensor, %B: !wia.tensor, %C: !wia.tensor) -> !wia.tensor {
  %a = wia.declare %A as "k" "A" dims ["M", "K"] dtype unit scope 0 : i64 : !wia.tensor -> !wia.tensor
  %b = wia.declare %B as "k" "B" dims ["K", 4 : i64] dtype unit scope 0 : i64 : !wia.tensor -> !wia.tensor
  %0 = wia.matmul %a, %b : (!wia.tensor, !wia.tensor) -> !wia.tensor
  %1 = wia.constant 300 : i64 : !wia.literal
  %2 = wia.add %C, %1 : (!wia.tensor, !wia.literal) -> !wia.tensor
  %3 = wia.mul %a, %C : (!wia.tensor, !wia.tensor) -> !wia.tensor
  %4 = wia.add %0, %3 : (!wia.tensor, !wia.tensor) -> !wia.tensor
  func.return %4 : !wia.tensor
}

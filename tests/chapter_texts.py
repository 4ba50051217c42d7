"""What WIA-AI-011, chapter 5, writes in its own notations, as written."""

MATMUL = """\
// WIA DSL 예제
kernel matmul_kernel(
    input A: tensor,
    input B: tensor,
    output C: tensor
) {
    // 고수준 텐서 표기법
    C = A @ B;  // 행렬 곱셈
}
"""

MATMUL_IR = """\
// 컴파일러가 생성하는 고수준 IR
func @matmul_kernel(
    %A: tensor,
    %B: tensor
) -> tensor {
    %C = tensor.matmul %A, %B : (tensor, tensor)
                                -> tensor
    return %C
}
"""

FORWARD = """\
// SSA (Static Single Assignment) 형식
func @forward_pass(%input: tensor) -> tensor {
    // 각 값은 정확히 한 번만 할당
    %0 = conv2d(%input, %weight1)       // 컨볼루션
    %1 = batch_norm(%0, %bn1_params)    // 배치 정규화
    %2 = relu(%1)                       // 활성화
    %3 = max_pool(%2, kernel=2)         // 풀링
    %4 = conv2d(%3, %weight2)           // 두 번째 레이어
    %5 = batch_norm(%4, %bn2_params)
    %6 = relu(%5)
    %7 = flatten(%6)                    // 평탄화
    %8 = matmul(%7, %fc_weight)         // 완전 연결
    %9 = softmax(%8)                    // 출력
    return %9
}
"""

CONDITIONAL = """\
// 조건부 실행
func @conditional_compute(%x: tensor, %threshold: f32) {
    %norm = reduce_sum(abs(%x))

    // 제어 흐름
    cond_br %norm > %threshold, ^compute, ^skip

^compute:
    %result = expensive_operation(%x)
    br ^exit(%result)

^skip:
    br ^exit(%x)

^exit(%final: tensor):
    return %final
}
"""

EXPENSIVE = """\
func @expensive_operation(%x: tensor) -> tensor {
    %square = %x * %x
    %result = tanh(%square)
    return %result
}
"""

FUSION = """\
// 융합 전: 3개의 별도 커널
%0 = conv2d(%input, %weight)    // 커널 1: 컨볼루션
%1 = add(%0, %bias)              // 커널 2: 바이어스 추가
%2 = relu(%1)                    // 커널 3: 활성화

// 문제점:
// - 3번의 글로벌 메모리 쓰기/읽기
// - 3번의 커널 시작 오버헤드

// 융합 후: 1개의 커널
%result = fused_conv_bias_relu(%input, %weight, %bias)

// 이점:
// - 1번의 글로벌 메모리 쓰기
// - 1번의 커널 시작
// - 중간 결과가 레지스터에 유지

// 융합 패턴 인식
pattern ConvBiasRelu {
    match:
        %conv = conv2d(%input, %weight)
        %bias_add = add(%conv, %bias)
        %output = relu(%bias_add)

    rewrite:
        %output = fused_conv_bias_relu(%input, %weight, %bias)
}
"""

CHAINS = """\
// 수직 융합: 프로듀서-컨슈머 체인
%a = op1(%input)
%b = op2(%a)
%c = op3(%b)
// → fused_op123(%input)

// 수평 융합: 독립적 연산 병합
%x = op_a(%input1)
%y = op_b(%input2)
// → fused_op_ab(%input1, %input2)
"""

OPS = """
kernel op1(input x: tensor) { return x + 1.0; }
kernel op2(input x: tensor) { return x * 2.0; }
kernel op3(input x: tensor) { return relu(x); }
kernel op_a(input x: tensor) { return -x; }
kernel op_b(input x: tensor) { return abs(x); }
"""

DECLARATION = """\
// IR:
func @vector_add(%a: tensor<1024, f32>, %b: tensor<1024, f32>)
    -> tensor<1024, f32>
"""

// 3단계 타일링 (레지스터, 공유 메모리, 글로벌 메모리)
__kernel void optimized_matmul() {
    // 1. 글로벌 → 공유 메모리 (타일 크기: 128x128)
    __local float tile_A[128][128];
    barrier();
}
